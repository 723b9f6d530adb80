# SPDX-License-Identifier: Apache-2.0
"""Numbers that only describe records for figures: size-only expectation, residual ranks, the order of heat maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.coverage import MetricCoverage
from metric_benchmark.records.scores import MutantScores

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MetricPoints:
    """The subsets one metric could measure: places among the record's pairs, and the values there."""

    index: tuple[int, ...]
    coverage: tuple[float, ...]
    score: tuple[float, ...]
    size: tuple[int, ...]


def metric_points(record: Correlation, metric: str) -> MetricPoints:
    """Returns the pairs of a metric that have a coverage."""
    rows = [
        (i, value, pair.mutant_score, pair.size)
        for i, pair in enumerate(record.pairs)
        if not isinstance(value := pair.coverage.get(metric, Undefined(reason="not_measured")), Undefined)
    ]
    return MetricPoints(
        index=tuple(row[0] for row in rows),
        coverage=tuple(row[1] for row in rows),
        score=tuple(row[2] for row in rows),
        size=tuple(row[3] for row in rows),
    )


def expect_hit(n_tasks: int, n_owners: int, size: int) -> float:
    """Returns the chance that a random subset has at least one of `n_owners` tasks: 1 - C(T-d, s) / C(T, s)."""
    return 1.0 - math.comb(n_tasks - n_owners, size) / math.comb(n_tasks, size)


def expect_by_size(
    scores: MutantScores, metric: MetricCoverage, points: MetricPoints
) -> tuple[tuple[int, float, float], ...]:
    """Returns (size, expected coverage, expected mutant score) of random subsets of each size that occurs.

    This is what a metric shows that follows size and nothing else. For an opaque metric, which says nothing about
    single tasks, the mean coverage of the case's own subsets stands for the expectation.
    """
    tasks = [task for task in scores.eligible_tasks if metric.kind == "opaque" or task in metric.tasks]
    n_tasks, n_mutants = len(scores.eligible_tasks), max(len(scores.mutants), 1)
    kills = [len(status.killed_by) for status in scores.mutants.values()]
    owners: dict[str, int] = dict.fromkeys(metric.items, 0)
    for task in tasks:
        for item in metric.tasks.get(task, ()):
            owners[item] = owners.get(item, 0) + 1
    found: list[tuple[int, float, float]] = []
    for size in sorted(set(points.size)):
        if metric.kind == "opaque":
            own = [c for c, s in zip(points.coverage, points.size, strict=True) if s == size]
            coverage = sum(own) / len(own)
        elif size > len(tasks):
            continue
        else:
            coverage = sum(expect_hit(len(tasks), n, size) for n in owners.values()) / max(len(owners), 1)
        found.append((size, coverage, sum(expect_hit(n_tasks, n, size) for n in kills) / n_mutants))
    return tuple(found)


def residual_ranks(points: MetricPoints) -> tuple[Floats, Floats] | None:
    """Returns the ranks of coverage and of score less what the rank of size explains of them.

    Their Pearson correlation is the partial Spearman correlation given size; None with fewer than 3 subsets.
    """
    if len(points.index) < 3:
        return None
    x, y, z = (_ranks(np.array(values, dtype=np.float64)) for values in (points.coverage, points.score, points.size))
    return _without(x, z), _without(y, z)


def partial_correlation(x: Floats, y: Floats, z: Floats) -> float:
    """Returns the correlation of the ranks of x and y with those of z held constant; NaN where it is undefined."""
    a, b = _without(_ranks(x), _ranks(z)), _without(_ranks(y), _ranks(z))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    # Rounding leaves a little of what z explains entirely.
    return float(a @ b) / scale if scale > 1e-9 * len(x) else math.nan


def order_matrix(matrix: Bools) -> tuple[list[int], list[int]]:
    """Returns an order of rows and of columns in which similar ones are neighbours (average linkage, Hamming)."""
    return _order(matrix), _order(matrix.T)


def kill_matrix(scores: MutantScores) -> tuple[Bools, Bools]:
    """Returns (killed, undetermined), each eligible tasks x mutants, in the record's order."""
    place = {task: i for i, task in enumerate(scores.eligible_tasks)}
    killed = np.zeros((len(place), len(scores.mutants)), dtype=bool)
    undetermined = np.zeros_like(killed)
    for column, status in enumerate(scores.mutants.values()):
        killed[[place[task] for task in status.killed_by], column] = True
        undetermined[[place[task] for task in status.undetermined_tasks], column] = True
    return killed, undetermined


def cover_matrix(tasks: Sequence[str], items: Sequence[str], owned: Mapping[str, Sequence[str]]) -> Bools:
    """Returns tasks x items."""
    place = {item: i for i, item in enumerate(items)}
    matrix = np.zeros((len(tasks), len(items)), dtype=bool)
    for row, task in enumerate(tasks):
        matrix[row, [place[item] for item in owned.get(task, ()) if item in place]] = True
    return matrix


def _order(matrix: Bools) -> list[int]:
    n = len(matrix)
    if n < 3 or matrix.shape[1] == 0:
        return sorted(range(n), key=lambda i: -int(matrix[i].sum()))
    from scipy.cluster.hierarchy import (  # pyright: ignore[reportMissingTypeStubs]
        leaves_list,  # pyright: ignore[reportUnknownVariableType]
        linkage,  # pyright: ignore[reportUnknownVariableType]
        optimal_leaf_ordering,  # pyright: ignore[reportUnknownVariableType]
    )

    # The heaviest first: linkage keeps the order of what it finds equally near.
    start = sorted(range(n), key=lambda i: -int(matrix[i].sum()))
    values = matrix[start].astype(np.float64)
    tree = linkage(values, "average", "hamming")  # pyright: ignore[reportUnknownVariableType]
    if n <= 200:
        tree = optimal_leaf_ordering(tree, values, "hamming")  # pyright: ignore[reportUnknownVariableType]
    leaves: list[int] = [int(i) for i in leaves_list(tree)]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    found = [start[i] for i in leaves]
    weight = [int(matrix[i].sum()) for i in found]
    half = n // 2
    return found if sum(weight[:half]) >= sum(weight[n - half :]) else found[::-1]


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values), dtype=np.float64)


def _without(y: Floats, z: Floats) -> Floats:
    y, z = y - y.mean(), z - z.mean()
    square = float(z @ z)
    return y - (float(z @ y) / square) * z if square > 0 else y
