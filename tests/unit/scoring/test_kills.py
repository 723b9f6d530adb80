# SPDX-License-Identifier: Apache-2.0
"""Kill rules, eligibility and design checks: E8 from raw attempts, and the edges of each rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metric_benchmark.config.models import KillRuleConfig, ScoringConfig
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.scoring import assess_eligibility, check_design, require_design, score_case, score_mutant

E8 = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text())["E8_kill_pipeline"]
TASKS = [f"t{i}" for i in range(5)]


def rewards(cells):
    return {task: [1.0] * p + [0.0] * (n - p) for task, (p, n) in zip(TASKS, cells, strict=True) if n}


def config(name="exact", **more):
    rule = {key: more.pop(key) for key in ("test", "alpha", "drop") if key in more}
    return ScoringConfig(kill_rule=KillRuleConfig(name=name, **rule), **more)


def e8_kills(test):
    settings = config(test=test)
    eligibility = assess_eligibility(TASKS, rewards(E8["screening_pass_n"]), settings)
    kills = [
        score_mutant(
            settings,
            eligibility,
            rewards(E8["baseline_pass_n"]),
            rewards(cells),
            variant=name,
            role="control" if "control" in name else "mutant",
        )
        for name, cells in E8["mutants_pass_n"].items()
    ]
    return eligibility, {record.variant: record for record in kills}


@pytest.mark.parametrize(("test", "p", "adjusted", "killed", "tolerance"), [
    ("fisher", "fisher", "bh", "killed_tasks", 1e-9),
    ("boschloo", "boschloo", "boschloo_bh", "killed_tasks_boschloo", 1e-6),
])  # fmt: skip
@pytest.mark.parametrize("name", list(E8["per_mutant"]))
def test_e8_from_raw_attempts(test, p, adjusted, killed, tolerance, name):
    eligibility, kills = e8_kills(test)
    expected, record = E8["per_mutant"][name], kills[name]
    tested = [TASKS[i] for i in expected["tested_tasks"]]

    assert eligibility.eligible_tasks == [t for t, ok in zip(TASKS, E8["eligible"], strict=True) if ok]
    assert record.tested_tasks == tested
    assert [record.tasks[t].p_value for t in tested] == pytest.approx(expected[p], abs=tolerance)
    assert [record.tasks[t].p_adjusted for t in tested] == pytest.approx(expected[adjusted], abs=tolerance)
    assert record.killed_by == [TASKS[i] for i in expected[killed]]
    assert record.undetermined_tasks == [TASKS[i] for i in expected["undetermined_tasks"]]


@pytest.mark.parametrize("test", ["fisher", "boschloo"])
def test_e8_scores_bounds_and_controls(test):
    eligibility, kills = e8_kills(test)
    subsets = {
        f"s{k}": [t for t, member in zip(TASKS, row, strict=True) if member]
        for k, row in enumerate(E8["subsets_x_tasks"])
    }
    scores = score_case(eligibility, list(kills.values()), subsets)

    assert [s.score for s in scores.subsets.values()] == pytest.approx(E8["mutation_score"], abs=1e-9)
    bounds = [[s.score_low, s.score_high] for s in scores.subsets.values()]
    assert bounds == [pytest.approx(b, abs=1e-9) for b in E8["mutation_score_bounds"]]
    assert list(scores.controls) == ["m_AA_control"]
    assert scores.controls["m_AA_control"].status == "survived"
    assert sum(c.status == "killed" for c in scores.controls.values()) == E8["false_kill_rate_AA"]
    assert scores.subsets["s3"].size == 4  # one of its five tasks is ineligible
    assert scores.subsets["s3"].ineligible_tasks == ["t3"]
    assert scores.noise.status == "not_assessable"  # one control is not enough


def test_infrastructure_errors_do_not_fail_a_task():
    # The same three failures; in one case beside two passes, in the other nothing else was valid.
    settings = config(test="fisher")
    everything = assess_eligibility(["a"], None, settings)
    lost = score_mutant(settings, everything, {"a": [1, 1, 1]}, {"a": [0.0]}, variant="m")
    assert lost.status == "undetermined"
    assert "1 valid mutant" in lost.tasks["a"].reason
    assert not everything.screened
    assert "no screening run" in everything.reason


def test_three_of_three_against_none_of_three_kills_although_one_twentieth_is_no_float():
    settings = config(test="fisher")
    record = score_mutant(
        settings, assess_eligibility(["a"], None, settings), {"a": [1.0] * 3}, {"a": [0.0] * 3}, variant="m"
    )
    assert record.tasks["a"].p_value == pytest.approx(0.05)
    assert record.status == "killed"


def test_the_suite_decides_not_the_task_alone():
    # p = 1/20 alone in a suite of two tasks becomes 1/10: not a kill.
    settings = config(test="fisher")
    eligible = assess_eligibility(["a", "b"], None, settings)
    baseline = {"a": [1.0] * 3, "b": [1.0] * 3}
    record = score_mutant(settings, eligible, baseline, {"a": [0.0] * 3, "b": [1.0] * 3}, variant="m")
    assert record.tasks["a"].p_adjusted == pytest.approx(0.1)
    assert record.status == "survived"
    assert any("2 tasks must fail together" in warning for warning in record.warnings)


def test_deterministic_rule():
    settings = config("deterministic")
    eligible = assess_eligibility(["a", "b", "c", "d"], None, settings)
    baseline = {"a": [1.0], "b": [1.0, 1.0], "c": [1.0, 0.0], "d": []}
    mutant = {"a": [0.0], "b": [1.0, 1.0], "c": [0.0, 0.0], "d": [0.0]}
    record = score_mutant(settings, eligible, baseline, mutant, variant="m", operator="early_stop")
    assert {task: cell.outcome for task, cell in record.tasks.items()} == {
        "a": "killed", "b": "survived", "c": "survived", "d": "undetermined",
    }  # fmt: skip
    assert (record.status, record.killed_by, record.undetermined_tasks) == ("killed", ["a"], ["d"])
    assert record.operator == "early_stop"
    assert record.tasks["a"].p_value is None
    assert record.suite_test is None


def test_threshold_rule_compares_mean_rewards_and_says_it_is_uncontrolled():
    settings = config("threshold", drop=0.5)
    eligible = assess_eligibility(["a", "b"], None, settings)
    record = score_mutant(
        settings, eligible, {"a": [1, 1], "b": [1, 1]}, {"a": [0.5, 0.5], "b": [0.5, 0.6]}, variant="m"
    )
    assert record.killed_by == ["a"]
    assert not record.rule.is_controlled
    assert any("does not control" in warning for warning in record.warnings)


def test_graded_rewards_are_tested_by_permuting_attempts():
    settings = config()
    eligible = assess_eligibility(["a"], None, settings)
    record = score_mutant(settings, eligible, {"a": [0.9, 1.0, 0.8, 0.95]}, {"a": [0.1, 0.2, 0.0]}, variant="m")
    assert record.tasks["a"].test == "attempt_permutation"
    assert record.tasks["a"].p_value == pytest.approx(1 / 35)
    assert record.status == "killed"


def test_a_task_at_the_threshold_of_screening_is_eligible_and_one_without_attempts_is_not():
    found = assess_eligibility(["a", "b", "c"], {"a": [1, 1, 1, 1, 0], "b": [1, 0]}, config())
    assert found.eligible_tasks == ["a"]
    assert found.ineligible["c"] == "no valid screening attempt"
    assert found.pass_share == {"a": 0.8, "b": 0.5, "c": None}


def test_a_case_without_eligible_tasks_is_refused():
    with pytest.raises(EvidenceError, match="none of the 2 tasks"):
        assess_eligibility(["a", "b"], {"a": [0.0]}, config())


@pytest.mark.parametrize(("n0", "n", "largest"), [(3, 3, 3), (5, 5, 51), (10, 3, 56), (10, 5, 700)])
def test_largest_suite_in_which_one_task_kills_alone(n0, n, largest):
    at, above = (check_design(config(), n_baseline=n0, n_mutant=n, n_tasks=tasks) for tasks in (largest, largest + 1))
    assert at.max_tasks == largest
    assert (at.warning, at.n_tasks_together) == (None, 1)
    assert above.n_tasks_together == 2
    assert "2 tasks must fail together" in above.warning


def test_designs_that_cannot_kill_are_refused_with_the_numbers():
    with pytest.raises(ConfigError, match=r"smallest p is 0\.0625, above alpha = 0\.05"):
        require_design(config(), n_baseline=2, n_mutant=2, n_tasks=10)
    with pytest.raises(ConfigError, match=r"needs 2 valid attempts"):
        require_design(config(), n_baseline=5, n_mutant=1, n_tasks=10)
    assert require_design(config("deterministic"), n_baseline=1, n_mutant=1, n_tasks=10).refusal is None
    assert (
        "does not control" in check_design(config("threshold", drop=0.5), n_baseline=3, n_mutant=3, n_tasks=9).warning
    )
