# SPDX-License-Identifier: Apache-2.0
"""Mutant scores, flags and controls: E1-E4, then properties on random kill matrices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binomtest

from metric_benchmark.config.models import KillRuleConfig, ScoringConfig
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.scores import MutantScores
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant
from metric_benchmark.scoring.controls import clopper_pearson
from metric_benchmark.scoring.dominators import find_structure

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text())
SETTINGS = ScoringConfig(kill_rule=KillRuleConfig(name="deterministic"))
MATRIX_CASES = ["E1_basic", "E2_size_confound", "E3_constant", "E4_fixed_size"]


def case_of(kills, membership, controls=None):
    """Scores a 0/1/-1 (undetermined) kill matrix under the deterministic rule."""
    kills, membership = np.asarray(kills), np.asarray(membership)
    tasks = [f"t{i}" for i in range(len(kills))]
    eligibility = assess_eligibility(tasks, None, SETTINGS)
    baseline = {task: [1.0] for task in tasks}

    def record(column, name, role):
        mutant = {task: [1.0 - k] for task, k in zip(tasks, column, strict=True) if k >= 0}
        return score_mutant(SETTINGS, eligibility, baseline, mutant, variant=name, role=role)

    records = [record(column, f"m{j}", "mutant") for j, column in enumerate(kills.T)]
    if controls is not None:
        records += [record(column, f"control-{j}", "control") for j, column in enumerate(np.asarray(controls).T)]
    subsets = {f"s{k}": [tasks[i] for i in np.flatnonzero(row)] for k, row in enumerate(membership)}
    return score_case(eligibility, records, subsets)


@pytest.mark.parametrize("name", MATRIX_CASES)
def test_scores_of_the_worked_examples(name):
    example = REFERENCE[name]
    scores = case_of(example["kill_tasks_x_mutants"], example["subsets_x_tasks"])
    subsets = list(scores.subsets.values())

    assert [s.score for s in subsets] == pytest.approx(example["mutation_score"], abs=1e-9)
    assert [s.size for s in subsets] == example["size"]
    assert [len(s.detected) for s in subsets] == example["mutants_detected"]
    detects = [[int(f"m{j}" in s.detected) for j in range(scores.n_mutants)] for s in subsets]
    assert detects == example["detects_subsets_x_mutants"]


def test_flags_of_e1():
    example = REFERENCE["E1_basic"]
    scores = case_of(example["kill_tasks_x_mutants"], example["subsets_x_tasks"])
    assert scores.never_killed == [f"m{j}" for j in example["never_killed_mutants"]]
    assert [m for m, s in scores.mutants.items() if s.is_dominator] == [f"m{j}" for j in example["dominator_mutants"]]
    killable = [s.score_killable for s in scores.subsets.values()]
    assert killable == pytest.approx(example["mutation_score_excluding_never_killed"], abs=1e-9)
    assert {m: [int(t[1:]) for t in s.killed_by] for m, s in scores.mutants.items()} == {
        f"m{j}": tasks for j, tasks in example["kill_sets"].items()
    }


def test_flags_of_e4():
    example = REFERENCE["E4_fixed_size"]
    scores = case_of(example["kill_tasks_x_mutants"], example["subsets_x_tasks"])
    assert scores.trivial == [f"m{j}" for j in example["trivial_mutants"]]
    assert scores.duplicate_groups == [[f"m{j}" for j in g] for g in example["duplicate_groups"]]
    assert scores.mutants["m1"].duplicate_of == "m0"
    dominators = example["dominator_mutants"]
    assert [m for m, s in scores.mutants.items() if s.is_dominator] == [f"m{j}" for j in dominators]
    expected = [n / len(dominators) for n in example["mutants_detected_dominators_only"]]
    assert [s.score_dominators for s in scores.subsets.values()] == pytest.approx(expected, abs=1e-9)
    plain = {m for m, s in scores.mutants.items() if not s.is_trivial and s.duplicate_of is None}
    detected = [len(plain & set(s.detected)) for s in scores.subsets.values()]
    assert detected == example["mutants_detected_nontrivial_dedup"]


def test_scores_without_any_kill_are_undefined_where_there_is_nothing_to_divide_by():
    scores = case_of([[0, 0], [0, 0]], [[1, 0], [1, 1]])
    assert [s.score for s in scores.subsets.values()] == [0.0, 0.0]
    assert scores.subsets["s0"].score_killable == Undefined(reason="no_mutant_was_killed")
    assert scores.subsets["s0"].score_dominators == Undefined(reason="no_dominators")
    assert scores.n_dominators == 0
    assert MutantScores.model_validate(scores.to_json()) == scores


def test_controls_are_the_unit_of_the_false_kill_rate():
    # Two of four controls die of task 0. One size-1 subset of two holds it, both size-2 subsets do.
    membership = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 1]]
    controls = [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    noise = case_of(np.eye(3, dtype=int), membership, controls).noise
    assert noise.status == "ok"
    assert [(r.size, r.n_subsets, r.n_controls, r.rate) for r in noise.by_size] == [(1, 2, 4, 0.25), (2, 2, 4, 0.5)]
    theirs = binomtest(2, 4).proportion_ci(0.95, method="exact")
    assert (noise.suite.low, noise.suite.high) == pytest.approx((theirs.low, theirs.high))
    assert (noise.by_size[1].low, noise.by_size[1].high) == pytest.approx((theirs.low, theirs.high))
    assert noise.is_blocking  # 0.068 > 0.05


def test_kills_are_noise_only_beyond_chance():
    one_of_two = case_of([[1], [1]], [[1, 1]], [[1, 0], [0, 0]])
    assert not one_of_two.noise.is_blocking  # 1 of 2 may well be chance
    assert any("not deterministic" in warning for warning in one_of_two.warnings)
    assert case_of([[1], [1]], [[1, 1]], [[1, 1], [0, 0]]).noise.is_blocking  # 2 of 2: at least 0.158
    assert case_of([[1]], [[1]], [[1]]).noise.status == "not_assessable"
    assert case_of([[1]], [[1]]).noise.n_controls == 0


@pytest.mark.parametrize(("x", "n"), [(0, 2), (1, 2), (2, 2), (3, 7)])
def test_clopper_pearson_agrees_with_scipy(x, n):
    theirs = binomtest(x, n).proportion_ci(0.95, method="exact")
    assert clopper_pearson(x, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_subsets_count_with_eligible_tasks_and_may_be_dropped():
    eligibility = assess_eligibility(["a", "b"], {"a": [1.0], "b": [0.0]}, SETTINGS)
    record = score_mutant(SETTINGS, eligibility, {"a": [1.0]}, {"a": [0.0]}, variant="m")
    scores = score_case(eligibility, [record], {"both": ["a", "b"], "bad": ["b"]})
    assert scores.subsets["both"].size == 1
    assert scores.dropped_subsets == {"bad": "none of its 1 tasks is eligible"}
    with pytest.raises(EvidenceError, match="no subset has an eligible task"):
        score_case(eligibility, [record], {"bad": ["b"]})
    with pytest.raises(ConfigError, match="names 'nope'"):
        score_case(eligibility, [record], {"odd": ["nope"]})
    with pytest.raises(ConfigError, match="no mutant"):
        score_case(eligibility, [], {"both": ["a"]})
    with pytest.raises(EvidenceError, match="other tasks"):
        score_case(assess_eligibility(["a", "b"], None, SETTINGS), [record], {"both": ["a"]})


def test_detection_by_holm_is_stricter_in_larger_subsets():
    settings = ScoringConfig(kill_rule=KillRuleConfig(name="exact", test="fisher"))
    tasks = ["a", "b", "c"]
    eligibility = assess_eligibility(tasks, None, settings)
    baseline = {task: [1.0] * 3 for task in tasks}
    mutant = {"a": [0.0] * 3, "b": [0.0] * 3, "c": [0.0] * 3}
    record = score_mutant(settings, eligibility, baseline, mutant, variant="m")
    assert record.killed_by == tasks  # three times 1/20 together pass Benjamini-Hochberg
    scores = score_case(eligibility, [record], {"one": ["a"], "two": ["a", "b"]})
    assert scores.subsets["one"].detected_holm == ["m"]
    assert scores.subsets["two"].detected_holm == []
    assert scores.subsets["two"].detected == ["m"]


matrices = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, (n[0], n[1]), elements=st.integers(-1, 1)),
        hnp.arrays(np.int64, (n[2], n[0]), elements=st.integers(0, 1)).filter(lambda s: s.any(axis=1).all()),
    )
)


@given(matrices)
def test_bounds_bracket_the_score_and_stay_in_range(matrix):
    kills, membership = matrix
    for subset in case_of(kills, membership).subsets.values():
        assert 0 <= subset.score_low <= subset.score <= subset.score_high <= 1


@given(matrices, st.randoms(use_true_random=False))
def test_bounds_bracket_whatever_the_undetermined_cells_turn_out_to_be(matrix, random):
    kills, membership = matrix
    before = case_of(kills, membership)
    resolved = np.array([[random.randint(0, 1) if cell < 0 else cell for cell in row] for row in kills])
    after = case_of(resolved, membership)
    for name, subset in before.subsets.items():
        assert subset.score_low <= after.subsets[name].score <= subset.score_high


@given(matrices, st.data())
def test_one_more_kill_never_lowers_a_score(matrix, data):
    kills, membership = matrix
    more = kills.copy()
    more[data.draw(st.integers(0, kills.shape[0] - 1)), data.draw(st.integers(0, kills.shape[1] - 1))] = 1
    before, after = case_of(kills, membership), case_of(more, membership)
    assert all(after.subsets[name].score >= s.score for name, s in before.subsets.items())


@given(matrices, st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_tasks_mutants_and_subsets(matrix, random):
    kills, membership = matrix
    task_order, mutant_order = list(range(kills.shape[0])), list(range(kills.shape[1]))
    random.shuffle(task_order)
    random.shuffle(mutant_order)
    before = case_of(kills, membership)
    after = case_of(kills[task_order][:, mutant_order], membership[:, task_order])
    for a, b in zip(before.subsets.values(), after.subsets.values(), strict=True):
        assert (a.score, a.score_high, a.score_dominators) == (b.score, b.score_high, b.score_dominators)
    assert before.n_dominators == after.n_dominators


@given(hnp.arrays(np.bool_, st.tuples(st.integers(1, 6), st.integers(1, 7))))
def test_whoever_kills_all_dominators_kills_everything_ever_killed(kills):
    structure = find_structure(kills)
    columns = [frozenset(np.flatnonzero(column)) for column in kills.T]
    expected = [
        bool(c) and not any(d and d < c for d in columns) and c not in columns[:j] for j, c in enumerate(columns)
    ]
    assert structure.is_dominator.tolist() == expected
