# SPDX-License-Identifier: Apache-2.0
"""`audit_tools`, `audit_capabilities`, `audit_failure_cases`: coverage by an `audit.md`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from metric_benchmark.coverage.audit.decide import State, decide, needs_judgment
from metric_benchmark.coverage.audit.judgments import Target, load_judgments, merge_judgments
from metric_benchmark.coverage.audit.spec import Audit, ItemKind, load_audit
from metric_benchmark.coverage.per_trace import PerTraceSettings, join_attempts
from metric_benchmark.coverage.protocol import CoverMatrix, MetricRequest, Trace
from metric_benchmark.errors import EvidenceError, Problem

AUDIT = "audit.md"
_JUDGMENTS = "judgments/"

#: Judgments by the digest of the trace they are about.
JudgedTraces = Mapping[str, Mapping[Target, str]]


class AuditSettings(PerTraceSettings):
    """Settings of `audit_tools`.

    Args:
        audit: path of the `audit.md`; `{case}` stands for the case's id.
    """

    audit: str


class JudgedAuditSettings(AuditSettings):
    """Settings of `audit_capabilities` and `audit_failure_cases`.

    Args:
        judgments: files of judgments, or folders of them (`*.json`); `{case}` stands for the case's id.
    """

    judgments: tuple[str, ...] = ()


def _called(trace: Trace) -> frozenset[str]:
    return frozenset(call.name for step in trace.steps for call in step.tool_calls)


def measure_audit(audit: Audit, kind: ItemKind, request: MetricRequest, judged: JudgedTraces) -> CoverMatrix:
    """Measures one kind of item on all traces.

    An unjudged item is uncovered, and counted. But where an item could only be covered by judgment and nobody judged
    any such item of this kind on a task's traces, the task is unmeasured: its 0 would be nobody's finding.
    """
    items = audit.of_kind(kind)
    names = {item.name for item in items}
    states: list[tuple[str, dict[str, State]]] = []
    is_judged: set[str] = set()
    for trace in request.traces:
        about = judged.get(trace.sha256, {})
        called = _called(trace)
        states.append((trace.task, {item.name: decide(item, called, about) for item in items}))
        if any(name in names for name, _ in about):
            is_judged.add(trace.task)
    covered = join_attempts(
        ((task, (name for name, state in found.items() if state == "covered")) for task, found in states),
        request.settings.attempts,
    )
    open_cells = {
        (task, name)
        for task, found in states
        for name, state in found.items()
        if state == "unjudged" and name not in covered[task]
    }
    unmeasured = dict(request.unmeasured)
    if items and all(map(needs_judgment, items)):
        for task in sorted({task for task, _ in open_cells} - is_judged):
            unmeasured[task] = f"nobody judged any {kind} on its traces"
    return CoverMatrix(
        items=tuple(sorted(names)),
        tasks={task: found for task, found in covered.items() if task not in unmeasured},
        unmeasured=unmeasured,
        counts={
            "unjudged_items": len({name for _, name in open_cells}),
            "unjudged_task_items": len(open_cells),
        },
        notes=() if audit.status == "approved" else (f"the audit of {audit.agent} is a {audit.status}",),
    )


class AuditTools:
    """Items are the audit's tools; covered iff called, subagents included."""

    Settings: ClassVar[type[BaseModel]] = AuditSettings
    kind: ClassVar[ItemKind] = "tool"

    @classmethod
    def find_files(cls, settings: AuditSettings, locate: Callable[[str], Path]) -> Mapping[str, Path]:
        """Finds and validates the audit."""
        path = locate(settings.audit)
        load_audit(path)
        return {AUDIT: path}

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Measures all traces."""
        audit = load_audit(request.files[AUDIT], check_sources=False)
        return measure_audit(audit, self.kind, request, {})


class AuditCapabilities:
    """Items are the audit's capabilities."""

    Settings: ClassVar[type[BaseModel]] = JudgedAuditSettings
    kind: ClassVar[ItemKind] = "capability"

    @classmethod
    def find_files(cls, settings: JudgedAuditSettings, locate: Callable[[str], Path]) -> Mapping[str, Path]:
        """Finds and validates the audit and the judgments."""
        path = locate(settings.audit)
        audit = load_audit(path)
        files = {AUDIT: path}
        for written in settings.judgments:
            found = locate(written)
            for file in sorted(found.glob("*.json")) if found.is_dir() else [found]:
                files[f"{_JUDGMENTS}{len(files)}-{file.name}"] = file
        merge_judgments(
            load_judgments(file, file.name, audit) for name, file in files.items() if name.startswith(_JUDGMENTS)
        )
        return files

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Measures all traces.

        Raises:
            EvidenceError: a judgment is about none of the traces.
        """
        audit = load_audit(request.files[AUDIT], check_sources=False)
        files = [
            load_judgments(path, path.name, audit)
            for name, path in request.files.items()
            if name.startswith(_JUDGMENTS)
        ]
        known = {trace.sha256 for trace in request.traces}
        strangers = [
            Problem(
                found.place,
                f"judges the trace with SHA-256 {found.trace_sha256}, which is none of the {len(known)} traces of "
                f"the baseline; judge these traces, or restore the evidence that was judged",
            )
            for found in files
            if found.trace_sha256 not in known
        ]
        if strangers:
            raise EvidenceError(strangers)
        return measure_audit(audit, self.kind, request, merge_judgments(files))


class AuditFailureCases(AuditCapabilities):
    """Items are the audit's failure cases."""

    kind: ClassVar[ItemKind] = "failure_case"
