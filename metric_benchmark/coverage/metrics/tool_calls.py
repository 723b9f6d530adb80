# SPDX-License-Identifier: Apache-2.0
"""`tool_calls`: which tools were called. The coverage most teams mean when they say coverage."""

from __future__ import annotations

from collections.abc import Iterable

from metric_benchmark.coverage.per_trace import PerTraceMetric, PerTraceSettings
from metric_benchmark.coverage.protocol import MetricRequest, Trace


class ToolCallsSettings(PerTraceSettings):
    """Settings of `tool_calls`.

    Args:
        tools: tools the agent has. One that nobody called is an uncovered item; without this list it would
            be unknown.
    """

    tools: tuple[str, ...] = ()


class ToolCalls(PerTraceMetric):
    """Items are the names of tools seen in the baseline's traces or listed in settings."""

    Settings = ToolCallsSettings

    def items_of(self, trace: Trace, request: MetricRequest) -> Iterable[str]:
        """Returns the names of the tools called."""
        return (call.name for step in trace.steps for call in step.tool_calls)

    def universe(self, seen: frozenset[str], request: MetricRequest) -> Iterable[str]:
        """Returns the tools seen and the tools listed."""
        return seen | set(request.settings.tools)
