# SPDX-License-Identifier: Apache-2.0
"""`tool_arguments_shape`: which tools were called with which set of argument names."""

from __future__ import annotations

import json
from collections.abc import Iterable

from metric_benchmark.coverage.per_trace import PerTraceMetric
from metric_benchmark.coverage.protocol import MetricRequest, ToolCall, Trace


def shape(call: ToolCall) -> str:
    """Names a call's shape, e.g. `read(limit,path)`; odd keys are quoted, so that shapes stay distinct."""
    keys = (key if key.isidentifier() else json.dumps(key) for key in sorted(call.arguments))
    return f"{call.name}({','.join(keys)})"


class ToolArgumentsShape(PerTraceMetric):
    """Items are shapes seen in the baseline's traces: tool and sorted argument names, whatever the values."""

    def items_of(self, trace: Trace, request: MetricRequest) -> Iterable[str]:
        """Returns the shapes of the calls."""
        return (shape(call) for step in trace.steps for call in step.tool_calls)
