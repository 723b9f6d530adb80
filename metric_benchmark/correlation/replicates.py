# SPDX-License-Identifier: Apache-2.0
"""Rank statistics of many replicates at once, from integer counts; undefined ones are NaN inside stage 4 only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from metric_benchmark.correlation.estimators import DEGENERATE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Replicates drawn from one stream of random numbers; part of what a seed means, so it never depends on the
#: machine.
BLOCK = 50


def double_ranks(values: Ints) -> Floats:
    """Returns twice the centred average ranks of each row; whole numbers, so that sums of them are exact.

    Args:
        values: B x K counts, not negative.
    """
    n_rows, n = values.shape
    n_levels = int(values.max(initial=0)) + 1
    if n_levels > 8 * n + 1024:
        return np.rint(2.0 * np.asarray(scipy.stats.rankdata(values, axis=1), dtype=np.float64)) - (n + 1)
    shifted = values + np.arange(n_rows, dtype=np.int64)[:, None] * n_levels
    count = np.bincount(shifted.ravel(), minlength=n_rows * n_levels).reshape(n_rows, n_levels)
    twice = (2 * np.cumsum(count, axis=1) - count - n).astype(np.float64)
    return twice.ravel().take(shifted)


def double_ranks_of(values: Floats) -> Floats:
    """Returns twice the centred average ranks of one list of numbers."""
    return np.rint(2.0 * np.asarray(scipy.stats.rankdata(values), dtype=np.float64)) - (len(values) + 1)


@dataclass(frozen=True)
class Replicated:
    """A statistic and its replicates.

    Attributes:
        observed: the statistic on the data, NaN when it is undefined.
        replicates: the statistic on each resample or permutation, NaN where it is undefined.
    """

    observed: float
    replicates: Floats

    @property
    def defined(self) -> Floats:
        """The replicates that have a value."""
        return self.replicates[~np.isnan(self.replicates)]

    @property
    def n_undefined(self) -> int:
        """How many replicates have no value."""
        return len(self.replicates) - len(self.defined)


@dataclass(frozen=True)
class RankStatistic:
    """The primary statistic on a fixed set of subsets: partial Spearman given size, or plain Spearman.

    Attributes:
        size: twice the centred ranks of subset size; `None` when all sizes are equal, which makes it plain
            Spearman.
    """

    size: Floats | None

    @classmethod
    def given(cls, size: Ints) -> RankStatistic:
        """Chooses the statistic for these subset sizes, shape (K,)."""
        one_size = len(size) == 0 or bool(np.all(size == size[0]))
        return cls(None if one_size else double_ranks_of(size.astype(np.float64)))

    @property
    def name(self) -> str:
        """Name of the estimator, as in the record."""
        return "spearman" if self.size is None else "partial_spearman_given_size"

    def __call__(self, coverage: Floats, score: Floats) -> Floats:
        """Returns one value per replicate, NaN where it is undefined.

        Args:
            coverage: B x K (or 1 x K) double ranks.
            score: B x K (or 1 x K) double ranks.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            squares_x, squares_y = _squares(coverage), _squares(score)
            r_xy = _products(coverage, score) / np.sqrt(squares_x * squares_y)
            if self.size is None:
                return r_xy
            squares_z = float(self.size @ self.size)
            r_xz = (coverage @ self.size) / np.sqrt(squares_x * squares_z)
            r_yz = (score @ self.size) / np.sqrt(squares_y * squares_z)
            left_x, left_y = 1 - r_xz**2, 1 - r_yz**2
            value = (r_xy - r_xz * r_yz) / np.sqrt(left_x * left_y)
            determined = (left_x <= DEGENERATE) | (left_y <= DEGENERATE)
            return np.where(determined, np.nan, np.clip(value, -1.0, 1.0))


def _squares(ranks: Floats) -> Floats:
    return np.einsum("bk,bk->b", ranks, ranks)


def _products(x: Floats, y: Floats) -> Floats:
    if len(y) == 1:
        return x @ y[0]
    if len(x) == 1:
        return y @ x[0]
    return np.einsum("bk,bk->b", x, y)


def run_blocks(work: Callable[[Any], Floats], blocks: Sequence[Any], processes: int = 1) -> Floats:
    """Runs `work` on every block and joins the results in the blocks' order, whatever the number of processes.

    Args:
        work: picklable when `processes` is above 1.
        blocks: the pieces, each with its own stream of random numbers.
        processes: worker processes. Starting them takes about a second, so they pay from minutes of work on.
    """
    if processes <= 1 or len(blocks) < 2:
        results = [work(block) for block in blocks]
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            results = list(pool.map(work, blocks, chunksize=max(1, len(blocks) // (4 * processes))))
    return np.concatenate(results) if results else np.empty(0)


def block_sizes(n_replicates: int) -> list[int]:
    """Splits a number of replicates into blocks."""
    whole, rest = divmod(n_replicates, BLOCK)
    return [BLOCK] * whole + ([rest] if rest else [])


def block_streams(seed: int, purpose: int, n_replicates: int) -> list[tuple[np.random.Generator, int]]:
    """Returns a generator and a number of replicates per block.

    Args:
        seed: of the analysis.
        purpose: which computation draws, so that two of them never share a stream.
        n_replicates: in all.
    """
    sizes = block_sizes(n_replicates)
    children = np.random.SeedSequence(seed, spawn_key=(purpose,)).spawn(len(sizes))
    return [(np.random.default_rng(child), size) for child, size in zip(children, sizes, strict=True)]
