# SPDX-License-Identifier: Apache-2.0
"""Exact tests of one task: did the baseline do better than the mutant? Fisher, Boschloo, attempts."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_GRID_POINTS = 2001
_EXACT_SCALES = (1, 5040, 10_000)
_COARSE_LEVELS = 1000
_FEW_ARRANGEMENTS = 2_000


@functools.lru_cache(maxsize=256)
def fisher_table(n_baseline: int, n_mutant: int) -> Floats:
    """Returns Fisher's one-sided p for every outcome: entry [a, b] has a baseline and b mutant passes.

    Each p is a quotient of two integers, rounded once, so outcomes that tie in theory are equal floats.
    """
    table = np.ones((n_baseline + 1, n_mutant + 1))
    for total in range(n_baseline + n_mutant + 1):
        lowest, highest = max(0, total - n_mutant), min(n_baseline, total)
        tail, whole = 0, math.comb(n_baseline + n_mutant, total)
        for a in range(highest, lowest - 1, -1):
            tail += math.comb(n_baseline, a) * math.comb(n_mutant, total - a)
            table[a, total - a] = tail / whole
    table.setflags(write=False)
    return table


@functools.lru_cache(maxsize=256)
def boschloo_table(n_baseline: int, n_mutant: int) -> Floats:
    """Returns Boschloo's one-sided p for every outcome: entry [a, b] has a baseline and b mutant passes.

    Fisher's p orders the outcomes; p is the largest probability, over the common pass rate, of an outcome
    that is at least as extreme (Boschloo 1970). The maximum is taken over 2001 rates, equally spaced in
    arcsin(sqrt(rate)), with a parabola through the points around each peak; the error is below 1e-7 of the
    value.
    """
    fisher = fisher_table(n_baseline, n_mutant)
    total = np.add.outer(np.arange(n_baseline + 1), np.arange(n_mutant + 1)).ravel()
    n = n_baseline + n_mutant
    # Given `total` passes, an outcome's probability is hypergeometric whatever the rate: only the total
    # depends on it.
    weight = np.array(
        [
            math.comb(n_baseline, a) * math.comb(n_mutant, b) / math.comb(n, a + b)
            for a in range(n_baseline + 1)
            for b in range(n_mutant + 1)
        ]
    )
    levels, level_of = np.unique(fisher.ravel(), return_inverse=True)
    mass = np.zeros((len(levels), n + 1))
    np.add.at(mass, (level_of, total), weight)
    mass = np.minimum(np.cumsum(mass, axis=0), 1.0)
    rate = np.sin(np.linspace(0.0, np.pi / 2, _GRID_POINTS)) ** 2
    probability = mass @ np.asarray(scipy.stats.binom.pmf(np.arange(n + 1)[:, None], n, rate), dtype=np.float64)
    best = np.maximum(probability.max(axis=1), _peaks(probability))
    table = np.minimum(np.maximum.accumulate(best), 1.0)[level_of].reshape(fisher.shape)
    table.setflags(write=False)
    return table


def _peaks(curve: Floats) -> Floats:
    """Highest vertex of the parabolas through the interior peaks of each row; 0 where a row has none."""
    left, middle, right = curve[:, :-2], curve[:, 1:-1], curve[:, 2:]
    bend = 2 * middle - left - right
    is_peak = (middle >= left) & (middle >= right) & (bend > 0)
    rise = (right - left) ** 2 / np.where(is_peak, 8 * bend, 1.0)
    return np.where(is_peak, middle + rise, 0.0).max(axis=1)


def fisher_p(baseline_passed: int, n_baseline: int, mutant_passed: int, n_mutant: int) -> float:
    """Returns Fisher's one-sided p (baseline better) of one 2x2 table."""
    return float(fisher_table(n_baseline, n_mutant)[baseline_passed, mutant_passed])


def boschloo_p(baseline_passed: int, n_baseline: int, mutant_passed: int, n_mutant: int) -> float:
    """Returns Boschloo's one-sided p (baseline better) of one 2x2 table."""
    return float(boschloo_table(n_baseline, n_mutant)[baseline_passed, mutant_passed])


def smallest_p(test: str, n_baseline: int, n_mutant: int) -> float:
    """Returns the smallest p one task can reach: every baseline attempt passes, every mutant attempt fails.

    Graded rewards are tested by permuting attempts, which reaches Fisher's smallest p.
    """
    if n_baseline < 1 or n_mutant < 1:
        return 1.0
    if test == "boschloo":
        return float(boschloo_table(n_baseline, n_mutant)[n_baseline, 0])
    return 1 / math.comb(n_baseline + n_mutant, n_mutant)


def attempt_permutation_p(baseline: Sequence[float], mutant: Sequence[float]) -> float:
    """Returns the one-sided exact p of the mutant's summed reward when attempts are dealt out anew.

    Every arrangement counts, none is sampled. Rewards on a common grid (multiples of 1/5040 or of 1/10000)
    enter as they are; others are first rounded to a thousandth of their range, which is a slightly different
    statistic and just as exact a test, because the rounding looks at the pooled rewards only.
    """
    n, levels = len(mutant), _as_integers([*baseline, *mutant])
    observed = sum(levels[len(baseline) :])
    return _share_at_most(tuple(sorted(levels)), n, observed)


def _as_integers(values: Sequence[float]) -> list[int]:
    low, high = min(values), max(values)
    for scale in _EXACT_SCALES:
        scaled = [(value - low) * scale for value in values]
        if all(abs(x - round(x)) < 1e-6 for x in scaled) and (high - low) * scale <= 1e6:
            levels = [round(x) for x in scaled]
            if len(set(levels)) == len(set(values)):
                break
    else:
        levels = [round((value - low) / (high - low) * _COARSE_LEVELS) for value in values]
    divisor = math.gcd(*levels) or 1
    return [level // divisor for level in levels]


@functools.lru_cache(maxsize=4096)
def _share_at_most(pool: tuple[int, ...], n: int, observed: int) -> float:
    """Share of the n-subsets of `pool` whose sum is at most `observed`."""
    if math.comb(len(pool), n) <= _FEW_ARRANGEMENTS:
        sums = np.fromiter((sum(c) for c in combinations(pool, n)), dtype=np.int64)
        return float(np.mean(sums <= observed))
    width = sum(sorted(pool)[-n:]) + 1
    ways = np.zeros((n + 1, width))
    ways[0, 0] = 1.0
    for level in pool:
        # From many to few, so that this attempt is used at most once.
        for used in range(n - 1, -1, -1):
            ways[used + 1, level:] += ways[used, : width - level]
    return float(min(1.0, ways[n, : observed + 1].sum() / ways[n].sum()))
