# SPDX-License-Identifier: Apache-2.0
"""`observation_kinds`: which kinds of answers the agent had to cope with: error, empty, long, truncated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from metric_benchmark.coverage.per_trace import PerTraceMetric, PerTraceSettings
from metric_benchmark.coverage.protocol import MetricRequest, Observation, Trace, TraceStep

KINDS = ("empty", "error", "long", "truncated")

#: ATIF has no field for either, so both are read off common spellings; settings can replace them.
_ERROR_PATTERNS = (
    r"(?im)^\s*(error|fatal|exception)\b",
    r"(?i)command not found|no such file or directory|permission denied|is a directory|not a directory",
    r"Traceback \(most recent call last\)",
    r"(?im)^\[?(exit|return) ?(code|status):? *[1-9]\d*",
)
_TRUNCATED_PATTERNS = (r"(?i)\btruncated\b", r"\[\s*(\.\.\.|…)", r"(?i)\b\d+ more (lines|characters|bytes)\b")
_CODE_KEYS = ("return_code", "returncode", "exit_code", "exit_status")


def _compilable(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return patterns


Patterns = Annotated[tuple[str, ...], AfterValidator(_compilable)]


class ObservationKindsSettings(PerTraceSettings):
    """Settings of `observation_kinds`.

    Args:
        long_chars: an observation with more characters is long.
        per_tool: make items `tool: kind` instead of `kind`, for the tools seen in the traces.
        error_patterns: regular expressions; an observation that matches one is an error, as is one whose step or
            result has a non-zero return code or a true `is_error` or `error` in `extra`.
        truncated_patterns: likewise, next to a true `truncated` in `extra`.
    """

    long_chars: Annotated[int, Field(ge=1)] = 2000
    per_tool: bool = False
    error_patterns: Patterns = _ERROR_PATTERNS
    truncated_patterns: Patterns = _TRUNCATED_PATTERNS


def _marked_error(extra: Mapping[str, Any]) -> bool:
    codes = (extra.get(key) for key in _CODE_KEYS)
    return bool(extra.get("is_error") or extra.get("error")) or any(
        isinstance(code, int) and code != 0 for code in codes
    )


def kinds_of(observation: Observation, step: TraceStep, settings: ObservationKindsSettings) -> set[str]:
    """Returns the kinds of one observation; an ordinary one has none."""
    text = observation.text
    found: set[str] = set()
    if not text.strip():
        found.add("empty")
    if len(text) > settings.long_chars:
        found.add("long")
    # A step's return code can only be told to belong to this observation if it is the only one.
    marks = [observation.extra, *([step.extra] if len(step.observations) == 1 else [])]
    if any(map(_marked_error, marks)) or any(re.search(p, text) for p in settings.error_patterns):
        found.add("error")
    if any(m.get("truncated") for m in marks) or any(re.search(p, text) for p in settings.truncated_patterns):
        found.add("truncated")
    return found


class ObservationKinds(PerTraceMetric):
    """Items are the four kinds, met or not; with `per_tool`, each kind for each tool that was called."""

    Settings = ObservationKindsSettings

    def items_of(self, trace: Trace, request: MetricRequest) -> Iterable[str]:
        """Yields the kinds met in one trace."""
        for step in trace.steps:
            tools = {call.call_id: call.name for call in step.tool_calls}
            for observation in step.observations:
                kinds = kinds_of(observation, step, request.settings)
                if not request.settings.per_tool:
                    yield from kinds
                elif observation.call_id in tools:
                    yield from (f"{tools[observation.call_id]}: {kind}" for kind in kinds)

    def universe(self, seen: frozenset[str], request: MetricRequest) -> Iterable[str]:
        """Returns all kinds, or all pairs of a tool that was called and a kind."""
        if not request.settings.per_tool:
            return KINDS
        called = {call.name for trace in request.traces for step in trace.steps for call in step.tool_calls}
        return (f"{tool}: {kind}" for tool in called for kind in KINDS)
