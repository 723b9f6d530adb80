# SPDX-License-Identifier: Apache-2.0
"""`instruction_ngrams`: word n-grams of what the tasks say. A text-only baseline: it never looks at what was done."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated

from pydantic import Field

from metric_benchmark.coverage.per_trace import PerTraceSettings, join_attempts
from metric_benchmark.coverage.protocol import CoverMatrix, MetricRequest, Trace

_WORD = re.compile(r"\w+")
_SILENT = "the trace quotes no instruction before the agent's first step"


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


class InstructionNgrams:
    """Items are the n-grams of the instructions, in lower case, as the baseline's traces quote them.

    A task whose traces don't quote its instruction is unmeasured.
    """

    Settings = InstructionNgramsSettings

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Joins the attempts of each task, and leaves out rare n-grams."""
        settings: InstructionNgramsSettings = request.settings
        said = [(trace.task, _WORD.findall(instruction_of(trace).lower())) for trace in request.traces]
        heard = [(task, _ngrams(words, settings.n)) for task, words in said if words]
        tasks = join_attempts(heard, settings.attempts)
        n_tasks = Counter(item for items in tasks.values() for item in items)
        kept = frozenset(item for item, n in n_tasks.items() if n >= settings.min_tasks)
        silent = sorted({task for task, _ in said} - set(tasks))
        return CoverMatrix(
            items=tuple(sorted(kept)),
            tasks={task: items & kept for task, items in tasks.items()},
            unmeasured={**request.unmeasured, **dict.fromkeys(silent, _SILENT)},
        )


def _ngrams(words: list[str], n: int) -> set[str]:
    return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}
