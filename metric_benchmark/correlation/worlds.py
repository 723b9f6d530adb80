# SPDX-License-Identifier: Apache-2.0
"""Simulated cases in which the true link between coverage and kills is known, for power calculations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ItemWorld:
    """Tasks exercise items; each mutant breaks one item and is caught by about half the tasks that exercise it.

    Attributes:
        n_items: items of the metric.
        link: share of the mutants whose item is one the metric sees. The others break items of an unrelated twin of
            the metric, as frequent and unseen: at 0 coverage says nothing about kills.
        kill_rate: chance that a task that exercises the broken item fails.
        rich: whether tasks differ in how much they exercise at all.
    """

    n_items: int = 30
    link: float = 1.0
    kill_rate: float = 0.5
    rich: bool = False

    def draw(self, rng: np.random.Generator, n_tasks: int, n_mutants: int) -> tuple[Bools, Bools]:
        """Returns which task is affected by which mutant's fault (T x M), and the cover matrix (T x I)."""
        richness = rng.gamma(4, 0.25, n_tasks) if self.rich else np.ones(n_tasks)
        frequency = rng.beta(1, 6, self.n_items)
        chance = np.clip(np.outer(richness, frequency), 0, 0.95)
        cover = rng.random(chance.shape) < chance
        twin = rng.random(chance.shape) < chance
        broken = rng.integers(0, self.n_items, n_mutants)
        is_seen = rng.random(n_mutants) < self.link
        affected = np.where(is_seen[None, :], cover[:, broken], twin[:, broken])
        return affected & (rng.random(affected.shape) < self.kill_rate), cover


def draw_membership(rng: np.random.Generator, n_subsets: int, n_tasks: int, sizes: Sequence[int]) -> Bools:
    """Returns random subsets (K x T); each has one of `sizes`, every size as often as it is listed."""
    chosen = rng.choice(np.minimum(np.asarray(sizes, dtype=np.int64), n_tasks), n_subsets)
    order = rng.random((n_subsets, n_tasks)).argsort(axis=1).argsort(axis=1)
    return order < chosen[:, None]
