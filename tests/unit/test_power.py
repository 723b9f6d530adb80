# SPDX-License-Identifier: Apache-2.0
"""Power plans: simulated power moves as it must, costs add up, advice names the cheapest change that suffices."""

from __future__ import annotations

import numpy as np
import pytest

from metric_benchmark import power
from metric_benchmark.config.models import KillRuleConfig, ScoringConfig
from metric_benchmark.correlation import planning
from metric_benchmark.correlation.permutation import task_permutation_test
from metric_benchmark.correlation.planning import Claim, Design, link_of, simulate_power, smallest_detectable_effect
from metric_benchmark.correlation.worlds import ItemWorld, draw_membership
from metric_benchmark.power import plan_power, plan_settling, single_changes
from metric_benchmark.records.correlation import PowerPoint

SIZES = (4, 8, 12, 16)
EXACT = ScoringConfig(kill_rule=KillRuleConfig(name="exact"))
DETERMINISTIC = ScoringConfig(kill_rule=KillRuleConfig(name="deterministic"))
TEST_ONLY = Claim()


def unseen(faults, _rng):
    return faults


def test_trials_of_a_design():
    design = Design(40, 20, 200, SIZES, n_baseline=20, n_mutant=10, n_screening=5, n_controls=2, n_control=10)
    assert design.n_trials == 40 * (20 + 5 + 2 * 10 + 20 * 10)


def simulated(design, link, claim=TEST_ONLY, seed=1, n=60):
    return simulate_power(design, ItemWorld(link=link), unseen, claim, seed=seed, n_simulations=n)


@pytest.mark.parametrize("link", [0.0, 0.5, 1.0])
def test_who_stops_permuting_early_supports_the_same_experiments(link, monkeypatch):
    """Against all permutations at once: the first are the first of all, and what exceeds does not go away."""
    design, claim = Design(20, 10, 40, SIZES), Claim(minimum_effect=0.05, n_family=4)
    monkeypatch.setattr(planning, "_FIRST_PERMUTATIONS", claim.n_simulated_replicates)
    whole = simulated(design, link, claim)
    monkeypatch.undo()
    n_permuted = []

    def counted(*matrices, n_replicates, **more):
        n_permuted.append(n_replicates)
        return task_permutation_test(*matrices, n_replicates=n_replicates, **more)

    monkeypatch.setattr(planning, "task_permutation_test", counted)
    assert simulated(design, link, claim).power == whole.power
    if link == 0.0:
        assert sum(n_permuted) < 0.5 * 60 * claim.n_simulated_replicates


def test_without_a_link_no_more_is_supported_than_alpha_allows():
    design = Design(20, 10, 40, SIZES)
    none = simulated(design, 0.0, n=200)
    assert none.power < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    strong = simulated(design, 1.0)
    assert strong.power > none.power + 0.2
    assert strong.effect > 0.2


def test_more_mutants_give_more_power():
    small, large = (simulated(Design(20, m, 60, SIZES), 1.0, seed=2) for m in (5, 30))
    assert large.power > small.power


def test_power_is_of_the_decision_its_level_its_minimum_effect_and_its_family():
    design = Design(20, 10, 60, SIZES)
    alone = simulated(design, 1.0)
    for harder in (Claim(alpha=0.01), Claim(minimum_effect=0.5), Claim(n_family=8)):
        assert simulated(design, 1.0, harder).power < alone.power - 0.1
    # With so few permutations no p-value times eight is small enough, whatever the link.
    assert simulated(design, 1.0, Claim(n_family=8, replicates=100)).power == 0.0


def test_a_claim_is_refuted_where_there_is_nothing_and_the_minimum_effect_is_large():
    design, claim = Design(40, 20, 100, SIZES), Claim(minimum_effect=0.4)
    found = simulate_power(design, ItemWorld(link=0.0), unseen, claim, seed=1, n_simulations=20, with_refuted=True)
    assert found.p_refuted > 0.7
    assert found.power == 0.0


def test_permutations_are_enough_for_the_family_and_no_more_than_the_analysis_does():
    assert Claim().n_simulated_replicates == 199
    # Ten permutations below the level of the family: 10 * 4 / .05, less the observed one.
    assert Claim(n_family=4).n_simulated_replicates == 799
    assert Claim(n_family=40).n_simulated_replicates == 2000
    assert Claim(n_family=4, replicates=100).smallest_p == pytest.approx(4 / 101)


