# SPDX-License-Identifier: Apache-2.0
"""`reads_per_file`: which files were read, by any of the tools named in settings."""

from __future__ import annotations

from collections.abc import Iterable

from metric_benchmark.coverage.per_trace import PerTraceMetric, PerTraceSettings
from metric_benchmark.coverage.protocol import MetricRequest, Trace


class ReadsSettings(PerTraceSettings):
    """Settings of `reads_per_file`.

    Args:
        tools: tools that read.
        argument: name of the argument that names the file.
    """

    tools: tuple[str, ...] = ("read",)
    argument: str = "path"


class ReadsPerFile(PerTraceMetric):
    """Items are the paths that were read."""

    Settings = ReadsSettings

    def items_of(self, trace: Trace, request: MetricRequest) -> Iterable[str]:
        """Yields the paths."""
        for step in trace.steps:
            for call in step.tool_calls:
                path = call.arguments.get(request.settings.argument)
                if call.name in request.settings.tools and isinstance(path, str):
                    yield path
