# SPDX-License-Identifier: Apache-2.0
"""Checks of arrays that callers bring: 0/1 matrices that fit each other, finite values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metric_benchmark.errors import ConfigError

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def as_bools(matrix: ArrayLike, name: str) -> Bools:
    """Returns a 0/1 matrix (array, nested lists or DataFrame) as booleans.

    Raises:
        ConfigError: it is not two-dimensional, or holds anything but 0 and 1.
    """
    try:
        values = np.asarray(matrix)
        if values.dtype != np.bool_:
            values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}: found cells that are not numbers; expected 0 and 1") from None
    if values.ndim != 2:
        raise ConfigError(f"{name}: found {values.ndim} dimensions; expected a matrix of two")
    if values.dtype != np.bool_:
        wrong = ~((values == 0) | (values == 1))
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise ConfigError(f"{name}: found {values[row, column]:g} in row {row}, column {column}; expected 0 or 1")
    return values.astype(np.bool_)


def check_shapes(membership: Bools, kills: Bools, cover: Bools | None) -> None:
    """Checks that three matrices speak of the same tasks.

    Raises:
        ConfigError: they do not.
    """
    n_tasks = membership.shape[1]
    for name, matrix in (("kills", kills), ("cover", cover)):
        if matrix is not None and len(matrix) != n_tasks:
            raise ConfigError(
                f"{name}: found {len(matrix)} rows (tasks), but membership has {n_tasks} columns (tasks); "
                "expected one row per task, in the same order"
            )


def as_values(values: ArrayLike, n: int, name: str) -> Floats:
    """Returns `n` finite numbers.

    Raises:
        ConfigError: there is another number of them, or one is not finite.
    """
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (n,) or not np.isfinite(found).all():
        raise ConfigError(f"{name}: expected {n} finite numbers, in the order of the matrix beside them")
    return found