def test_the_link_that_shows_as_an_effect_lies_between_those_around_it():
    curve = [point(0.2, 0.1).model_copy(update={"link": 0.5}), point(0.6, 0.3)]
    assert [link_of(effect, curve) for effect in (-0.2, 0.05, 0.2, 0.9)] == pytest.approx([0.0, 0.25, 0.75, 1.0])


def point(power, effect):
    return PowerPoint(link=1, effect=effect, power=power, stderr=0, n_simulations=1, n_trials=1)


def test_smallest_detectable_effect_lies_between_the_points_around_the_target():
    assert smallest_detectable_effect([point(0.2, 0.1), point(0.6, 0.2), point(1.0, 0.4)]) == pytest.approx(0.3)
    assert smallest_detectable_effect([point(0.9, 0.15)]) == 0.15
    # Noise lets a simulated curve fall, which real power does not.
    assert smallest_detectable_effect([point(0.85, 0.1), point(0.78, 0.2), point(0.95, 0.3)]) == 0.1
    assert smallest_detectable_effect([point(0.6, 0.1), point(0.2, 0.2), point(1.0, 0.3)]) == pytest.approx(0.25)
    assert smallest_detectable_effect([point(0.2, 0.1), point(0.7, 0.3)]) is None
    assert smallest_detectable_effect([]) is None


def test_a_plan_compares_ways_to_spend_money():
    design = Design(20, 10, 60, SIZES, n_baseline=5, n_mutant=5)
    plan = plan_power(design, EXACT, TEST_ONLY, seed=1, n_simulations=10)
    singles = [option.change for option in plan.options if " + " not in option.change]
    assert set(singles) == {change for change, _ in single_changes(design, EXACT)}
    assert all(option.extra_trials == option.n_trials - design.n_trials for option in plan.options)
    assert min(plan.options, key=lambda o: o.extra_trials).change == "200 subsets"
    assert [p.link for p in plan.curve] == [0.25, 0.5, 0.75, 1.0]
    assert plan == plan_power(design, EXACT, TEST_ONLY, seed=1, n_simulations=10)
    assert plan.advice.startswith("power is")


def test_changes_are_combined_until_power_suffices_beginning_with_what_is_free_or_needed(monkeypatch):
    def simulated(of, *_args, **_more):
        power = 0.2 + 0.25 * (of.n_mutants >= 20) + 0.2 * (of.n_tasks >= 40) + 0.2 * (of.n_subsets >= 200)
        return point(power, 0.3)

    monkeypatch.setattr(power, "simulate_power", simulated)
    plan = plan_power(Design(20, 8, 60, SIZES), DETERMINISTIC, TEST_ONLY)
    assert [(o.change, round(o.power, 2)) for o in plan.options] == [
        ("200 subsets", 0.4), ("40 tasks", 0.4), ("20 mutants", 0.45),
        ("200 subsets + 20 mutants", 0.65), ("200 subsets + 20 mutants + 40 tasks", 0.85),
    ]  # fmt: skip
    assert plan.advice == (
        "power is 0.20, that is, a true link is found in 20% of such experiments; the cheapest combination tried that "
        "reaches 80% and allows a verdict is to have 200 subsets + 20 mutants + 40 tasks (660 trials more: 85%)"
    )
    # With 8 mutants no verdict is possible, whatever the power.
    monkeypatch.setattr(power, "simulate_power", lambda *_args, **_more: point(0.9, 0.3))
    advice = plan_power(Design(20, 8, 200, SIZES), DETERMINISTIC, TEST_ONLY).advice
    assert (
        "; the cheapest single change that reaches 80% and allows a verdict is to have 20 mutants (240 trials" in advice
    )


def test_no_more_subsets_are_proposed_than_there_can_be(monkeypatch):
    monkeypatch.setattr(power, "simulate_power", lambda of, *_args, **_more: point(0.5 + of.n_subsets / 1000, 0.3))
    plan = plan_power(Design(2, 3, 3, (1, 1, 2)), DETERMINISTIC, TEST_ONLY)
    assert [o.change for o in plan.options] == [
        "40 tasks", "20 mutants", "40 tasks + 20 mutants", "40 tasks + 20 mutants + 200 subsets",
    ]  # fmt: skip
    # Of 12 tasks there are 66 pairs and 220 triples; of 40 there are 780 pairs, but only 40 single ones.
    for sizes, changes in (
        ((2, 2), ["40 tasks", "20 mutants", "40 tasks + 20 mutants", "40 tasks + 20 mutants + 200 subsets"]),
        (
            (3,),
            ["200 subsets", "40 tasks", "20 mutants", "200 subsets + 40 tasks", "200 subsets + 40 tasks + 20 mutants"],
        ),
        ((1,), ["40 tasks", "20 mutants", "40 tasks + 20 mutants"]),
    ):
        plan = plan_power(Design(12, 8, 12, sizes), DETERMINISTIC, TEST_ONLY)
        assert [o.change for o in plan.options] == changes


