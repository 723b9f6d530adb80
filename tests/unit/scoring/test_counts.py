# SPDX-License-Identifier: Apache-2.0
"""Kills of many cells from counts agree with the records; resampled and simulated attempts behave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_benchmark.config.models import KillRuleConfig, ScoringConfig
from metric_benchmark.correlation.pairing import case_arrays
from metric_benchmark.errors import ConfigError
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.records.scores import MutantKills
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant
from metric_benchmark.scoring.counts import AttemptRedraw, SimulatedAttempts, kills_from_counts

RULES = [
    KillRuleConfig(name="exact"),
    KillRuleConfig(name="exact", test="fisher"),
    KillRuleConfig(name="deterministic"),
    KillRuleConfig(name="threshold", drop=0.5),
]


def drawn(rule, seed):
    rng = np.random.default_rng(seed)
    n_tasks, n_mutants = 6, 4
    n0, n = rng.integers(0, 7, n_tasks), rng.integers(0, 6, (n_tasks, n_mutants))
    a, b = rng.binomial(n0, 0.9), rng.binomial(n, rng.choice([0.0, 0.3, 0.9], n.shape))
    tasks = [f"t{i}" for i in range(n_tasks)]
    config = ScoringConfig(kill_rule=rule, min_valid_attempts=2)
    eligibility = assess_eligibility(tasks, None, config)

    def rewards(passed, total):
        return {t: [1.0] * int(p) + [0.0] * int(m - p) for t, p, m in zip(tasks, passed, total, strict=True)}

    records = [
        score_mutant(config, eligibility, rewards(a, n0), rewards(b[:, j], n[:, j]), variant=f"m{j}")
        for j in range(n_mutants)
    ]
    return (a, n0, b, n), records, tasks


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.name}-{r.test}")
@given(seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_counts_and_records_agree(rule, seed):
    counts, records, tasks = drawn(rule, seed)
    found = kills_from_counts(rule, *counts, min_valid=2)
    assert found.tolist() == [[record.tasks[task].outcome == "killed" for record in records] for task in tasks]


def test_attempts_that_all_agree_are_redrawn_to_themselves():
    rule = KillRuleConfig(name="exact")
    _, records, tasks = drawn(rule, 5)
    redraw = AttemptRedraw.of(rule, 2, records, tasks=tasks)
    assert redraw.n_baseline.tolist() == [records[0].tasks[t].n_baseline for t in tasks]
    certain = AttemptRedraw(rule, 2, np.array([10, 10]), np.array([10, 10]), np.array([[0], [5]]), np.array([[5], [5]]))
    assert certain(np.random.default_rng(1)).tolist() == [[True], [False]]
    unsure = AttemptRedraw(rule, 2, np.array([8]), np.array([10]), np.array([[1]]), np.array([[5]]))
    draws = [bool(unsure(np.random.default_rng(i))[0, 0]) for i in range(200)]
    assert 20 < sum(draws) < 180


def test_records_that_were_read_back_are_redrawn_in_the_order_of_the_case(tmp_path):
    """Records are written with sorted keys, so the tasks in them come back in the order of the alphabet."""
    rule, tasks = KillRuleConfig(name="exact"), ["zoo", "mid", "ape", "bee"]
    config = ScoringConfig(kill_rule=rule, min_valid_attempts=2)
    eligibility = assess_eligibility(tasks, None, config)
    baseline = {task: [1.0] * 10 for task in tasks}
    killed = {"m0": {"zoo"}, "m1": {"zoo", "bee"}}
    for name, by in killed.items():
        mutant = {task: [0.0 if task in by else 1.0] * 10 for task in tasks}
        write_record(tmp_path / name, score_mutant(config, eligibility, baseline, mutant, variant=name))
    records = [read_record(tmp_path / name, MutantKills) for name in killed]
    scores = score_case(eligibility, records, {"s": tasks})
    redraw = AttemptRedraw.of(rule, 2, records, tasks=scores.eligible_tasks)
    # Attempts that all agree are drawn as they are: the redraw is the kill matrix that stage 4 correlates.
    kills = case_arrays(scores, {"s": tasks}).kills
    assert kills.tolist() == [[True, True], [False, False], [False, False], [False, True]]
    assert redraw(np.random.default_rng(1)).tolist() == kills.tolist()


@pytest.mark.parametrize("rule", [{"name": "exact"}, {"name": "threshold", "drop": 0.3}])
def test_graded_rewards_cannot_be_redrawn_from_counts(rule):
    config = ScoringConfig(kill_rule=KillRuleConfig(**rule))
    eligibility = assess_eligibility(["a"], None, config)
    record = score_mutant(config, eligibility, {"a": [0.5, 1.0]}, {"a": [0.2, 0.0]}, variant="m")
    with pytest.raises(ConfigError, match="rewards of 0 and 1"):
        AttemptRedraw.of(config.kill_rule, 2, [record], tasks=["a"])


def test_simulated_attempts_show_faults_and_few_false_kills():
    faults = np.zeros((40, 50), dtype=bool)
    faults[:5] = True
    rng = np.random.default_rng(2)
    seen = SimulatedAttempts(KillRuleConfig(name="exact"), 2, n_baseline=10, n_mutant=10)(faults, rng)
    assert seen[:5].mean() > 0.8
    assert seen[5:].mean() < 0.02
    exact = SimulatedAttempts(KillRuleConfig(name="deterministic"), 1, 1, 1)
    assert np.array_equal(exact(faults, rng), faults)
