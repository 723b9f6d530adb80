# SPDX-License-Identifier: Apache-2.0
"""Task permutation tests: is coverage associated with the mutant score, beyond what any coverage would be?

Subsets share tasks, so their pairs are not independent and textbook p-values are worthless. Tasks are the
units: under the null hypothesis which task owns which row of the cover matrix does not matter (compare the
partial Mantel test, Legendre 2000).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metric_benchmark.correlation.bitsets import Owners, SubsetBits, add_bits, reached
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
Permuted = Literal["coverage", "kills", "task_values"]

#: A replicate counts as large as the observed value from this much below it on.
TIE = 1e-12
BLOCK_OF_TASKS = 4
_PURPOSE_TASKS, _PURPOSE_BLOCKS = 1, 2


@dataclass(frozen=True)
class Permutations(Replicated):
    """Outcome of a permutation test.

    Attributes:
        exact: whether all permutations were enumerated (the observed one is among them).
        statistic_name: which estimator it is.
        permuted: whose rows were dealt out anew.
    """

    exact: bool
    statistic_name: str
    permuted: Permuted

    @property
    def null_mean(self) -> float:
        """Mean of the defined replicates: what unrelated coverage of this kind gives; NaN when there are none."""
        return float(self.defined.mean()) if len(self.defined) else math.nan

    def p_value(self, direction: Literal["greater", "less"] = "greater") -> float:
        """One-sided p; an undefined replicate counts as extreme, so it can only make p larger."""
        if math.isnan(self.observed):
            return 1.0
        if direction == "greater":
            extreme = ~(self.replicates < self.observed - TIE)
        else:
            extreme = ~(self.replicates > self.observed + TIE)
        n_extreme, n = int(extreme.sum()), len(self.replicates)
        return n_extreme / n if self.exact else (1 + n_extreme) / (n + 1)


@dataclass(frozen=True)
class _Problem:
    """Rows of `moving` are permuted, `fixed` ranks stay. `blocks` restricts permutations to within blocks."""

    bits: SubsetBits
    moving: Owners
    fixed: Floats
    statistic: RankStatistic
    blocks: tuple[Ints, ...]

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        assignment = np.empty((n, self.bits.n_tasks), dtype=np.int64)
        for tasks in self.blocks:
            assignment[:, tasks] = rng.permuted(np.tile(tasks, (n, 1)), axis=1)
        return assignment

    def evaluate(self, assignment: Ints) -> Floats:
        step = self.bits.side_by_side(self.moving)
        counts = [
            self.bits.counts(add_bits(reached(self.bits.permuted(assignment[start : start + step]), self.moving)))
            for start in range(0, len(assignment), step)
        ]
        return self.statistic(double_ranks(np.concatenate(counts)), self.fixed)

    def block(self, stream: tuple[np.random.Generator, int] | Ints) -> Floats:
        return self.evaluate(stream if isinstance(stream, np.ndarray) else self.draw(*stream))


def task_permutation_test(
    membership: ArrayLike,
    kills: ArrayLike,
    cover: ArrayLike,
    *,
    seed: int,
    n_replicates: int = 2000,
    permuted: Literal["coverage", "kills"] = "coverage",
    given_size: bool = True,
    processes: int = 1,
) -> Permutations:
    """Tests association by permuting which task owns which row; all T! orders are enumerated when they are few enough.

    The claim it tests is about coverage as it is, including how many items a task has: where tasks rich in
    items also kill more, it rejects, and rightly so.

    Args:
        membership: subsets x tasks, 1 where the task is a member.
        kills: tasks x mutants.
        cover: tasks x items.
        seed: of the random permutations.
        n_replicates: random permutations; all are enumerated where T! is not larger.
        permuted: rows of `cover`, or of `kills` where the subsets were chosen by looking at coverage.
        given_size: partial Spearman given size (plain where all sizes are equal); False for plain Spearman.
        processes: worker processes; the result does not depend on it.

    Raises:
        ConfigError: shapes do not fit, or a matrix holds anything but 0 and 1.
    """
    problem, observed = _problem(membership, kills, cover, permuted, blocks=None, given_size=given_size)
    n_tasks = problem.bits.n_tasks
    exact = n_tasks <= 12 and math.factorial(n_tasks) <= n_replicates
    if exact:
        everything = np.array(list(permutations(range(n_tasks))), dtype=np.int64).reshape(-1, n_tasks)
        pieces: list[tuple[np.random.Generator, int] | Ints] = [
            everything[start : start + 500] for start in range(0, len(everything), 500)
        ]
    else:
        pieces = list(block_streams(seed, _PURPOSE_TASKS, n_replicates))
    return Permutations(
        observed=observed,
        replicates=run_blocks(problem.block, pieces, processes),
        exact=exact,
        statistic_name=problem.statistic.name,
        permuted=permuted,
    )


def which_items_test(
    membership: ArrayLike,
    kills: ArrayLike,
    cover: ArrayLike,
    *,
    seed: int,
    n_replicates: int = 2000,
    permuted: Literal["coverage", "kills"] = "coverage",
    processes: int = 1,
) -> Permutations:
    """Asks whether it matters *which* items a task has, and not only how many.

    Tasks are sorted by their number of items and permuted within consecutive blocks of four, so that every
    task gets the row of one with about as many items. A small p means "which items"; a large one means "not
    separable from volume", never "volume": the test has a quarter to a third of the power of the other one.

    Args and errors are those of `task_permutation_test`.
    """
    order = np.argsort(as_bools(cover, "cover").sum(axis=1), kind="stable").astype(np.int64)
    blocks = tuple(order[start : start + BLOCK_OF_TASKS] for start in range(0, len(order), BLOCK_OF_TASKS))
    problem, observed = _problem(membership, kills, cover, permuted, blocks)
    pieces = block_streams(seed, _PURPOSE_BLOCKS, n_replicates)
    return Permutations(
        observed=observed,
        replicates=run_blocks(problem.block, pieces, processes),
        exact=False,
        statistic_name=problem.statistic.name,
        permuted=permuted,
    )


def _problem(
    membership: ArrayLike,
    kills: ArrayLike,
    cover: ArrayLike,
    permuted: str,
    blocks: tuple[Ints, ...] | None,
    given_size: bool = True,
) -> tuple[_Problem, float]:
    members, killed, covered = (
        as_bools(membership, "membership"),
        as_bools(kills, "kills"),
        as_bools(cover, "cover"),
    )
    check_shapes(members, killed, covered)
    bits = SubsetBits(members)
    statistic = RankStatistic.given(members.sum(axis=1)) if given_size else RankStatistic(None)
    moving, staying = (killed, covered) if permuted == "kills" else (covered, killed)
    n_tasks = members.shape[1]
    identity = np.arange(n_tasks, dtype=np.int64)[None, :]
    fixed = double_ranks(bits.counts(add_bits(reached(bits.permuted(identity), Owners.of(staying)))))
    problem = _Problem(bits, Owners.of(moving), fixed, statistic, blocks or (identity[0],))
    return problem, float(problem.evaluate(identity)[0])


def task_value_test(kills: ArrayLike, values: ArrayLike, *, seed: int, n_replicates: int = 2000) -> Permutations:
    """Tests an opaque metric on single tasks: its value on a task against the number of mutants the task kills.

    An opaque metric says nothing about unions, so subsets cannot be permuted; single tasks can.

    Args:
        kills: tasks x mutants.
        values: the metric on each task alone, shape (T,).
        seed: of the random permutations.
        n_replicates: random permutations; all are enumerated where T! is not larger.
    """
    killed = as_bools(kills, "kills")
    score = double_ranks(killed.sum(axis=1)[None, :].astype(np.int64))
    value = double_ranks_of(as_values(values, len(killed), "values"))
    statistic, n_tasks = RankStatistic(None), len(killed)
    exact = n_tasks <= 12 and math.factorial(n_tasks) <= n_replicates
    if exact:
        orders = [np.array(list(permutations(range(n_tasks))), dtype=np.int64).reshape(-1, n_tasks)]
    else:
        orders = [
            rng.permuted(np.tile(np.arange(n_tasks), (n, 1)), axis=1)
            for rng, n in block_streams(seed, _PURPOSE_TASKS, n_replicates)
        ]
    return Permutations(
        observed=float(statistic(value[None, :], score)[0]),
        replicates=np.concatenate([statistic(value[order], score) for order in orders]),
        exact=exact,
        statistic_name=statistic.name,
        permuted="task_values",
    )
