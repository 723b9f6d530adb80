# SPDX-License-Identifier: Apache-2.0
"""Statistics of paired comparisons: the same mutants judged by two suites, the same subsets by two metrics. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.reporting.numbers import partial_correlation

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairedDesign:
    """One case as two metrics or two runs see it.

    Attributes:
        membership: subsets x tasks, shape (K, T).
        kills: tasks x mutants of A and of B, each (T, M); the same matrix where only metrics are compared.
        covers: tasks x items of A and of B, each (T, I); the numbers of items may differ.
    """

    membership: Bools
    kills: tuple[Bools, Bools]
    covers: tuple[Bools, Bools]


def tango_interval(b: int, c: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Returns Tango's (1998) score interval for a difference of paired proportions, (b - c) / n.

    Args:
        b: pairs in which only the first succeeds.
        c: pairs in which only the second succeeds.
        n: all pairs, at least 1.
        level: two-sided confidence level.
    """
    z, point = NormalDist().inv_cdf((1 + level) / 2), (b - c) / n
    low = _bisect(lambda d: _tango_z(b, c, n, d) - z, -1.0, point)
    high = _bisect(lambda d: _tango_z(b, c, n, d) + z, point, 1.0)
    return low, high


def mcnemar_exact(b: int, c: int) -> float:
    """Returns the exact two-sided McNemar p-value: is it a coin which of the two succeeds where they differ?"""
    n, low = b + c, min(b, c)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(low + 1)) / 2**n)


def association(membership: Bools, kills: Bools, covers: Bools, weights: Floats, item_weights: Floats) -> float:
    """Returns the partial rank correlation of coverage and mutant score over subsets, given their size.

    Args:
        membership: subsets x tasks.
        kills: tasks x mutants.
        covers: tasks x items.
        weights: of the mutants.
        item_weights: of the items.
    """
    inside = membership.astype(np.float32)
    score = ((inside @ kills.astype(np.float32)) > 0.5) @ weights
    coverage = ((inside @ covers.astype(np.float32)) > 0.5) @ item_weights
    return partial_correlation(_round(coverage), _round(score), membership.sum(axis=1).astype(np.float64))


def bootstrap_difference(design: PairedDesign, rng: np.random.Generator, replicates: int) -> tuple[float, float, int]:
    """Resamples tasks and mutants, the same ones for both sides, and looks at the difference of associations.

    Returns:
        The difference B - A on the data, the standard deviation of its replicates, and how many of these are defined.
        The difference is NaN where an association is undefined.
    """
    items = [_distinct(cover) for cover in design.covers]
    n_tasks, n_mutants = design.kills[0].shape
    ones = np.ones(n_mutants)

    def difference(rows: NDArray[np.int64], weights: Floats) -> float:
        a, b = (
            association(design.membership, kills[rows], cover[rows], weights, item_weights)
            for kills, (cover, item_weights) in zip(design.kills, items, strict=True)
        )
        return b - a

    def draw() -> float:
        rows = np.asarray(rng.integers(n_tasks, size=n_tasks), dtype=np.int64)
        return difference(rows, rng.multinomial(n_mutants, ones / n_mutants).astype(np.float64))

    found = np.array([draw() for _ in range(replicates)])
    found = found[np.isfinite(found)]
    deviation = float(found.std(ddof=1)) if len(found) > 1 else math.nan
    return difference(np.arange(n_tasks, dtype=np.int64), ones), deviation, len(found)


def _tango_z(b: int, c: int, n: int, d: float) -> float:
    first, second = 2 * n, -b - c + (2 * n - b + c) * d
    third = -c * d * (1 - d)
    q = (math.sqrt(max(0.0, second * second - 4 * first * third)) - second) / (2 * first)
    variance = n * (2 * q + d * (1 - d))
    excess = b - c - n * d
    if variance <= 1e-15:
        return 0.0 if abs(excess) < 1e-12 else math.copysign(math.inf, excess)
    return excess / math.sqrt(variance)


def _bisect(of: Callable[[float], float], low: float, high: float) -> float:
    """Returns where a falling function crosses 0; the nearer end where it does not."""
    if of(low) <= 0:
        return low
    if of(high) >= 0:
        return high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) > 0 else (low, middle)
    return (low + high) / 2


def _distinct(cover: Bools) -> tuple[Bools, Floats]:
    """Merges items that the same tasks exercise; their number becomes a weight."""
    if cover.shape[1] == 0:
        return cover, np.zeros(0)
    columns, counts = np.unique(cover, axis=1, return_counts=True)
    return columns, counts.astype(np.float64)


def _round(values: Floats) -> Floats:
    """Keeps sums that are equal in exact arithmetic tied."""
    return np.round(values, 9)
