# SPDX-License-Identifier: Apache-2.0
"""Bootstrap intervals of the association: tasks and mutants are drawn again, the subsets stay.

The interval is tanh(atanh(r) ± z · sd(atanh(r*))): percentile and BCa intervals miss far too often here,
because drawing tasks twice lowers r, and Fisher's 1/sqrt(K - 3) takes overlapping subsets for independent
ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from metric_benchmark.correlation.bitsets import Owners, SubsetBits, Words, add_bits, reached
from metric_benchmark.correlation.inputs import as_bools, as_values, check_shapes
from metric_benchmark.correlation.replicates import (
    RankStatistic,
    Replicated,
    block_streams,
    double_ranks,
    double_ranks_of,
    run_blocks,
)

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Stream = tuple[np.random.Generator, int]
Resampled = Literal["tasks_and_mutants", "mutants", "tasks_mutants_and_attempts"]
#: Draws a kill matrix (tasks x mutants) from resampled attempts: one baseline draw, shared by all mutants.
Redraw = Callable[[np.random.Generator], Bools]

#: |r| is clipped here before atanh.
CLIP = 0.999
_PURPOSE_TWO_WAY, _PURPOSE_MUTANTS, _PURPOSE_TASK_VALUES = 3, 4, 5


@dataclass(frozen=True)
class Bootstrap(Replicated):
    """Outcome of a bootstrap.

    Attributes:
        resampled: what was drawn again.
    """

    resampled: Resampled

    @property
    def stderr_z(self) -> float:
        """Standard deviation of atanh of the defined replicates; NaN with fewer than two."""
        if len(self.defined) < 2:
            return math.nan
        return float(np.arctanh(np.clip(self.defined, -CLIP, CLIP)).std(ddof=1))

    def interval(self, level: float) -> tuple[float, float]:
        """Returns the two-sided interval at `level`, NaN where there is none."""
        centre = math.atanh(min(CLIP, max(-CLIP, self.observed))) if not math.isnan(self.observed) else math.nan
        reach = float(scipy.stats.norm.ppf(0.5 + level / 2)) * self.stderr_z
        return math.tanh(centre - reach), math.tanh(centre + reach)


@dataclass(frozen=True)
class _TwoWay:
    """Draws task slots and mutants of a case; `redraw`, if any, first draws the kills from attempts."""

    bits: SubsetBits
    kills: Owners
    cover: Owners
    statistic: RankStatistic
    redraw: Redraw | None
    n_mutants_drawn: int

    def block(self, stream: Stream) -> Floats:
        rng, n = stream
        n_tasks = self.bits.n_tasks
        filled_by = rng.integers(0, n_tasks, (n, n_tasks))
        drawn = rng.integers(0, self.kills.n_columns, (n, self.n_mutants_drawn))
        step = 1 if self.redraw else min(self.bits.side_by_side(self.kills), self.bits.side_by_side(self.cover))
        coverage: list[Ints] = []
        score: list[Ints] = []
        for start in range(0, n, step):
            part = slice(start, start + step)
            rows = self.bits.reassigned(filled_by[part])
            coverage.append(self.bits.counts(add_bits(reached(rows, self.cover))))
            kills = Owners.of(self.redraw(rng)) if self.redraw else self.kills
            score.append(self.bits.counts(add_bits(_detected(rows, kills, drawn[part]))))
        return self.statistic(double_ranks(np.concatenate(coverage)), double_ranks(np.concatenate(score)))


def _detected(rows: Words, kills: Owners, drawn: Ints) -> Words:
    """What detects each drawn mutant: m x R x W. A mutant drawn twice is there twice."""
    found = reached(rows, kills)
    n_present, n_replicates, n_words = found.shape
    place = np.full(kills.n_columns, n_present, dtype=np.int64)
    place[kills.columns] = np.arange(n_present)
    # One more row, of zeros, stands for the mutants no task kills.
    flat = np.zeros(((n_present + 1) * n_replicates, n_words), dtype=np.uint64)
    flat[: n_present * n_replicates] = found.reshape(-1, n_words)
    replicate: Ints = np.arange(n_replicates, dtype=np.int64)
    picked: Ints = place[drawn.T] * n_replicates + replicate
    return flat.take(picked, axis=0)


def two_way_bootstrap(
    membership: ArrayLike,
    kills: ArrayLike,
    cover: ArrayLike,
    *,
    seed: int,
    n_replicates: int = 2000,
    redraw: Redraw | None = None,
    n_mutants_drawn: int | None = None,
    processes: int = 1,
) -> Bootstrap:
    """Draws tasks (with their kills and their items) and mutants again, and recomputes the association.

    The interval made from it covers the value expected from this very design (these subsets, so many tasks,
    mutants and attempts) with tasks and mutants drawn anew. It does not cover the value with many mutants or
    without noise, which is larger.

    Args:
        membership: subsets x tasks, 1 where the task is a member.
        kills: tasks x mutants.
        cover: tasks x items.
        seed: of the draws.
        n_replicates: how many resamples.
        redraw: draws kills from resampled attempts first; picklable where `processes` is above 1.
        n_mutants_drawn: mutants per resample; as many as there are when left out.
        processes: worker processes; the result does not depend on it.

    Raises:
        ConfigError: shapes do not fit, or a matrix holds anything but 0 and 1.
    """
    members, killed, covered = (
        as_bools(membership, "membership"),
        as_bools(kills, "kills"),
        as_bools(cover, "cover"),
    )
    check_shapes(members, killed, covered)
    bits, statistic = SubsetBits(members), RankStatistic.given(members.sum(axis=1))
    problem = _TwoWay(
        bits,
        Owners.of(killed),
        Owners.of(covered),
        statistic,
        redraw,
        n_mutants_drawn or killed.shape[1],
    )
    rows = bits.rows[:, None, :]
    observed = statistic(
        double_ranks(bits.counts(add_bits(reached(rows, problem.cover)))),
        double_ranks(bits.counts(add_bits(reached(rows, problem.kills)))),
    )
    replicates = run_blocks(problem.block, block_streams(seed, _PURPOSE_TWO_WAY, n_replicates), processes)
    resampled: Resampled = "tasks_mutants_and_attempts" if redraw else "tasks_and_mutants"
    return Bootstrap(float(observed[0]), replicates, resampled)


def mutant_bootstrap(
    membership: ArrayLike, kills: ArrayLike, coverage: ArrayLike, *, seed: int, n_replicates: int = 2000
) -> Bootstrap:
    """Draws mutants again and nothing else: all that can be done for a metric that is opaque.

    Args:
        membership: subsets x tasks.
        kills: tasks x mutants.
        coverage: the metric's value per subset, shape (K,).
        seed: of the draws.
        n_replicates: how many resamples.
    """
    members, killed = as_bools(membership, "membership"), as_bools(kills, "kills")
    check_shapes(members, killed, None)
    value = double_ranks_of(as_values(coverage, len(members), "coverage"))[None, :]
    statistic = RankStatistic.given(members.sum(axis=1))
    detected = ((members.astype(np.float32) @ killed.astype(np.float32)) > 0.5).astype(np.float32)
    n_mutants = killed.shape[1]
    replicates: list[Floats] = []
    for rng, n in block_streams(seed, _PURPOSE_MUTANTS, n_replicates):
        weight = rng.multinomial(n_mutants, np.full(n_mutants, 1 / n_mutants), size=n).astype(np.float32)
        score = np.rint(weight @ detected.T).astype(np.int64)
        replicates.append(statistic(value, double_ranks(score)))
    score = double_ranks(np.rint(detected.sum(axis=1)).astype(np.int64)[None, :])
    return Bootstrap(float(statistic(value, score)[0]), np.concatenate(replicates), "mutants")


def task_value_bootstrap(kills: ArrayLike, values: ArrayLike, *, seed: int, n_replicates: int = 2000) -> Bootstrap:
    """Draws tasks and mutants again for a metric known on single tasks: its value against the mutants a task kills.

    Args:
        kills: tasks x mutants.
        values: the metric on each task alone, shape (T,).
        seed: of the draws.
        n_replicates: how many resamples.
    """
    killed = as_bools(kills, "kills")
    n_tasks, n_mutants = killed.shape
    found = as_values(values, n_tasks, "values")
    level = np.unique(found, return_inverse=True)[1].astype(np.int64)
    statistic, by_mutant = RankStatistic(None), killed.astype(np.float32)
    replicates: list[Floats] = []
    for rng, n in block_streams(seed, _PURPOSE_TASK_VALUES, n_replicates):
        tasks = rng.integers(0, n_tasks, (n, n_tasks))
        weight = rng.multinomial(n_mutants, np.full(n_mutants, 1 / n_mutants), size=n).astype(np.float32)
        score = np.rint(np.take_along_axis(weight @ by_mutant.T, tasks, axis=1)).astype(np.int64)
        replicates.append(statistic(double_ranks(level[tasks]), double_ranks(score)))
    observed = statistic(double_ranks(level[None, :]), double_ranks(killed.sum(axis=1)[None, :].astype(np.int64)))
    return Bootstrap(float(observed[0]), np.concatenate(replicates), "tasks_and_mutants")
