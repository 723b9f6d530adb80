# SPDX-License-Identifier: Apache-2.0
"""Markdown tables, and simulations spread over processes with the same result for any number of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "-" if np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
    return str(value)


class Simulator:
    """Runs independent simulations; each gets its own stream, made from the seed and its number."""

    def __init__(self, seed: int, processes: int) -> None:
        self.seed = seed
        self.pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn")) if processes > 1 else None

    def run(self, one: Callable[..., Any], n: int, *arguments: Any) -> list[Any]:
        """Returns `one(rng, *arguments)` for n streams, in order."""
        streams = np.random.SeedSequence(self.seed).spawn(n)
        jobs = [(one, child, arguments) for child in streams]
        if self.pool is None:
            return [_call(job) for job in jobs]
        return list(self.pool.map(_call, jobs, chunksize=max(1, n // 16)))

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()


def _call(job: tuple[Callable[..., Any], np.random.SeedSequence, tuple[Any, ...]]) -> Any:
    one, child, arguments = job
    return one(np.random.default_rng(child), *arguments)
