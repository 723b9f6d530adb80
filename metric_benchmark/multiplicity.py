# SPDX-License-Identifier: Apache-2.0
"""Adjusted p-values for several tests at once: Benjamini-Hochberg and Holm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: A p-value counts as small enough up to this much above alpha: 1/20 as a float need not be <= 0.05.
P_TOLERANCE = 1e-9


def adjust_bh(p_values: Sequence[float] | Floats) -> Floats:
    """Returns Benjamini-Hochberg adjusted p-values: the false discovery rate (1995)."""
    p = np.asarray(p_values, dtype=np.float64)
    m = len(p)
    if m == 0:
        return p
    order = np.argsort(p, kind="stable")
    scaled = p[order] * m / np.arange(1, m + 1)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def adjust_holm(p_values: Sequence[float] | Floats) -> Floats:
    """Returns Holm adjusted p-values (controls the chance of any false claim; Holm 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    m = len(p)
    if m == 0:
        return p
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (m - np.arange(m))
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
