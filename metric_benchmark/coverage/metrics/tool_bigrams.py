# SPDX-License-Identifier: Apache-2.0
"""`tool_bigrams`: which tool follows which. Order is where plans differ that use the same tools."""

from __future__ import annotations

from collections.abc import Iterable

from metric_benchmark.coverage.per_trace import PerTraceMetric
from metric_benchmark.coverage.protocol import MetricRequest, Trace


class ToolBigrams(PerTraceMetric):
    """Items are pairs `a -> b` of tools seen in a row in the baseline's traces; a subagent's calls are a row apart."""

    def items_of(self, trace: Trace, request: MetricRequest) -> Iterable[str]:
        """Yields the pairs."""
        last: dict[str, str] = {}
        for step in trace.steps:
            for call in step.tool_calls:
                if step.thread in last:
                    yield f"{last[step.thread]} -> {call.name}"
                last[step.thread] = call.name
