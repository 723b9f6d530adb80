# SPDX-License-Identifier: Apache-2.0
"""`synthetic`: made-up items that know nothing of the agent. It tests the wiring and is never a result."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import Field

from metric_benchmark.coverage.protocol import CoverMatrix, MetricRequest, Settings


class SyntheticSettings(Settings):
    """Settings of `synthetic`.

    Args:
        seed: another seed gives another matrix.
        n_items: size of the universe.
        density_frac: probability that a task covers an item.
    """

    seed: int = 0
    n_items: Annotated[int, Field(ge=1, le=10_000)] = 20
    density_frac: Annotated[float, Field(ge=0, le=1)] = 0.2


def _uniform(seed: int, task: str, item: str) -> float:
    """Draws from [0, 1) by hashing, so that a task's items don't depend on the other tasks or their order."""
    digest = hashlib.sha256(f"{seed}\0{task}\0{item}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


class Synthetic:
    """Items are drawn at random per task."""

    Settings = SyntheticSettings
    needs_traces = False
    label = "wiring test"

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Draws the matrix."""
        chosen: SyntheticSettings = request.settings
        width = len(str(chosen.n_items))
        items = tuple(f"item-{i:0{width}}" for i in range(1, chosen.n_items + 1))
        return CoverMatrix(
            items=items,
            tasks={
                task: frozenset(i for i in items if _uniform(chosen.seed, task, i) < chosen.density_frac)
                for task in request.tasks
            },
        )
