# SPDX-License-Identifier: Apache-2.0
"""`instruction_ngrams`: word n-grams of what the tasks say. A text-only baseline: it never looks at what was done."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from metric_benchmark.coverage.per_trace import PerTraceMetric, PerTraceSettings
from metric_benchmark.coverage.protocol import CoverMatrix, MetricRequest, Trace

_WORD = re.compile(r"\w+")


class InstructionNgramsSettings(PerTraceSettings):
    """Settings of `instruction_ngrams`.

    Args:
        n: words per n-gram.
        min_tasks: n-grams in fewer tasks are left out; 2 drops what only one task says, such as its file names.
    """

    n: Annotated[int, Field(ge=1, le=8)] = 2
    min_tasks: Annotated[int, Field(ge=1)] = 1


def instruction_of(trace: Trace) -> str:
    """Returns what the user said before the agent's first step; in a multi-step task, before each step's first."""
    begun: set[str] = set()
    said: list[str] = []
    for step in trace.steps:
        if step.source == "agent":
            begun.add(step.thread)
        # A thread with a slash is a subagent's; its user is the agent.
        elif step.source == "user" and step.thread not in begun and "/" not in step.thread:
            said.append(step.message)
    return "\n".join(said)


class InstructionNgrams(PerTraceMetric):
    """Items are the n-grams of the instructions, as the baseline's traces quote them."""

    Settings = InstructionNgramsSettings

    def items_of(self, trace: Trace, request: MetricRequest) -> Iterable[str]:
        """Yields the n-grams of one task's instruction, in lower case."""
        words = _WORD.findall(instruction_of(trace).lower())
        n = request.settings.n
        return (" ".join(words[i : i + n]) for i in range(len(words) - n + 1))

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Leaves out rare n-grams, and calls a task unmeasured whose traces don't quote its instruction."""
        silent = {trace.task for trace in request.traces} - {
            trace.task for trace in request.traces if instruction_of(trace).strip()
        }
        matrix = super().measure(request)
        n_tasks = dict.fromkeys(matrix.items, 0)
        for items in matrix.tasks.values():
            for item in items:
                n_tasks[item] += 1
        kept = frozenset(item for item, n in n_tasks.items() if n >= request.settings.min_tasks)
        return replace(
            matrix,
            items=tuple(item for item in matrix.items if item in kept),
            tasks={task: items & kept for task, items in matrix.tasks.items() if task not in silent},
            unmeasured={
                **matrix.unmeasured,
                **dict.fromkeys(sorted(silent), "the trace quotes no instruction before the agent's first step"),
            },
        )
