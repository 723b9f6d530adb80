# SPDX-License-Identifier: Apache-2.0
"""The data a report embeds for its drill-down: the records' own numbers, with names replaced by places in lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from metric_benchmark.hashing import canonical_json
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.coverage import MetricCoverage
from metric_benchmark.records.execution import RawResults, Trial
from metric_benchmark.records.scores import MutantScores, MutantStatus
from metric_benchmark.reporting.data import CaseReport, ReportData
from metric_benchmark.reporting.provenance import STATUSES
from metric_benchmark.reporting.view import CaseView

#: More trials than this are not linked one by one; those on killing tasks come first.
MAX_TRIALS = 30_000

type Json = dict[str, Any]


def report_payload(data: ReportData, views: Sequence[CaseView], base: str) -> Json:
    """Returns everything the page's script reads.

    Args:
        data: the records.
        views: what the template shows; figures and data must agree on the order of heat maps.
        base: path from the report to the evidence root, empty where the report lies in it.
    """
    left = MAX_TRIALS // max(len(views), 1)
    return {"base": base, "statuses": list(STATUSES), "cases": [_case(view, left) for view in views]}


def embed(value: Json) -> Markup:
    """Returns JSON that is safe inside a `<script>` element: nothing in it can end the element or open another."""
    text = canonical_json(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def _case(view: CaseView, max_trials: int) -> Json:
    case = view.case
    tasks = {task: i for i, task in enumerate(case.tasks)}
    scores = case.scores
    variants = {**scores.mutants, **scores.controls} if scores else {}
    names = {name: i for i, name in enumerate(variants)}
    trials, n_left_out = _trials(case, variants, tasks, max_trials)
    found: Json = {
        "id": case.case_id,
        "tasks": list(tasks),
        "eligible": [tasks[task] for task in scores.eligible_tasks] if scores else [],
        "ineligible": {str(tasks[t]): why for t, why in scores.eligibility.ineligible.items()} if scores else {},
        "n_mutants": len(scores.mutants) if scores else 0,
        "variants": [_variant(case, name, status, tasks) for name, status in variants.items()],
        "rows": [tasks[scores.eligible_tasks[i]] for i in view.task_order] if scores else [],
        "columns": list(view.mutant_order),
        "subsets": _subsets(case, scores, tasks, names) if scores else [],
        "metrics": [_metric(view, case, name, tasks) for name in case.metric_names],
        "trials": trials,
        "n_trials_left_out": n_left_out,
    }
    return found


def _variant(case: CaseReport, name: str, status: MutantStatus, tasks: Mapping[str, int]) -> Json:
    kills = case.kills.get(name)
    cells = {
        str(tasks[task]): [k.n_baseline_passed, k.n_baseline, k.n_mutant_passed, k.n_mutant, k.p_adjusted]
        for task, k in (kills.tasks if kills else {}).items()
    }
    return {
        "id": name,
        "operator": status.operator,
        "status": status.status,
        "killed_by": [tasks[task] for task in status.killed_by],
        "undetermined": [tasks[task] for task in status.undetermined_tasks],
        "is_trivial": status.is_trivial,
        "is_dominator": status.is_dominator,
        "is_never_killed": status.is_never_killed,
        "is_inert": status.is_inert,
        "effect": status.effect,
        "duplicate_of": status.duplicate_of,
        "cells": cells,
    }


def _subsets(case: CaseReport, scores: MutantScores, tasks: Mapping[str, int], names: Mapping[str, int]) -> list[Json]:
    """Returns the subsets in the order of the correlation's pairs, which the scatter's points refer to."""
    order = [pair.subset for pair in case.correlation.pairs] if case.correlation else list(scores.subsets)
    members = case.subset_tasks
    return [
        {
            "id": name,
            "size": scores.subsets[name].size,
            "tasks": [tasks[task] for task in members.get(name, ()) if task in tasks],
            "score": scores.subsets[name].score,
            "low": scores.subsets[name].score_low,
            "high": scores.subsets[name].score_high,
            "detected": [names[mutant] for mutant in scores.subsets[name].detected],
        }
        for name in order
    ]


def _metric(view: CaseView, case: CaseReport, name: str, tasks: Mapping[str, int]) -> Json:
    measured = case.coverage.metrics.get(name) if case.coverage else None
    shown = next((m for m in view.metrics if m.row["metric"] == name), None)
    pairs = case.correlation.pairs if case.correlation else []
    values = [pair.coverage.get(name) for pair in pairs]
    return {
        "name": name,
        "label": case.label(name),
        "kind": measured.kind if measured else "",
        "items": measured.items if measured else [],
        "tasks": _covers(measured, tasks) if measured else {},
        "unmeasured": measured.unmeasured_reasons if measured else {},
        "coverage": [None if value is None or isinstance(value, Undefined) else value for value in values],
        "residuals": [list(points) for points in shown.points.residual_points] if shown else [],
        "expectation": [list(line) for line in shown.points.expectation] if shown else [],
        "rows": [tasks[task] for task in shown.cover.tasks] if shown else [],
        "columns": list(shown.cover.items) if shown else [],
    }


def _covers(measured: MetricCoverage, tasks: Mapping[str, int]) -> dict[str, list[int]]:
    place = {item: i for i, item in enumerate(measured.items)}
    return {
        str(tasks[task]): sorted(place[item] for item in items if item in place)
        for task, items in measured.tasks.items()
        if task in tasks
    }


def _trials(
    case: CaseReport, variants: Mapping[str, MutantStatus], tasks: Mapping[str, int], limit: int
) -> tuple[dict[str, list[list[Any]]], int]:
    """Returns trials by variant, grouped by job: [folder, run, [[task, attempt, trial, status, reward, steps]]]."""
    wanted: list[tuple[int, str, Trial]] = []
    for variant, results in case.results.items():
        status = variants.get(variant)
        telling = {*status.killed_by, *status.undetermined_tasks} if status else set[str]()
        for trial in results.trials:
            rank = 0 if trial.task in telling else 1 if results.role == "baseline" else 2
            wanted.append((rank, variant, trial))
    wanted.sort(key=lambda item: item[0])
    groups: dict[tuple[str, str, str], list[list[Any]]] = {}
    for _, variant, trial in wanted[:limit]:
        if trial.task in tasks:
            groups.setdefault((variant, trial.folder, trial.run), []).append(
                _trial(case.results[variant], trial, tasks)
            )
    found: dict[str, list[list[Any]]] = {}
    for (variant, folder, run), members in groups.items():
        found.setdefault(variant, []).append([folder, run, members])
    return found, max(0, len(wanted) - limit)


def _trial(results: RawResults, trial: Trial, tasks: Mapping[str, int]) -> list[Any]:
    """A trial's name mostly starts with its task's; `~` stands for that. `steps` is 0 without a trajectory."""
    prefix = f"{trial.task}__"
    name = f"~{trial.trial.removeprefix(prefix)}" if trial.trial.startswith(prefix) else trial.trial
    steps = sorted(n.split("/")[1] for n in trial.files_sha256 if n.endswith("/agent/trajectory.json"))
    trajectory: Any = 0 if trial.trajectory_sha256 is None else steps or 1
    return [tasks[trial.task], trial.attempt, name, STATUSES.index(trial.status), trial.reward, trajectory]
