# SPDX-License-Identifier: Apache-2.0
"""Several cases: a random-effects mean of Fisher z with bootstrap standard errors, at equal numbers of mutants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from metric_benchmark.correlation.bootstrap import CLIP, Redraw, two_way_bootstrap
from metric_benchmark.correlation.inputs import as_bools, check_shapes
from metric_benchmark.correlation.permutation import task_permutation_test
from metric_benchmark.errors import ConfigError
from metric_benchmark.records.correlation import CaseEffect, PooledEstimate

Floats = NDArray[np.float64]

MIN_CASES = 3
_PURPOSE_SUBSAMPLE = 7
_DRAWS = 200
#: Permutations in all draws of mutants together.
_PERMUTATIONS = 4000
_MAX_TAU_STEPS = 200


@dataclass(frozen=True)
class CaseMatrices:
    """One case as matrices: subsets x tasks, tasks x mutants, tasks x items, all 0/1."""

    membership: ArrayLike
    kills: ArrayLike
    cover: ArrayLike


def pool_cases(effects: Mapping[str, CaseEffect], *, level: float = 0.95) -> PooledEstimate:
    """Pools the association over cases.

    Between-case variance by Paule and Mandel (1982); the interval is Hartung and Knapp's (2001) with t(k - 1)
    and the larger of their standard error and Wald's; the prediction interval, where a further case would
    lie, has t(k - 2). Standard errors come from each case's bootstrap, never from 1/sqrt(K - 3): subsets of a
    case are not independent.

    Args:
        effects: by case, the association and its standard error on the z scale. Associations depend on the
            number of mutants, so make them comparable with `effect_at_equal_mutants` first.
        level: of both intervals.

    Returns:
        the pooled estimate; with fewer than three cases they are listed, not pooled. Its p-value is two-sided, of no
        association beyond what unrelated coverage gives, and adjusted for nothing.
    """
    usable = {name: e for name, e in effects.items() if math.isfinite(e.stderr_z) and e.stderr_z > 0}
    left_out = {name: "no bootstrap standard error, so its weight is unknown" for name in effects if name not in usable}
    common = {"cases": dict(effects), "left_out": left_out, "level": level, "n_cases": len(usable)}
    if len(usable) < MIN_CASES:
        number = f"{len(usable)} case{'' if len(usable) == 1 else 's'}"
        reason = f"{number}; fewer than {MIN_CASES} are listed, not pooled"
        return PooledEstimate.model_validate({**common, "reason": reason})
    n_mutants = {effect.n_mutants for effect in usable.values()}
    if len(n_mutants) > 1:
        raise ConfigError(
            f"pooling: found cases with {', '.join(map(str, sorted(n_mutants)))} mutants; the association "
            "grows with the "
            "number of mutants, so subsample all cases to the smallest first (`effect_at_equal_mutants`)"
        )
    z = np.array([math.atanh(max(-CLIP, min(CLIP, effect.estimate))) for effect in usable.values()])
    variance = np.array([effect.stderr_z**2 for effect in usable.values()])
    tau2 = paule_mandel(z, variance)
    weight = 1 / (variance + tau2)
    mean, k = float((weight * z).sum() / weight.sum()), len(z)
    wald = math.sqrt(1 / weight.sum())
    knapp = math.sqrt(float((weight * (z - mean) ** 2).sum()) / ((k - 1) * weight.sum()))
    stderr = max(wald, knapp)
    reach = float(scipy.stats.t.ppf(0.5 + level / 2, k - 1)) * stderr
    spread = float(scipy.stats.t.ppf(0.5 + level / 2, k - 2)) * math.sqrt(tau2 + stderr**2)
    null = np.array([math.atanh(max(-CLIP, min(CLIP, effect.null_mean))) for effect in usable.values()])
    null_z = float((weight * null).sum() / weight.sum())
    return PooledEstimate.model_validate(
        {
            **common,
            "estimate": math.tanh(mean),
            "low": math.tanh(mean - reach),
            "high": math.tanh(mean + reach),
            "prediction_low": math.tanh(mean - spread),
            "prediction_high": math.tanh(mean + spread),
            "tau": math.sqrt(tau2),
            "stderr_z": stderr,
            "null_mean": math.tanh(null_z),
            "p_value": float(2 * scipy.stats.t.sf(abs((mean - null_z) / stderr), k - 1)),
            "n_mutants": n_mutants.pop(),
        }
    )


def paule_mandel(values: Floats, variances: Floats) -> float:
    """Returns the between-case variance at which the weighted squared deviations equal their degrees of freedom."""
    k = len(values)

    def excess(tau2: float) -> float:
        weight = 1 / (variances + tau2)
        mean = (weight * values).sum() / weight.sum()
        return float((weight * (values - mean) ** 2).sum()) - (k - 1)

    if k < 2 or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, float(np.var(values) + variances.max())
    while excess(high) > 0:
        high *= 2
    for _ in range(_MAX_TAU_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


def effect_at_equal_mutants(
    case: CaseMatrices,
    n_mutants: int,
    *,
    seed: int,
    n_replicates: int = 1000,
    permuted: Literal["coverage", "kills"] = "coverage",
    redraw: Redraw | None = None,
) -> CaseEffect:
    """Returns a case's association as it would be with fewer mutants: the mean over many random draws of them.

    What unrelated coverage gives depends on the number of mutants as well, so its mean is taken over the same draws.

    Args:
        case: the case's matrices.
        n_mutants: how many mutants every case is brought to; the smallest number among the cases.
        seed: of the draws.
        n_replicates: bootstrap resamples for the standard error, each with `n_mutants` mutants.
        permuted: which matrix the case's permutation test deals out anew.
        redraw: draws the kills of all mutants again from resampled attempts, where the case's interval includes them.

    Raises:
        ConfigError: the case has fewer mutants, or no draw gives a defined association, with or without permutation.
    """
    members, killed, covered = (
        as_bools(case.membership, "membership"),
        as_bools(case.kills, "kills"),
        as_bools(case.cover, "cover"),
    )
    check_shapes(members, killed, covered)
    n_all = killed.shape[1]
    if not 1 <= n_mutants <= n_all:
        raise ConfigError(f"pooling: found a case with {n_all} mutants; cannot draw {n_mutants} of them")
    sequence = np.random.SeedSequence(seed, spawn_key=(_PURPOSE_SUBSAMPLE,))
    rng = np.random.default_rng(sequence)
    draws = [rng.permutation(n_all)[:n_mutants] for _ in range(1 if n_mutants == n_all else _DRAWS)]
    found = [
        task_permutation_test(
            members, killed[:, columns], covered,
            seed=int(child.generate_state(1)[0]), n_replicates=_PERMUTATIONS // len(draws), permuted=permuted,
        )
        for columns, child in zip(draws, sequence.spawn(len(draws)), strict=True)
    ]  # fmt: skip
    values = np.array([each.observed for each in found])
    values = values[~np.isnan(values)]
    null = np.concatenate([each.defined for each in found])
    if not len(values) or not len(null):
        raise ConfigError("pooling: the association of a case is undefined; leave the case out")
    boot = two_way_bootstrap(
        members, killed, covered, seed=seed, n_replicates=n_replicates, n_mutants_drawn=n_mutants, redraw=redraw
    )
    stderr = boot.stderr_z
    return CaseEffect(
        estimate=math.tanh(float(np.arctanh(np.clip(values, -CLIP, CLIP)).mean())),
        stderr_z=stderr if math.isfinite(stderr) else 0.0,
        n_mutants=n_mutants,
        null_mean=float(null.mean()),
    )
