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


def join_attempts(
    covered: Iterable[tuple[str, Iterable[str]]], how: Literal["union", "majority"]
) -> dict[str, frozenset[str]]:
    """Joins the items of a task's attempts.

    Args:
        covered: task and covered items, one pair per trace.
        how: see `PerTraceSettings`.
    """
    n_traces: Counter[str] = Counter()
    votes: dict[str, Counter[str]] = {}
    for task, items in covered:
        n_traces[task] += 1
        votes.setdefault(task, Counter()).update(set(items))
    return {
        task: frozenset(item for item, n in counted.items() if how == "union" or 2 * n > n_traces[task])
        for task, counted in votes.items()
    }


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
        covered = [(trace.task, frozenset(self.items_of(trace, request))) for trace in request.traces]
        seen = frozenset[str]().union(*(items for _, items in covered))
        return CoverMatrix(
            items=tuple(sorted(set(self.universe(seen, request)))),
            tasks=join_attempts(covered, request.settings.attempts),
            unmeasured=request.unmeasured,
        )
