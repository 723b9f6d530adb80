# SPDX-License-Identifier: Apache-2.0
"""What knowing coverage is worth when a suite is chosen: agreement of pairs, gains over size. Descriptive only.

Correlation and agreement are different questions (Böhme, Szekeres & Metzman 2022): a metric may correlate
strongly and still pick the worse of two suites often.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metric_benchmark.correlation.estimators import count_pairs
from metric_benchmark.correlation.inputs import as_bools, as_values, check_shapes
from metric_benchmark.records.base import Defined, Undefined
from metric_benchmark.records.correlation import PracticalValue, SizeConcordance

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Result = Defined | Undefined

_N_SPLITS = 50
_MIN_PER_SIZE = 10
_MAX_SIZES = 30
_PURPOSE_SPLITS = 6


def estimate_practical_value(
    membership: ArrayLike, kills: ArrayLike, coverage: ArrayLike, *, seed: int
) -> PracticalValue:
    """Returns all measures of this module.

    Args:
        membership: subsets x tasks.
        kills: tasks x mutants.
        coverage: coverage per subset, shape (K,).
        seed: of the random halves of mutants.
    """
    members, killed = as_bools(membership, "membership"), as_bools(kills, "kills")
    check_shapes(members, killed, None)
    value = as_values(coverage, len(members), "coverage")
    detected = (members.astype(np.float32) @ killed.astype(np.float32)) > 0.5
    score, size = detected.sum(axis=1).astype(np.float64), members.sum(axis=1)
    pairs = count_pairs(value, score)
    gain, n_top = top_decile_gain(value, score / max(killed.shape[1], 1), size)
    return PracticalValue(
        within_size=size_concordance(value, score, size),
        agreement=_share(pairs.concordant, pairs.concordant + pairs.discordant),
        n_agreement_pairs=pairs.concordant + pairs.discordant,
        heldout_r2_gain=heldout_gain(value, detected, size, seed=seed),
        top_decile_gain=gain,
        n_top_decile=n_top,
    )


def size_concordance(coverage: ArrayLike, score: ArrayLike, size: ArrayLike) -> SizeConcordance:
    """Compares only subsets of equal size: does more coverage go with a higher score?"""
    x, y, z = (np.asarray(values, dtype=np.float64) for values in (coverage, score, size))
    concordant = discordant = total = 0
    for one in np.unique(z):
        found = count_pairs(x[z == one], y[z == one])
        concordant += found.concordant
        discordant += found.discordant
        total += found.total
    untied = concordant + discordant
    return SizeConcordance(
        concordance=_share(concordant - discordant, untied),
        agreement=_share(concordant, untied),
        n_pairs=untied,
        n_tied=total - untied,
    )


def top_decile_gain(coverage: Floats, score: Floats, size: ArrayLike) -> tuple[Result, int]:
    """Returns how much higher the score of high-coverage subsets is than that of subsets of the same size.

    Within each size that has ten subsets or more, the tenth with the most coverage is compared with all of
    that size; the gain is in units of the mutant score.

    Returns:
        the gain, and how many subsets were in a top tenth.
    """
    sizes = np.asarray(size)
    gained, n_top = 0.0, 0
    for one in np.unique(sizes):
        rows = np.flatnonzero(sizes == one)
        if len(rows) < _MIN_PER_SIZE:
            continue
        # Everything at the boundary value belongs to the top, so that the order of subsets does not matter.
        boundary = np.sort(coverage[rows])[-(len(rows) // 10)]
        top = rows[coverage[rows] >= boundary]
        gained += float(score[top].sum() - len(top) * score[rows].mean())
        n_top += len(top)
    if not n_top:
        return Undefined(reason="fewer_than_ten_subsets_of_any_size"), 0
    return Defined(value=gained / n_top), n_top


def heldout_gain(coverage: Floats, detected: Bools, size: ArrayLike, *, seed: int) -> Result:
    """Returns how much better size and coverage predict the scores on unseen mutants than size alone, in R².

    Mutants are split into random halves, 50 times: a least-squares fit on one half predicts the subsets'
    scores on the other. Size enters as a category where there are at least five subsets per size on average
    and 30 sizes at most, else as a cubic, so that coverage is not credited with the bend of the size curve.
    """
    n_mutants = detected.shape[1]
    if n_mutants < 2:
        return Undefined(reason="fewer_than_two_mutants")
    if len(coverage) < 3:
        return Undefined(reason="fewer_than_three_subsets")
    if np.all(coverage == coverage[0]):
        return Undefined(reason="constant_coverage")
    base = _size_columns(np.asarray(size, dtype=np.float64))
    # Projections onto both designs, once: every split only changes the scores.
    hat_size, hat_both = _projector(base), _projector(np.column_stack([base, coverage]))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PURPOSE_SPLITS,)))
    gains: list[float] = []
    for _ in range(_N_SPLITS):
        order = rng.permutation(n_mutants)
        half = n_mutants // 2
        seen, unseen = detected[:, order[:half]].mean(axis=1), detected[:, order[half:]].mean(axis=1)
        total = float(((unseen - unseen.mean()) ** 2).sum())
        if total <= 0:
            continue
        by_size, by_both = (basis @ (basis.T @ seen) for basis in (hat_size, hat_both))
        gains.append(float((((unseen - by_size) ** 2).sum() - ((unseen - by_both) ** 2).sum()) / total))
    if not gains:
        return Undefined(reason="constant_mutation_score")
    return Defined(value=float(np.mean(gains)))


def _size_columns(size: Floats) -> Floats:
    distinct = np.unique(size)
    if len(distinct) <= min(len(size) // 5, _MAX_SIZES) or len(distinct) <= 2:
        return (size[:, None] == distinct).astype(np.float64)
    scaled = (size - size.mean()) / (size.std() or 1.0)
    return np.vander(scaled, 4)


def _projector(design: Floats) -> Floats:
    """An orthonormal basis of the columns' span, so that deficient designs need no care."""
    left, singular, _ = np.linalg.svd(design, full_matrices=False)
    return left[:, singular > 1e-10 * singular.max()]


def _share(part: int, whole: int) -> Result:
    return Defined(value=part / whole) if whole else Undefined(reason="all_pairs_tied")
