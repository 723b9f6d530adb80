# SPDX-License-Identifier: Apache-2.0
"""`suite_size`: the null metric. Bigger suites catch more; a real metric has to know more than that."""

from __future__ import annotations

from metric_benchmark.coverage.protocol import CoverMatrix, MetricRequest, Settings


class SuiteSize:
    """Items are the tasks, each covers itself: coverage of a subset is its size over the number of tasks."""

    Settings = Settings
    needs_traces = False
    label = "null metric"

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Answers with the identity matrix."""
        return CoverMatrix(items=request.tasks, tasks={task: frozenset({task}) for task in request.tasks})
