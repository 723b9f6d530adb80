# SPDX-License-Identifier: Apache-2.0
"""Runs the metrics of one case on its frozen inputs: plan the requests, ask or recall, check, reduce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.answers import check_answer, reduce_answer
from metric_benchmark.coverage.cache import AnswerCache, missing
from metric_benchmark.coverage.inputs import digest_files, locator
from metric_benchmark.coverage.protocol import (
    Answer,
    CoverMatrix,
    LaunchContext,
    MetricRequest,
    OpaqueCoverage,
)
from metric_benchmark.coverage.registry import MetricSpec, ResolvedMetric, resolve_metrics
from metric_benchmark.coverage.traces import NO_TRACES, BaselineTrial, read_traces
from metric_benchmark.errors import ConfigError, MetricBenchmarkError, MetricError, Problem
from metric_benchmark.hashing import digest_json
from metric_benchmark.records.coverage import CoverageRecord, MetricCoverage


@dataclass(frozen=True)
class _Planned:
    metric: ResolvedMetric
    request: MetricRequest
    files: dict[str, str]
    sha256: str

    @property
    def name(self) -> str:
        return self.metric.spec.name


def measure_coverage(
    case_id: str,
    *,
    tasks: Iterable[str],
    baseline: Iterable[BaselineTrial],
    subsets: Mapping[str, Sequence[str]],
    description: Mapping[str, Any],
    metrics: Iterable[MetricSpec],
    cache: Path | None = None,
    replay: bool = False,
    base: Path | None = None,
    roots: Iterable[Path] = (),
    hide: Iterable[Path] = (),
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
        replay: refuse to launch a program or model whose answer is not cached.
        base: folder that import paths and relative paths in settings start from: the one of `analysis.yaml`.
        roots: further folders that paths in settings may lead into.
        hide: folders that a launched program should find empty: the evidence root, the experiment.

    Returns:
        The record without `inputs`, `evidence` and `implementation`, which the caller knows.

    Raises:
        ConfigError: a metric or its settings are wrong.
        EvidenceError: a trajectory differs from what was recorded.
        MetricError: a metric failed or gave a wrong answer, or `replay` misses an answer.
    """
    store = AnswerCache(cache)
    resolved = resolve_metrics(metrics, base, partial(store.described, replay=replay))
    common = _common_request(case_id, tasks, subsets, description)
    traces = read_traces(baseline, common.tasks) if any(m.needs_traces for m in resolved) else NO_TRACES
    common = replace(common, traces=traces.traces, unmeasured=traces.unmeasured)
    roots = list(roots)
    planned = [
        _plan(metric, common, metric.find_files(locator(f"metric {metric.spec.name}", case_id, base, roots)))
        for metric in resolved
    ]
    recalled = {p.name: store.get(p.name, p.sha256) for p in planned}
    if replay:
        _refuse_launches(store, planned, recalled)
    answers = {p.name: _answer(p, recalled[p.name], store, tuple(hide)) for p in planned}
    return CoverageRecord(case_id=case_id, metrics={p.name: _reduce(p, answers[p.name], traces.notes) for p in planned})


def _common_request(
    case_id: str, tasks: Iterable[str], subsets: Mapping[str, Sequence[str]], description: Mapping[str, Any]
) -> MetricRequest:
    names = tuple(sorted(set(tasks)))
    wanted = {key: tuple(sorted(set(members))) for key, members in sorted(subsets.items())}
    unknown = sorted({task for members in wanted.values() for task in members} - set(names))
    if unknown:
        raise ConfigError(f"case {case_id}: subsets name unknown tasks {', '.join(unknown)}")
    return MetricRequest(case_id, description, names, (), {}, wanted, None)


def _plan(metric: ResolvedMetric, common: MetricRequest, files: Mapping[str, Path]) -> _Planned:
    """Puts a metric's request together and digests all of it: the digest is what its answer is cached by."""
    request = replace(common, settings=metric.settings, files=files)
    if not metric.needs_traces:
        request = replace(request, traces=(), unmeasured={})
    digests = digest_files(files)
    sha256 = digest_json(
        {
            "case": request.case_id,
            "code": metric.code_sha256,
            "description": request.description,
            "files": digests,
            "metric": metric.spec.target,
            "settings": metric.settings_json,
            "subsets": request.subsets,
            "tasks": request.tasks,
            "traces": [[t.task, t.attempt, t.digest] for t in request.traces],
            "unmeasured": dict(request.unmeasured),
        }
    )
    return _Planned(metric, request, digests, sha256)


def _refuse_launches(store: AnswerCache, planned: Iterable[_Planned], recalled: Mapping[str, Answer | None]) -> None:
    problems = [
        Problem(f"metric {p.name}", missing(store.path(p.name, p.sha256)))
        for p in planned
        if p.metric.is_external and recalled[p.name] is None
    ]
    if problems:
        raise MetricError(problems)


def _answer(planned: _Planned, recalled: Answer | None, store: AnswerCache, hide: tuple[Path, ...]) -> Answer:
    if recalled is not None:
        return check_answer(planned.name, recalled, planned.request)
    request = planned.request
    if planned.metric.is_external:
        keep = None if store.folder is None else store.folder / planned.name
        context = LaunchContext(planned.name, planned.sha256, keep, hide, planned.metric.network)
        request = replace(request, launch=context)
    try:
        given: object = planned.metric.implementation.measure(request)
    except MetricBenchmarkError:
        raise
    except Exception as error:  # a metric may do anything; its failure is a message, with the cause attached
        raise MetricError(
            Problem(f"metric {planned.name}", f"failed with {type(error).__name__}: {error}; expected an answer")
        ) from error
    answer = check_answer(planned.name, given, request)
    store.put(planned.name, planned.sha256, answer)
    return answer


def _reduce(planned: _Planned, answer: Answer, trace_notes: Sequence[str]) -> MetricCoverage:
    metric, request = planned.metric, planned.request
    unmeasured = {**request.unmeasured, **answer.unmeasured} if metric.needs_traces else dict(answer.unmeasured)
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
        files_sha256=planned.files,
        code_sha256=metric.code_sha256,
        request_sha256=planned.sha256,
    )
