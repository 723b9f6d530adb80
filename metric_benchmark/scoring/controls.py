# SPDX-License-Identifier: Apache-2.0
"""False kills: how often subsets of each size "detect" a control, the baseline under another name."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from metric_benchmark.records.scores import ControlNoise, FalseKillRate

Bools = NDArray[np.bool_]

MIN_CONTROLS = 2
DEFAULT_ALPHA = 0.05


def clopper_pearson(successes: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Returns the Clopper-Pearson interval of a share (Clopper & Pearson 1934).

    Args:
        successes: between 0 and `n`; a mean of shares times `n` may be fractional.
        n: number of independent units.
        level: two-sided confidence level.
    """
    tail = (1 - level) / 2
    low = 0.0 if successes <= 0 else float(scipy.special.betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes >= n else float(scipy.special.betaincinv(successes + 1, n - successes, 1 - tail))
    return low, high


def assess_noise(
    membership: Bools, sizes: NDArray[np.int64], kills: Bools, *, alpha: float | None, level: float = 0.95
) -> ControlNoise:
    """Measures false kills on the controls, by subset size and for the whole suite.

    The unit is the control: subsets share tasks and attempts, so subset x control pairs are not independent
    and would make the interval far too narrow. The whole suite decides whether kills are noise: it detects
    whatever any subset detects, and one decision needs no correction for many sizes.

    Args:
        membership: subsets x eligible tasks.
        sizes: eligible tasks per subset.
        kills: eligible tasks x controls that have at least one determined cell.
        alpha: level of the kill rule; `None` (rules without p-values) stands for 0.05.
        level: of the intervals.
    """
    limit = DEFAULT_ALPHA if alpha is None else alpha
    n_tasks, n_controls = kills.shape
    if n_controls < MIN_CONTROLS:
        return ControlNoise(
            status="not_assessable",
            reason=(
                f"{n_controls} of at least {MIN_CONTROLS} controls: how often kills are noise cannot be "
                "told; raise `roles.control.count` in execution.yaml"
            ),
            n_controls=n_controls,
            alpha=limit,
            level=level,
        )
    detected = (membership.astype(np.float32) @ kills.astype(np.float32)) > 0.5
    by_size = [
        _rate(int(size), detected[sizes == size].mean(axis=0), int((sizes == size).sum()), level)
        for size in np.unique(sizes)
    ]
    suite = _rate(n_tasks, kills.any(axis=0).astype(np.float64), 1, level)
    n_killed = int(kills.any(axis=0).sum())
    is_blocking = suite.low > limit
    found = (
        f"{n_killed} of {n_controls} controls were killed by some task (95% interval {suite.low:.3f} to "
        f"{suite.high:.3f})"
    )
    if is_blocking:
        reason = f"kills are noise: {found}, more than alpha = {limit:g} allows"
    else:
        reason = f"{found}; that does not exceed alpha = {limit:g} beyond chance"
    return ControlNoise(
        status="ok",
        reason=reason,
        n_controls=n_controls,
        alpha=limit,
        level=level,
        suite=suite,
        by_size=by_size,
        is_blocking=is_blocking,
    )


def _rate(size: int, shares: NDArray[np.float64], n_subsets: int, level: float) -> FalseKillRate:
    n_controls, rate = len(shares), float(shares.mean())
    low, high = clopper_pearson(float(shares.sum()), n_controls, level)
    return FalseKillRate(size=size, n_subsets=n_subsets, n_controls=n_controls, rate=rate, low=low, high=high)
