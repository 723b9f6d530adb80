# SPDX-License-Identifier: Apache-2.0
"""Base of metrics that say, trace by trace, which items it exercises; joins attempts, forms the universe."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import BaseModel

from metric_benchmark.coverage.protocol import CoverMatrix, MetricRequest, Settings, Trace


class PerTraceSettings(Settings):
    """Settings of every metric that looks at one trace at a time.

    Args:
        attempts: how several attempts at a task are joined. `union`: an item counts if any trace covers it;
            `majority`: if more than half of the task's readable traces do.
    """

    attempts: Literal["union", "majority"] = "union"


class PerTraceMetric(abc.ABC):
    """Base of a metric whose items can be read off one trace."""

    Settings: ClassVar[type[BaseModel]] = PerTraceSettings

    @abc.abstractmethod
    def items_of(self, trace: Trace, request: MetricRequest) -> Iterable[str]:
        """Returns the items this trace covers; repeats don't matter."""

    def universe(self, seen: frozenset[str], request: MetricRequest) -> Iterable[str]:
        """Returns all items: those seen in any trace, unless a metric knows better."""
        return seen

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Joins the attempts of each task and forms the universe."""
        n_traces: Counter[str] = Counter()
        votes: dict[str, Counter[str]] = {}
        for trace in request.traces:
            n_traces[trace.task] += 1
            votes.setdefault(trace.task, Counter()).update(set(self.items_of(trace, request)))
        seen = frozenset(item for counted in votes.values() for item in counted)
        tasks = {
            task: frozenset(
                item
                for item, n in counted.items()
                if request.settings.attempts == "union" or 2 * n > n_traces[task]
            )
            for task, counted in votes.items()
        }
        return CoverMatrix(
            items=tuple(sorted(set(self.universe(seen, request)))),
            tasks=tasks,
            unmeasured={task: why for task, why in request.unmeasured.items() if task not in tasks},
        )
