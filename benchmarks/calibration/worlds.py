# SPDX-License-Identifier: Apache-2.0
"""Two unlike worlds with a known link between coverage and kills, and five ways to choose subsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from metric_benchmark.correlation.worlds import ItemWorld, draw_membership


class World(Protocol):
    """Draws which task is affected by which mutant (T x M), and which task covers which item (T x I)."""

    def draw(self, rng: np.random.Generator, n_tasks: int, n_mutants: int) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class TopicWorld:
    """Tasks lie in a space of topics; items and faults are half-spaces of it, items in clusters.

    Unlike `ItemWorld`, items come together, kills depend on depth in a topic rather than on one item, and a mutant's
    kills are correlated with several items at once. A mutant that is not linked looks at the topics of a twin of the
    tasks that coverage never sees.
    """

    link: float = 1.0
    n_items: int = 30
    n_topics: int = 4
    n_clusters: int = 6
    rich: bool = False
    threshold: float = 1.3

    def draw(self, rng: np.random.Generator, n_tasks: int, n_mutants: int) -> tuple[np.ndarray, np.ndarray]:
        tasks, twins = rng.standard_normal((2, n_tasks, self.n_topics))
        volume = rng.normal(0, 0.7, n_tasks) if self.rich else np.zeros(n_tasks)
        centres = _unit(rng.standard_normal((self.n_clusters, self.n_topics)))
        near = centres[rng.integers(0, self.n_clusters, self.n_items)]
        items = _unit(near + 0.4 * rng.standard_normal((self.n_items, self.n_topics)))
        limit = self.threshold + 0.3 * rng.standard_normal(self.n_items)
        depth = tasks @ items.T + 0.3 * rng.standard_normal((n_tasks, self.n_items)) + volume[:, None]
        broken = items[rng.integers(0, self.n_items, n_mutants)]
        is_seen = rng.random(n_mutants) < self.link
        felt = np.where(is_seen, tasks @ broken.T, twins @ broken.T) + volume[:, None]
        felt = felt + 0.5 * rng.standard_normal((n_tasks, n_mutants))
        kills = felt > self.threshold + 0.3 + 0.3 * rng.standard_normal(n_mutants)
        return kills, depth > limit


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def world(name: str, link: float, rich: bool = False) -> World:
    """Returns a world by name: `items` or `topics`."""
    return ItemWorld(link=link, rich=rich) if name == "items" else TopicWorld(link=link, rich=rich)


def sizes_for(n_tasks: int) -> tuple[int, ...]:
    """Subset sizes: 10, 20, 30 and 40% of the tasks."""
    return tuple(max(2, round(share * n_tasks)) for share in (0.1, 0.2, 0.3, 0.4))


def membership(design: str, rng: np.random.Generator, n_subsets: int, n_tasks: int, cover: np.ndarray) -> np.ndarray:
    """Chooses subsets.

    Designs: `base` and `rich` at random in four sizes; `one-size` at random in one; `nested` as chains in which each
    subset holds the one before; in `guided` half of the subsets are grown greedily by coverage, half are random.
    """
    sizes = sizes_for(n_tasks)
    if design == "one-size":
        return draw_membership(rng, n_subsets, n_tasks, sizes[1:2])
    if design == "nested":
        chains = []
        steps = np.arange(2, n_tasks // 2, 2)
        for _ in range(-(-n_subsets // len(steps))):
            place = rng.permutation(n_tasks)
            chains.append(place[None, :] < steps[:, None])
        return np.concatenate(chains)[:n_subsets]
    if design == "guided":
        random = draw_membership(rng, n_subsets, n_tasks, sizes)
        is_grown = np.arange(n_subsets) % 2 == 1
        random[is_grown] = grow(rng, random[is_grown].sum(axis=1), cover)
        return random
    return draw_membership(rng, n_subsets, n_tasks, sizes)


def grow(rng: np.random.Generator, sizes: np.ndarray, cover: np.ndarray, n_candidates: int = 5) -> np.ndarray:
    """Grows subsets task by task, taking of five random candidates the one that adds most items."""
    n_tasks = len(cover)
    member = np.zeros((len(sizes), n_tasks), dtype=bool)
    covered = np.zeros((len(sizes), cover.shape[1]), dtype=bool)
    for step in range(int(sizes.max())):
        rows = np.flatnonzero(sizes > step)
        order = np.argsort(rng.random((len(rows), n_tasks)) + member[rows], axis=1)
        candidates = order[:, : min(n_candidates, n_tasks - step)]
        added = (cover[candidates] & ~covered[rows][:, None, :]).sum(axis=2)
        best = candidates[np.arange(len(rows)), added.argmax(axis=1)]
        member[rows, best] = True
        covered[rows] |= cover[best]
    return member


def detected(member: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Returns which subset reaches which column, K x n."""
    return (member.astype(np.float32) @ matrix.astype(np.float32)) > 0.5
