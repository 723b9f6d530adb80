# SPDX-License-Identifier: Apache-2.0
"""`trajectory_length`: how much of all the agent's work a subset makes it do. Longer tasks give faults more room."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Literal

from metric_benchmark.coverage.protocol import MetricRequest, OpaqueCoverage, Settings, Trace
from metric_benchmark.records.base import Undefined


class TrajectoryLengthSettings(Settings):
    """Settings of `trajectory_length`.

    Args:
        unit: what is counted: the agent's `steps` or its `tool_calls`.
    """

    unit: Literal["steps", "tool_calls"] = "steps"


def _length(trace: Trace, unit: str) -> int:
    steps = [step for step in trace.steps if step.source == "agent"]
    return len(steps) if unit == "steps" else sum(len(step.tool_calls) for step in steps)


class TrajectoryLength:
    """Coverage of a subset is its tasks' share of the total length; a task's length is the mean over its attempts."""

    Settings = TrajectoryLengthSettings

    def measure(self, request: MetricRequest) -> OpaqueCoverage:
        """Answers with a share per subset and per task."""
        lengths: defaultdict[str, list[int]] = defaultdict(list)
        for trace in request.traces:
            lengths[trace.task].append(_length(trace, request.settings.unit))
        means = {task: sum(found) / len(found) for task, found in lengths.items()}
        # fsum does not depend on the order, so neither does the coverage.
        total = math.fsum(means.values())
        shares = {
            subset: min(1.0, math.fsum(means[task] for task in tasks if task in means) / total)
            if total
            else Undefined(reason="no_items")
            for subset, tasks in request.subsets.items()
        }
        return OpaqueCoverage(
            subsets=shares,
            tasks={task: mean / total for task, mean in means.items()} if total else {},
            unmeasured=request.unmeasured,
        )
