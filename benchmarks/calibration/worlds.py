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
    subset holds the one before; `guided` the best covering of five random candidates, every time.
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
        candidates = [draw_membership(rng, n_subsets, n_tasks, sizes) for _ in range(5)]
        reach = np.array(
            [((one.astype(np.float32) @ cover.astype(np.float32)) > 0.5).sum(axis=1) for one in candidates]
        )
        return np.stack(candidates)[reach.argmax(axis=0), np.arange(n_subsets)]
    return draw_membership(rng, n_subsets, n_tasks, sizes)


def detected(member: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Returns which subset reaches which column, K x n."""
    return (member.astype(np.float32) @ matrix.astype(np.float32)) > 0.5
