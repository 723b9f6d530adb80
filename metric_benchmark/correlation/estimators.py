# SPDX-License-Identifier: Apache-2.0
"""Measures of association of coverage and mutant score; each a number, or undefined for a stated reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from metric_benchmark.errors import ConfigError
from metric_benchmark.records.base import Defined, Undefined
from metric_benchmark.records.correlation import Estimates

Floats = NDArray[np.float64]
Result = Defined | Undefined
_Measure = Callable[[Floats, Floats], Result]

#: 1 - r**2 at or below this counts as "size says everything", so nothing is left to correlate.
DEGENERATE = 1e-12
_PAIR_BLOCK = 4_000_000


@dataclass(frozen=True)
class PairCounts:
    """Pairs of subsets: concordant, discordant, tied in coverage or in score (in both: counted twice)."""

    concordant: int
    discordant: int
    ties_coverage: int
    ties_score: int
    total: int


def pearson(coverage: ArrayLike, score: ArrayLike) -> Result:
    """Returns Pearson's product-moment correlation."""
    x, y = _inputs(coverage, score)
    return _undefined(x, y) or _correlate(x, y)


def spearman(coverage: ArrayLike, score: ArrayLike) -> Result:
    """Returns Spearman's rank correlation, ties ranked by their average."""
    x, y = _inputs(coverage, score)
    return _undefined(x, y) or _correlate(_ranks(x), _ranks(y))


def kendall_tau_b(coverage: ArrayLike, score: ArrayLike) -> Result:
    """Returns Kendall's tau-b, which reaches 1 although there are ties if both sides tie together."""
    x, y = _inputs(coverage, score)
    return _undefined(x, y) or _tau_b(count_pairs(x, y))


def kendall_tau_c(coverage: ArrayLike, score: ArrayLike) -> Result:
    """Returns Stuart's tau-c, which allows for a different number of distinct values on the two sides."""
    x, y = _inputs(coverage, score)
    return _undefined(x, y) or _tau_c(count_pairs(x, y), x, y)


def somers_d(coverage: ArrayLike, score: ArrayLike) -> Result:
    """Returns Somers' D of the score given coverage: pairs tied in coverage are left out, others are not."""
    x, y = _inputs(coverage, score)
    return _undefined(x, y) or _somers(count_pairs(x, y))


def goodman_kruskal_gamma(coverage: ArrayLike, score: ArrayLike) -> Result:
    """Returns Goodman and Kruskal's gamma: all ties are left out."""
    x, y = _inputs(coverage, score)
    return _undefined(x, y) or _gamma(count_pairs(x, y))


def partial_spearman_given_size(coverage: ArrayLike, score: ArrayLike, size: ArrayLike) -> Result:
    """Returns Spearman's correlation of coverage and score with subset size held constant."""
    x, y = _inputs(coverage, score)
    z = _inputs(size, score)[0]
    return _undefined(x, y) or _partial(_ranks(x), _ranks(y), _ranks(z), _correlate)


def partial_kendall_given_size(coverage: ArrayLike, score: ArrayLike, size: ArrayLike) -> Result:
    """Returns Kendall's partial tau-b with subset size held constant (Kendall 1942)."""
    x, y = _inputs(coverage, score)
    z = _inputs(size, score)[0]
    return _undefined(x, y) or _partial(x, y, z, lambda a, b: _tau_b(count_pairs(a, b)))


def estimate_all(coverage: ArrayLike, score: ArrayLike, size: ArrayLike) -> Estimates:
    """Returns every estimator of the record.

    Args:
        coverage: coverage per subset, shape (K,).
        score: mutant score per subset, shape (K,).
        size: number of eligible tasks per subset, shape (K,).

    Raises:
        ConfigError: lengths differ, or a value is not a finite number.
    """
    x, y = _inputs(coverage, score)
    z = _inputs(size, score)[0]
    undefined = _undefined(x, y)
    if undefined:
        return Estimates.model_validate(dict.fromkeys(Estimates.model_fields, undefined))
    pairs, rank_x, rank_y = count_pairs(x, y), _ranks(x), _ranks(y)
    return Estimates(
        pearson=_correlate(x, y),
        spearman=_correlate(rank_x, rank_y),
        kendall_tau_b=_tau_b(pairs),
        kendall_tau_c=_tau_c(pairs, x, y),
        somers_d=_somers(pairs),
        goodman_kruskal_gamma=_gamma(pairs),
        partial_spearman_given_size=_partial(rank_x, rank_y, _ranks(z), _correlate),
    )


