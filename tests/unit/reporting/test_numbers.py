# SPDX-License-Identifier: Apache-2.0
"""Descriptive numbers of the figures, against worked-out values and against the records."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.numbers import (
    cover_matrix,
    expect_by_size,
    expect_hit,
    kill_matrix,
    metric_points,
    order_matrix,
    residual_ranks,
)


def test_chance_of_a_hit_by_hand_and_by_enumeration():
    # 4 tasks, 1 of them kills: a pair of tasks has it in 3 of 6 cases.
    assert expect_hit(4, 1, 2) == 0.5
    assert expect_hit(4, 0, 2) == 0.0
    assert expect_hit(4, 3, 2) == 1.0
    hits = [any(t < 3 for t in chosen) for chosen in itertools.combinations(range(9), 4)]
    assert expect_hit(9, 3, 4) == pytest.approx(sum(hits) / len(hits))


def test_size_alone_is_expected_to_reach_what_random_subsets_reach(finished):
    case = load_report(finished).cases[1]
    points = metric_points(case.correlation, "tool_calls")
    tasks, kills = case.scores.eligible_tasks, kill_matrix(case.scores)[0]
    cover = cover_matrix(tasks, case.coverage.metrics["tool_calls"].items, case.coverage.metrics["tool_calls"].tasks)
    for size, coverage, score in expect_by_size(case.scores, case.coverage.metrics["tool_calls"], points):
        if size > 3:
            continue
        chosen = [list(c) for c in itertools.combinations(range(len(tasks)), size)]
        assert coverage == pytest.approx(np.mean([cover[c].any(axis=0).mean() for c in chosen]))
        assert score == pytest.approx(np.mean([kills[c].any(axis=0).mean() for c in chosen]))


@pytest.mark.parametrize("metric", ["tool_calls", "synthetic"])
@pytest.mark.parametrize("case", [0, 1])
def test_the_residuals_correlate_as_the_partial_spearman_of_the_record(finished, case, metric):
    record = load_report(finished).cases[case].correlation
    x, y = residual_ranks(metric_points(record, metric))
    expected = record.metrics[metric].estimates.partial_spearman_given_size.value
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(expected)


def test_matrices_are_those_of_the_records(finished):
    case = load_report(finished).cases[0]
    killed, undetermined = kill_matrix(case.scores)
    assert not undetermined.any()
    names = list(case.scores.mutants)
    assert {names[j] for j in np.flatnonzero(killed.any(axis=0))} == set(names) - set(case.scores.never_killed)
    row = case.scores.eligible_tasks.index(case.scores.mutants["blind-1"].killed_by[0])
    assert killed[row, names.index("blind-1")]


def test_the_order_puts_equal_lines_beside_each_other():
    matrix = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 1]], dtype=bool)
    rows, columns = order_matrix(matrix)
    assert sorted(rows) == [0, 1, 2, 3, 4]
    assert abs(rows.index(0) - rows.index(2)) == 1
    assert abs(rows.index(1) - rows.index(3)) == 1
    assert abs(columns.index(0) - columns.index(1)) == 1


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 3), (5, 0)])
def test_tiny_matrices_have_an_order(shape):
    rows, columns = order_matrix(np.zeros(shape, dtype=bool))
    assert sorted(rows) == list(range(shape[0]))
    assert sorted(columns) == list(range(shape[1]))
