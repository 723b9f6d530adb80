# SPDX-License-Identifier: Apache-2.0
"""Tests over several tasks at once (strata): Cochran-Mantel-Haenszel, and its exact counterpart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

#: Baseline passes, baseline attempts, mutant passes, mutant attempts of one task.
Stratum = tuple[int, int, int, int]


@dataclass(frozen=True)
class CmhTest:
    """Observed and expected baseline passes over all strata, their variance, z and the one-sided p."""

    observed: float
    expected: float
    variance: float
    z: float
    p_value: float


def cmh_test(strata: Sequence[Stratum], *, continuity: float = 0.5) -> CmhTest | None:
    """Tests over all strata together whether the baseline passes more often.

    It finds a diffuse fault that lowers many tasks a little; unlike a union of kills it is not monotone in
    the tasks. Source: Cochran 1954, Mantel & Haenszel 1959.

    Args:
        strata: one `Stratum` per task; strata whose attempts all passed or all failed carry no information.
        continuity: subtracted from the difference; 0 for the uncorrected test.

    Returns:
        the test, or `None` when no stratum carries information.
    """
    observed = expected = variance = 0.0
    for a, n0, b, n1 in strata:
        n, passed = n0 + n1, a + b
        if n0 == 0 or n1 == 0:
            continue
        observed += a
        expected += n0 * passed / n
        variance += n0 * n1 * passed * (n - passed) / (n * n * (n - 1))
    if variance <= 0:
        return None
    z = (observed - expected - continuity) / math.sqrt(variance)
    return CmhTest(observed, expected, variance, z, float(scipy.stats.norm.sf(z)))


def stratified_exact_p(strata: Sequence[Stratum]) -> float:
    """Returns the exact one-sided p of the baseline's summed passes, given each stratum's total of passes.

    The distribution is the convolution of the strata's hypergeometric distributions.
    """
    distribution, observed = np.ones(1), 0
    for a, n0, b, n1 in strata:
        total, lowest = a + b, max(0, a + b - n1)
        ways = [math.comb(n0, x) * math.comb(n1, total - x) for x in range(lowest, min(n0, total) + 1)]
        distribution = np.convolve(distribution, np.array(ways) / math.comb(n0 + n1, total))
        observed += a - lowest
    return float(min(1.0, distribution[observed:].sum()))