def test_what_settles_a_claim_counts_both_verdicts_at_the_link_that_shows_as_what_was_estimated(monkeypatch):
    links = []

    def simulated(of, world, *_args, **_more):
        links.append(world.link)
        return point(0.1, 0.3).model_copy(update={"p_refuted": 0.2 + 0.6 * (of.n_mutants >= 60)})

    monkeypatch.setattr(power, "simulate_power", simulated)
    curve = [point(0.1, 0.15).model_copy(update={"link": 0.5}), point(0.5, 0.3)]
    found = plan_settling(
        Design(40, 30, 200, SIZES), DETERMINISTIC, Claim(minimum_effect=0.25), 0.075, curve, n_simulations=25
    )
    assert set(links) == {0.25}
    assert (found.share, found.stderr) == (pytest.approx(0.3), pytest.approx(np.sqrt(0.3 * 0.7 / 25)))
    assert found.advice == (
        "if the association is +0.07 as estimated, 30% of experiments of this size either support or refute that it is "
        "at least 0.25; the cheapest single change that reaches 80% and allows a verdict is to have 60 mutants "
        "(1200 trials more: 90%)"
    )


@pytest.mark.parametrize(
    ("effect", "start"),
    [
        (0.35, "at the strongest link that was simulated, which shows as less than the +0.35 estimated here, 90% of"),
        (None, "at the strongest link that was simulated, 90% of"),
    ],
)
def test_an_effect_that_no_simulated_link_shows_is_said_to_be_beyond(monkeypatch, effect, start):
    monkeypatch.setattr(power, "simulate_power", lambda *_args, **_more: point(0.9, 0.3))
    found = plan_settling(
        Design(40, 20, 200, SIZES), DETERMINISTIC, Claim(minimum_effect=0.2), effect, [point(0.5, 0.3)]
    )
    assert found.advice.startswith(start)
    assert found.advice.endswith(": new data of this size will probably do")


def test_an_estimate_that_points_the_other_way_is_simulated_as_none_and_nothing_is_proposed_to_be_bought(monkeypatch):
    links = []

    def simulated(of, world, *_args, **_more):
        links.append(world.link)
        return point(0.0, 0.0).model_copy(update={"p_refuted": 0.3 + 0.6 * (of.n_mutants >= 60)})

    monkeypatch.setattr(power, "simulate_power", simulated)
    found = plan_settling(
        Design(40, 30, 200, SIZES), DETERMINISTIC, Claim(minimum_effect=0.25), -0.5, [point(0.5, 0.3)]
    )
    assert (links, found.options) == ([0.0], [])
    assert found.advice == (
        "if there is no association (the estimate here, −0.50, points the other way), 30% of experiments of this size "
        "either support or refute that there is one of at least 0.25 with 1240 trials"
    )


def test_notes_name_what_no_power_can_repair():
    claim = Claim(minimum_effect=0.9, n_family=8, replicates=100)
    plan = plan_power(Design(12, 6, 30, (2, 4)), DETERMINISTIC, claim, n_simulations=2, with_options=False)
    strongest = max(point.effect for point in plan.curve)
    assert plan.notes == [
        "12 tasks: below 20 every verdict is inconclusive",
        "6 mutants: below 10 every verdict is inconclusive",
        "100 permutations give no adjusted p-value below 0.0792 to one of 8 claims, so nothing can be supported at "
        "0.05; set `correlation.replicates` to 160 or more",
        f"even the strongest link that was simulated shows as {strongest:.2f}, less than the minimum effect 0.9",
    ]
    assert plan.options == []
    design = Design(20, 10, 30, (2, 4), n_baseline=2, n_mutant=2)
    weak = plan_power(design, EXACT, TEST_ONLY, n_simulations=2, with_options=False)
    assert "no task can ever kill a mutant" in weak.notes[0]


def test_drawn_subsets_have_the_asked_sizes():
    membership = draw_membership(np.random.default_rng(1), 500, 10, (2, 5, 50))
    assert set(membership.sum(axis=1)) == {2, 5, 10}
