# SPDX-License-Identifier: Apache-2.0
"""`model_judge`: a model reads each trace and says which items it shows: free text, or the evidence of an audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from metric_benchmark.coverage.audit.decide import decide
from metric_benchmark.coverage.audit.judgments import Target
from metric_benchmark.coverage.audit.spec import Audit, JudgedEvidence, load_audit
from metric_benchmark.coverage.judge.ask import AskOptions, Budget, ask_all
from metric_benchmark.coverage.judge.prompts import Question, Verdict, ask_about
from metric_benchmark.coverage.metrics.audit import AUDIT, measure_audit
from metric_benchmark.coverage.per_trace import PerTraceSettings, join_attempts
from metric_benchmark.coverage.protocol import CoverMatrix, LaunchContext, MetricRequest

_NO_VERDICT = "the model gave no valid judgment of its traces"


class JudgeItem(BaseModel):
    """A free-text item: what a trace has to show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    text: Annotated[str, Field(min_length=1)]


class ModelJudgeSettings(PerTraceSettings):
    """Settings of `model_judge`. Exactly one of `items` and `audit` says what is judged.

    Args:
        model: as LiteLLM names it, e.g. `openai/gpt-5-mini`. Its key is taken from the environment.
        items: free-text items.
        audit: path of an `audit.md`; `{case}` stands for the case's id.
        kind: which items of the audit.
        api_base: address of the model's server, where it is not the provider's own.
        max_calls: questions that may be put to the model in one run; more are refused before the first.
        max_cost_usd: the run stops as soon as it has cost this much.
        max_trace_chars: longer traces are cut in the middle, and it is noted.
        tries: how often the model is asked before its answer counts as invalid.
        max_answer_tokens, temperature, timeout_s, network_retries, concurrency: how it is asked.
    """

    model: Annotated[str, Field(min_length=1)]
    items: tuple[JudgeItem, ...] = ()
    audit: str | None = None
    kind: Literal["capability", "failure_case"] = "capability"
    api_base: str | None = None
    max_calls: Annotated[int, Field(ge=0)] = 500
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    max_trace_chars: Annotated[int, Field(ge=1000)] = 60_000
    tries: Annotated[int, Field(ge=1, le=10)] = 2
    max_answer_tokens: Annotated[int, Field(ge=50)] = 500
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    network_retries: Annotated[int, Field(ge=0, le=10)] = 2
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.items) == (self.audit is not None):
            raise ValueError("give exactly one of `items` and `audit`")
        if len({item.name for item in self.items}) < len(self.items):
            raise ValueError("two items have one name")
        return self


class ModelJudge:
    """Asks a model."""

    Settings = ModelJudgeSettings
    is_external = True
    label = "judged by a model"

    @classmethod
    def find_files(cls, settings: ModelJudgeSettings, locate: Callable[[str], Path]) -> Mapping[str, Path]:
        """Finds and validates the audit, where there is one."""
        if settings.audit is None:
            return {}
        path = locate(settings.audit)
        load_audit(path)
        return {AUDIT: path}

    def measure(self, request: MetricRequest) -> CoverMatrix:
        """Asks about every trace and item.

        Raises:
            MetricError: over budget, or the model cannot be asked.
        """
        settings: ModelJudgeSettings = request.settings
        audit = load_audit(request.files[AUDIT], check_sources=False) if AUDIT in request.files else None
        questions = list(_questions(request, settings, audit))
        context = request.launch or LaunchContext(name="model_judge")
        verdicts = ask_all(
            questions,
            AskOptions(
                model=settings.model,
                api_base=settings.api_base,
                temperature=settings.temperature,
                max_answer_tokens=settings.max_answer_tokens,
                tries=settings.tries,
                timeout_s=settings.timeout_s,
                network_retries=settings.network_retries,
                concurrency=settings.concurrency,
            ),
            Budget(settings.max_calls, settings.max_cost_usd),
            name=context.name,
            keep=None if context.keep is None else context.keep / "judge",
        )
        judged = list(zip(questions, verdicts, strict=True))
        matrix = (
            _from_items(request, settings, judged)
            if audit is None
            else measure_audit(audit, settings.kind, request, _by_trace(judged))
        )
        n_cut = len({(q.task, q.attempt) for q in questions if q.is_cut})
        notes = (f"{n_cut} traces were longer than {settings.max_trace_chars} characters and were cut",)
        return replace(
            matrix,
            counts={**matrix.counts, **_counts(judged)},
            notes=(*matrix.notes, *(notes if n_cut else ())),
        )


def _questions(request: MetricRequest, settings: ModelJudgeSettings, audit: Audit | None) -> Iterator[Question]:
    limit = settings.max_trace_chars
    for trace in request.traces:
        if audit is None:
            for item in settings.items:
                yield ask_about(trace, item.name, None, item.text, limit)
            continue
        called = frozenset(call.name for step in trace.steps for call in step.tool_calls)
        for item in audit.of_kind(settings.kind):
            # What the trace alone decides is not worth a call.
            if decide(item, called, {}) != "unjudged":
                continue
            for index, evidence in enumerate(item.evidence_required):
                if isinstance(evidence, JudgedEvidence):
                    fact = f"{evidence.description} (evidence of kind {evidence.kind} for: {item.description})"
                    yield ask_about(trace, item.name, index, fact, limit)


def _from_items(
    request: MetricRequest, settings: ModelJudgeSettings, judged: list[tuple[Question, Verdict | None]]
) -> CoverMatrix:
    """An item nobody could judge is uncovered and counted; a task of which nothing was judged is unmeasured."""
    shown: dict[tuple[str, int], set[str]] = {(t.task, t.attempt): set() for t in request.traces}
    for question, verdict in judged:
        if verdict is not None and verdict.status == "satisfied":
            shown[question.task, question.attempt].add(question.item)
    heard = {question.task for question, verdict in judged if verdict is not None}
    covered = join_attempts(((task, items) for (task, _), items in shown.items()), settings.attempts)
    return CoverMatrix(
        items=tuple(sorted(item.name for item in settings.items)),
        tasks={task: items for task, items in covered.items() if task in heard},
        unmeasured={**request.unmeasured, **{task: _NO_VERDICT for task in covered if task not in heard}},
    )


def _by_trace(judged: list[tuple[Question, Verdict | None]]) -> dict[str, dict[Target, str]]:
    found: dict[str, dict[Target, str]] = {}
    for question, verdict in judged:
        if verdict is not None and question.evidence_index is not None:
            found.setdefault(question.trace_sha256, {})[question.item, question.evidence_index] = verdict.status
    return found


def _counts(judged: list[tuple[Question, Verdict | None]]) -> dict[str, int]:
    statuses = Counter("invalid" if verdict is None else verdict.status for _, verdict in judged)
    return {"questions": len(judged), **{f"answers_{status}": n for status, n in sorted(statuses.items())}}
