# SPDX-License-Identifier: Apache-2.0
"""Runs the metrics of one case on its frozen inputs: plan the requests, ask or recall, check, reduce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.answers import check_answer, reduce_answer
from metric_benchmark.coverage.cache import AnswerCache
from metric_benchmark.coverage.protocol import Answer, CoverMatrix, MetricRequest, OpaqueCoverage
from metric_benchmark.coverage.registry import MetricSpec, ResolvedMetric, check_metrics, resolve_metric
from metric_benchmark.coverage.traces import BaselineTrial, TraceSet, read_traces
from metric_benchmark.errors import ConfigError, MetricBenchmarkError, MetricError, Problem
from metric_benchmark.hashing import digest_json
from metric_benchmark.records.coverage import CoverageRecord, MetricCoverage


@dataclass(frozen=True)
class _Planned:
    metric: ResolvedMetric
    request: MetricRequest
    sha256: str


def measure_coverage(
    case_id: str,
    *,
    tasks: Iterable[str],
    baseline: Iterable[BaselineTrial],
    subsets: Mapping[str, Sequence[str]],
    description: Mapping[str, Any],
    metrics: Sequence[MetricSpec],
    cache: Path | None = None,
    replay: bool = False,
    base: Path | None = None,
) -> CoverageRecord:
    """Measures the coverage of every subset by every metric.

    Args:
        case_id: the case.
        tasks: all task ids of the case.
        baseline: the baseline's trials; no other variant's.
        subsets: subset id -> task ids.
        description: the case description, as JSON values.
        metrics: the metrics as configured.
        cache: folder of cached answers, `<root>/analysis/<case>/cache/coverage`; None caches nothing.
        replay: refuse to launch a command or model whose answer is not cached.
        base: folder that import paths and relative paths in settings start from: the one of `analysis.yaml`.

    Returns:
        The record without `inputs`, `evidence` and `implementation`, which the caller knows.

    Raises:
        ConfigError: a metric or its settings are wrong.
        EvidenceError: a trajectory differs from what was recorded.
        MetricError: a metric failed or gave a wrong answer, or `replay` misses an answer.
    """
    problems = check_metrics(metrics, base)
    if problems:
        raise ConfigError(problems)
    resolved = [resolve_metric(spec, base) for spec in metrics]
    names = tuple(sorted(set(tasks)))
    wanted = {key: tuple(sorted(set(members))) for key, members in sorted(subsets.items())}
    unknown = sorted({task for members in wanted.values() for task in members} - set(names))
    if unknown:
        raise ConfigError(f"case {case_id}: subsets name unknown tasks {', '.join(unknown)}")
    if any(metric.needs_traces for metric in resolved):
        traces = read_traces(baseline, names)
    else:
        traces = TraceSet((), {}, ())
    common = MetricRequest(case_id, description, names, traces.traces, traces.unmeasured, wanted, None, base)
    planned = [_plan(metric, common) for metric in resolved]
    store = AnswerCache(cache)
    recalled = {p.metric.spec.name: store.get(p.metric.spec.name, p.sha256) for p in planned}
    if replay:
        _refuse_launches(store, planned, recalled)
    return CoverageRecord(
        case_id=case_id,
        metrics={
            p.metric.spec.name: _reduce(p, _answer(p, recalled[p.metric.spec.name], store), traces.notes)
            for p in planned
        },
    )


def _plan(metric: ResolvedMetric, common: MetricRequest) -> _Planned:
    request = replace(common, settings=metric.settings)
    if not metric.needs_traces:
        request = replace(request, traces=(), unmeasured={})
    sha256 = digest_json(
        {
            "case": request.case_id,
            "code": metric.code_sha256,
            "description": request.description,
            "metric": metric.spec.target,
            "settings": metric.settings_json,
            "subsets": request.subsets,
            "tasks": request.tasks,
            "traces": [[t.task, t.attempt, t.digest] for t in request.traces],
            "unmeasured": dict(request.unmeasured),
        }
    )
    return _Planned(metric, request, sha256)


def _refuse_launches(
    store: AnswerCache, planned: Iterable[_Planned], recalled: Mapping[str, Answer | None]
) -> None:
    missing = [
        Problem(
            f"metric {p.metric.spec.name}",
            f"replay was asked for, but no answer to request {p.sha256} is cached "
            f"({store.path(p.metric.spec.name, p.sha256) or 'there is no cache'}); nothing was launched; "
            f"run without replay",
        )
        for p in planned
        if p.metric.is_external and recalled[p.metric.spec.name] is None
    ]
    if missing:
        raise MetricError(missing)


def _answer(planned: _Planned, recalled: Answer | None, store: AnswerCache) -> Answer:
    name = planned.metric.spec.name
    if recalled is not None:
        return check_answer(name, recalled, planned.request)
    try:
        given: object = planned.metric.implementation.measure(planned.request)
    except MetricBenchmarkError:
        raise
    except Exception as error:  # a metric may do anything; its failure is a message, with the cause attached
        raise MetricError(
            Problem(f"metric {name}", f"failed with {type(error).__name__}: {error}; expected an answer")
        ) from error
    answer = check_answer(name, given, planned.request)
    store.put(name, planned.sha256, answer)
    return answer


def _reduce(planned: _Planned, answer: Answer, trace_notes: Sequence[str]) -> MetricCoverage:
    metric, request = planned.metric, planned.request
    unmeasured = (
        {**request.unmeasured, **answer.unmeasured} if metric.needs_traces else dict(answer.unmeasured)
    )
    notes = [*answer.notes, *(trace_notes if metric.needs_traces else ())]
    is_matrix = isinstance(answer, CoverMatrix)
    return MetricCoverage(
        kind="items" if is_matrix else "opaque",
        items=list(answer.items) if is_matrix else [],
        tasks={task: sorted(items) for task, items in sorted(answer.tasks.items())} if is_matrix else {},
        subsets=reduce_answer(answer, request.subsets, unmeasured),
        task_coverage=dict(answer.tasks) if isinstance(answer, OpaqueCoverage) else {},
        unmeasured_tasks=sorted(unmeasured),
        unmeasured_reasons=dict(sorted(unmeasured.items())),
        counts=dict(answer.counts),
        notes=notes,
        label=metric.label,
        metric=metric.spec.target,
        settings=metric.settings_json,
        code_sha256=metric.code_sha256,
        request_sha256=planned.sha256,
    )
