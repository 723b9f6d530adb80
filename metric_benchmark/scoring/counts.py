# SPDX-License-Identifier: Apache-2.0
"""Kills of many cells at once from pass counts: for resampled attempts and for simulated experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.config.models import KillRuleConfig
from metric_benchmark.errors import ConfigError
from metric_benchmark.multiplicity import P_TOLERANCE
from metric_benchmark.records.scores import MutantKills, TaskKill
from metric_benchmark.scoring.eligibility import REWARD_TOLERANCE
from metric_benchmark.scoring.exact import boschloo_table, fisher_table

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def kills_from_counts(
    rule: KillRuleConfig,
    baseline_passed: Ints,
    n_baseline: Ints,
    mutant_passed: Ints,
    n_mutant: Ints,
    *,
    min_valid: int,
) -> Bools:
    """Applies a kill rule to pass counts; undetermined cells are not killed.

    Args:
        rule: the kill rule.
        baseline_passed: passed attempts of the baseline by task, shape (T,).
        n_baseline: valid attempts of the baseline by task, shape (T,).
        mutant_passed: the same by task and mutant, shape (T, M).
        n_mutant: valid attempts by task and mutant, shape (T, M).
        min_valid: valid attempts a cell needs on both sides.

    Returns:
        the kill matrix, T x M.
    """
    passed, n0 = (np.broadcast_to(column[:, None], mutant_passed.shape) for column in (baseline_passed, n_baseline))
    tested = np.minimum(n0, n_mutant) >= max(min_valid, 1)
    if rule.name == "deterministic":
        return tested & (passed == n0) & (mutant_passed < n_mutant)
    if rule.name == "threshold":
        drop = passed / np.maximum(n0, 1) - mutant_passed / np.maximum(n_mutant, 1)
        return tested & (drop >= (rule.drop or 0.0) - REWARD_TOLERANCE)
    p = np.full(mutant_passed.shape, 2.0)
    table_of = boschloo_table if rule.test == "boschloo" else fisher_table
    for pair in np.unique(np.stack([n0[tested], n_mutant[tested]]), axis=1).T:
        cells = tested & (n0 == pair[0]) & (n_mutant == pair[1])
        p[cells] = table_of(int(pair[0]), int(pair[1]))[passed[cells], mutant_passed[cells]]
    return _rejected(p, tested.sum(axis=0), rule.alpha)


def _rejected(p: Floats, n_tested: Ints, alpha: float) -> Bools:
    """Benjamini-Hochberg down each column; untested cells hold a p above 1."""
    ordered = np.sort(p, axis=0)
    rank = np.arange(1, len(p) + 1)[:, None]
    is_small = ordered * n_tested / rank <= alpha + P_TOLERANCE
    last = len(p) - 1 - np.argmax(is_small[::-1], axis=0)
    limit = np.where(is_small.any(axis=0), np.take_along_axis(ordered, last[None, :], axis=0)[0], -1.0)
    return (p <= limit) & (p <= 1.0)


@dataclass(frozen=True)
class AttemptRedraw:
    """Draws a case's kill matrix from resampled attempts, for intervals that include the attempts' noise.

    One draw of the baseline's attempts is shared by all mutants, as in the experiment itself. It repairs little: ten
    passes out of ten attempts are resampled to ten out of ten.
    """

    rule: KillRuleConfig
    min_valid: int
    baseline_passed: Ints
    n_baseline: Ints
    mutant_passed: Ints
    n_mutant: Ints

    @classmethod
    def of(
        cls, rule: KillRuleConfig, min_valid: int, mutants: Sequence[MutantKills], *, tasks: Sequence[str]
    ) -> AttemptRedraw:
        """Collects the counts from stage-2 records, mutants in their order.

        Args:
            rule: the kill rule.
            min_valid: valid attempts a cell needs on both sides.
            mutants: the records; those that were read back name their tasks in another order than the case.
            tasks: the eligible tasks in the order of the kill matrix that is drawn anew.

        Raises:
            ConfigError: rewards are graded, so pass counts do not say what the kill rule saw.
        """
        cells = [[record.tasks[task] for record in mutants] for task in tasks]
        if any(_is_graded(cell) for row in cells for cell in row):
            raise ConfigError(
                "`correlation.resample_attempts` needs rewards of 0 and 1, but this case has graded ones; leave it out"
            )

        def table(name: str) -> Ints:
            return np.array([[getattr(cell, name) for cell in row] for row in cells], dtype=np.int64)

        return cls(
            rule=rule,
            min_valid=min_valid,
            baseline_passed=table("n_baseline_passed")[:, 0],
            n_baseline=table("n_baseline")[:, 0],
            mutant_passed=table("n_mutant_passed"),
            n_mutant=table("n_mutant"),
        )

    def __call__(self, rng: np.random.Generator) -> Bools:
        """Returns one redrawn kill matrix, T x M."""
        baseline = rng.binomial(self.n_baseline, self.baseline_passed / np.maximum(self.n_baseline, 1))
        mutant = rng.binomial(self.n_mutant, self.mutant_passed / np.maximum(self.n_mutant, 1))
        return kills_from_counts(self.rule, baseline, self.n_baseline, mutant, self.n_mutant, min_valid=self.min_valid)


def _is_graded(cell: TaskKill) -> bool:
    """Whether a mean reward is another than the share of the attempts that passed."""
    sides = (
        (cell.mean_baseline, cell.n_baseline_passed, cell.n_baseline),
        (cell.mean_mutant, cell.n_mutant_passed, cell.n_mutant),
    )
    return any(
        mean is not None and abs(mean * n - n_passed) > REWARD_TOLERANCE * max(n, 1) for mean, n_passed, n in sides
    )


@dataclass(frozen=True)
class SimulatedAttempts:
    """Runs a simulated experiment: from which mutant is faulty on which task to what its attempts would show.

    Attributes:
        rule: the kill rule.
        min_valid: valid attempts a cell needs.
        n_baseline: baseline attempts per task.
        n_mutant: mutant attempts per task.
        baseline_rate: how often the baseline passes a task.
        faulty_rate: how often a mutant passes a task that its fault affects.
    """

    rule: KillRuleConfig
    min_valid: int
    n_baseline: int
    n_mutant: int
    baseline_rate: float = 0.95
    faulty_rate: float = 0.2

    def __call__(self, faults: Bools, rng: np.random.Generator) -> Bools:
        """Returns the kills seen, T x M, given the faults, T x M. Without randomness faults are seen as they are."""
        if self.rule.name == "deterministic":
            return faults
        n0 = np.full(len(faults), self.n_baseline, dtype=np.int64)
        n = np.full(faults.shape, self.n_mutant, dtype=np.int64)
        baseline = rng.binomial(n0, self.baseline_rate)
        mutant = rng.binomial(n, np.where(faults, self.faulty_rate, self.baseline_rate))
        return kills_from_counts(self.rule, baseline, n0, mutant, n, min_valid=self.min_valid)