def count_pairs(coverage: ArrayLike, score: ArrayLike) -> PairCounts:
    """Counts concordant, discordant and tied pairs of subsets, in blocks so that memory stays small."""
    x, y = _inputs(coverage, score)
    n = len(x)
    signs_x_y = ties_x = ties_y = ties_both = 0
    block = max(1, _PAIR_BLOCK // max(n, 1))
    for start in range(0, n, block):
        dx = np.sign(x[start : start + block, None] - x).astype(np.int8)
        dy = np.sign(y[start : start + block, None] - y).astype(np.int8)
        signs_x_y += int((dx * dy).sum(dtype=np.int64))
        ties_x += int((dx == 0).sum())
        ties_y += int((dy == 0).sum())
        ties_both += int(((dx == 0) & (dy == 0)).sum())
    # Each pair was seen twice, and each subset was compared with itself.
    total, difference = n * (n - 1) // 2, signs_x_y // 2
    x_tied, y_tied, both_tied = ((ties - n) // 2 for ties in (ties_x, ties_y, ties_both))
    untied = total - x_tied - y_tied + both_tied
    return PairCounts((untied + difference) // 2, (untied - difference) // 2, x_tied, y_tied, total)


def _inputs(coverage: ArrayLike, score: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(coverage, dtype=np.float64).ravel(), np.asarray(score, dtype=np.float64).ravel()
    if len(x) != len(y):
        raise ConfigError(f"correlation: {len(x)} and {len(y)} values; expected one of each per subset")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ConfigError(
            "correlation: found a value that is not a finite number; leave subsets without a value out of the estimate"
        )
    return x, y


def _undefined(x: Floats, y: Floats) -> Undefined | None:
    if len(x) < 2:
        return Undefined(reason="fewer_than_two_subsets")
    if np.all(y == y[0]):
        return Undefined(reason="constant_mutation_score")
    if np.all(x == x[0]):
        return Undefined(reason="constant_coverage")
    return None


def _ranks(values: Floats) -> Floats:
    return np.asarray(scipy.stats.rankdata(values), dtype=np.float64)


def _correlate(x: Floats, y: Floats) -> Result:
    a, b = _centred(x), _centred(y)
    scale = math.sqrt(float(a @ a) * float(b @ b))
    if not scale > 0:
        return Undefined(reason="no_variance_at_this_precision")
    return Defined(value=max(-1.0, min(1.0, float(a @ b) / scale)))


def _centred(values: Floats) -> Floats:
    # Scaled first, so that neither huge nor tiny values overflow or vanish when squared.
    peak = float(np.abs(values).max())
    scaled = values / peak if peak > 0 else values
    centred = scaled - scaled.mean()
    spread = float(np.abs(centred).max())
    return centred / spread if spread > 0 else centred


def _partial(x: Floats, y: Floats, z: Floats, measure: _Measure) -> Result:
    if np.all(z == z[0]):
        return Undefined(reason="constant_size")
    xy, xz, yz = measure(x, y), measure(x, z), measure(y, z)
    if isinstance(xy, Undefined):
        return xy
    if isinstance(xz, Undefined) or 1 - xz.value**2 <= DEGENERATE:
        return Undefined(reason="size_determines_coverage")
    if isinstance(yz, Undefined) or 1 - yz.value**2 <= DEGENERATE:
        return Undefined(reason="size_determines_mutation_score")
    value = (xy.value - xz.value * yz.value) / math.sqrt((1 - xz.value**2) * (1 - yz.value**2))
    return Defined(value=max(-1.0, min(1.0, value)))


def _tau_b(pairs: PairCounts) -> Result:
    scale = math.sqrt((pairs.total - pairs.ties_coverage) * (pairs.total - pairs.ties_score))
    if scale == 0:
        return Undefined(reason="all_pairs_tied")
    return Defined(value=max(-1.0, min(1.0, (pairs.concordant - pairs.discordant) / scale)))


def _tau_c(pairs: PairCounts, x: Floats, y: Floats) -> Result:
    n, least = len(x), min(len(np.unique(x)), len(np.unique(y)))
    return Defined(value=2 * (pairs.concordant - pairs.discordant) / (n * n * (least - 1) / least))


def _somers(pairs: PairCounts) -> Result:
    return Defined(value=(pairs.concordant - pairs.discordant) / (pairs.total - pairs.ties_coverage))


def _gamma(pairs: PairCounts) -> Result:
    untied = pairs.concordant + pairs.discordant
    if untied == 0:
        return Undefined(reason="all_pairs_tied")
    return Defined(value=(pairs.concordant - pairs.discordant) / untied)
