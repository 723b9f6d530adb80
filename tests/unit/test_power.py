# SPDX-License-Identifier: Apache-2.0
"""Power plans: simulated power moves as it must, costs add up, advice names the cheapest change that suffices."""

from __future__ import annotations

import numpy as np
import pytest

from metric_benchmark import power
from metric_benchmark.config.models import KillRuleConfig, ScoringConfig
from metric_benchmark.correlation.planning import Design, simulate_power, smallest_detectable_effect
from metric_benchmark.correlation.worlds import ItemWorld, draw_membership
from metric_benchmark.power import plan_power, single_changes
from metric_benchmark.records.correlation import PowerPoint

SIZES = (4, 8, 12, 16)
EXACT = ScoringConfig(kill_rule=KillRuleConfig(name="exact"))
DETERMINISTIC = ScoringConfig(kill_rule=KillRuleConfig(name="deterministic"))


def unseen(faults, _rng):
    return faults


def test_trials_of_a_design():
    design = Design(40, 20, 200, SIZES, n_baseline=20, n_mutant=10, n_screening=5, n_controls=2, n_control=10)
    assert design.n_trials == 40 * (20 + 5 + 2 * 10 + 20 * 10)


def test_without_a_link_the_test_rejects_about_as_often_as_it_may():
    design = Design(20, 10, 40, SIZES)
    none = simulate_power(design, ItemWorld(link=0.0), unseen, seed=1, n_simulations=200, n_replicates=99)
    assert none.power < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    strong = simulate_power(design, ItemWorld(link=1.0), unseen, seed=1, n_simulations=60, n_replicates=99)
    assert strong.power > none.power + 0.2
    assert strong.effect > 0.2


def test_more_mutants_and_attempts_give_more_power():
    small, large = (
        simulate_power(Design(20, m, 60, SIZES), ItemWorld(), unseen, seed=2, n_simulations=60, n_replicates=99)
        for m in (5, 30)
    )
    assert large.power > small.power


def test_verdicts_are_counted_on_request():
    point = simulate_power(
        Design(40, 20, 100, SIZES), ItemWorld(), unseen, seed=3, n_simulations=20, n_replicates=99, with_verdicts=True
    )
    assert 0 < point.p_supported <= point.power
    assert point.p_refuted <= 0.2


def point(power, effect):
    return PowerPoint(link=1, effect=effect, power=power, stderr=0, n_simulations=1, n_trials=1)


def test_smallest_detectable_effect_lies_between_the_points_around_the_target():
    assert smallest_detectable_effect([point(0.2, 0.1), point(0.6, 0.2), point(1.0, 0.4)]) == pytest.approx(0.3)
    assert smallest_detectable_effect([point(0.9, 0.15)]) == 0.15
    assert smallest_detectable_effect([point(0.2, 0.1), point(0.7, 0.3)]) is None
    assert smallest_detectable_effect([]) is None


def test_a_plan_compares_ways_to_spend_money():
    design = Design(20, 10, 60, SIZES, n_baseline=5, n_mutant=5)
    plan = plan_power(design, EXACT, seed=1, n_simulations=10)
    singles = [option.change for option in plan.options if " + " not in option.change]
    assert set(singles) == {change for change, _ in single_changes(design, EXACT)}
    assert all(option.extra_trials == option.n_trials - design.n_trials for option in plan.options)
    assert min(plan.options, key=lambda o: o.extra_trials).change == "200 subsets"
    assert [p.link for p in plan.curve] == [0.25, 0.5, 0.75, 1.0]
    assert plan == plan_power(design, EXACT, seed=1, n_simulations=10)
    assert plan.advice.startswith("power is")


def test_changes_are_combined_until_power_suffices_beginning_with_what_is_free_or_needed(monkeypatch):
    def simulated(of, *_args, **_more):
        power = 0.2 + 0.25 * (of.n_mutants >= 20) + 0.2 * (of.n_tasks >= 40) + 0.2 * (of.n_subsets >= 200)
        return point(power, 0.3)

    monkeypatch.setattr(power, "simulate_power", simulated)
    plan = plan_power(Design(20, 8, 60, SIZES), DETERMINISTIC)
    assert [(o.change, round(o.power, 2)) for o in plan.options] == [
        ("200 subsets", 0.4), ("40 tasks", 0.4), ("20 mutants", 0.45),
        ("200 subsets + 20 mutants", 0.65), ("200 subsets + 20 mutants + 40 tasks", 0.85),
    ]  # fmt: skip
    assert plan.advice == (
        "power is 0.20, that is, a true link is found in 20% of such experiments; the cheapest combination tried that "
        "reaches 0.8 and allows a verdict is 200 subsets + 20 mutants + 40 tasks (660 trials more, power 0.85)"
    )
    # With 8 mutants no verdict is possible, whatever the power.
    monkeypatch.setattr(power, "simulate_power", lambda *_args, **_more: point(0.9, 0.3))
    advice = plan_power(Design(20, 8, 200, SIZES), DETERMINISTIC).advice
    assert "; the cheapest single change that reaches 0.8 and allows a verdict is 20 mutants (240 trials" in advice


def test_notes_name_what_no_power_can_repair():
    plan = plan_power(Design(12, 6, 30, (2, 4)), DETERMINISTIC, n_simulations=2, with_options=False)
    assert plan.notes == [
        "12 tasks: below 20 every verdict is inconclusive",
        "6 mutants: below 10 every verdict is inconclusive",
    ]
    assert plan.options == []
    weak = plan_power(Design(20, 10, 30, (2, 4), n_baseline=2, n_mutant=2), EXACT, n_simulations=2, with_options=False)
    assert "no task can ever kill a mutant" in weak.notes[0]


def test_drawn_subsets_have_the_asked_sizes():
    membership = draw_membership(np.random.default_rng(1), 500, 10, (2, 5, 50))
    assert set(membership.sum(axis=1)) == {2, 5, 10}
