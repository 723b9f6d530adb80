# SPDX-License-Identifier: Apache-2.0
"""Pairs (coverage, mutant score) of a case's subsets, and the arrays behind them, over eligible tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.errors import EvidenceError
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import CoverageInput, Pair
from metric_benchmark.records.scores import MutantScores

#: Why nothing is defined for a metric without items.
NO_ITEMS = "no_items"

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CaseArrays:
    """A case's stage-2 result as arrays: K subsets, T eligible tasks, M mutants.

    Attributes:
        subsets: names of the K subsets.
        tasks: names of the T eligible tasks.
        membership: K x T, which task belongs to which subset.
        kills: T x M; undetermined cells are False.
        score: mutant score per subset, shape (K,).
        size: eligible tasks per subset, shape (K,).
    """

    subsets: tuple[str, ...]
    tasks: tuple[str, ...]
    membership: Bools
    kills: Bools
    score: Floats
    size: NDArray[np.int64]


@dataclass(frozen=True)
class MetricArrays:
    """One metric on the subsets it could measure.

    Attributes:
        kind: `items` or `opaque`.
        rows: which of the case's subsets are measured, indices into `CaseArrays.subsets`.
        coverage: coverage of those subsets.
        measured: which of the T eligible tasks the metric measured; none where it is opaque.
        cover: T x I cover matrix, `None` for an opaque metric.
        task_values: an opaque metric's value on each of the T tasks alone, if it was measured on all of them.
        left_out: the other subsets, and why.
        notes: what a reader must know about these numbers.
    """

    kind: str
    rows: NDArray[np.int64]
    coverage: Floats
    measured: Bools
    cover: Bools | None
    task_values: Floats | None
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()


def case_arrays(scores: MutantScores, subsets: Mapping[str, tuple[str, ...] | list[str]]) -> CaseArrays:
    """Lays a case's scores out as arrays.

    Args:
        scores: the stage-2 record.
        subsets: task ids of every subset the record scores; ineligible tasks are left out here.

    Raises:
        EvidenceError: a scored subset has no task list, or one of another size than was scored.
    """
    tasks, names = tuple(scores.eligible_tasks), tuple(scores.subsets)
    column = {task: i for i, task in enumerate(tasks)}
    membership = np.zeros((len(names), len(tasks)), dtype=bool)
    for row, name in enumerate(names):
        members = [column[task] for task in subsets.get(name, ()) if task in column]
        if len(members) != scores.subsets[name].size:
            raise EvidenceError(
                f"subset {name!r} has {len(members)} eligible tasks, but was scored with "
                f"{scores.subsets[name].size}; "
                "subsets were changed after scoring: run `score` again"
            )
        membership[row, members] = True
    kills = np.zeros((len(tasks), len(scores.mutants)), dtype=bool)
    for index, status in enumerate(scores.mutants.values()):
        kills[[column[task] for task in status.killed_by], index] = True
    return CaseArrays(
        subsets=names,
        tasks=tasks,
        membership=membership,
        kills=kills,
        score=np.array([scores.subsets[name].score for name in names]),
        size=membership.sum(axis=1).astype(np.int64),
    )


def metric_arrays(case: CaseArrays, metric: CoverageInput, *, n_ineligible: int) -> MetricArrays:
    """Lays one metric's coverage out as arrays, recomputed over eligible tasks where its items are known.

    Args:
        case: the case's arrays.
        metric: the metric's part of the coverage record.
        n_ineligible: tasks of the case that are not eligible.
    """
    if metric.kind == "opaque":
        return _opaque(case, metric, n_ineligible)
    items = {item: i for i, item in enumerate(dict.fromkeys(metric.items))}
    for names in metric.tasks.values():
        for item in names:
            items.setdefault(item, len(items))
    unmeasured = {task for task in case.tasks if task not in metric.tasks} | set(metric.unmeasured_tasks)
    cover = np.zeros((len(case.tasks), len(items)), dtype=bool)
    for row, task in enumerate(case.tasks):
        if task not in unmeasured:
            cover[row, [items[item] for item in metric.tasks[task]]] = True
    holes = np.array([task in unmeasured for task in case.tasks], dtype=bool)
    left_out: dict[str, str] = {}
    for row, name in enumerate(case.subsets):
        missing = [case.tasks[i] for i in np.flatnonzero(case.membership[row] & holes)]
        if missing:
            left_out[name] = f"not measured on {', '.join(missing)}"
        elif not items:
            left_out[name] = NO_ITEMS
    rows = np.array([i for i, name in enumerate(case.subsets) if name not in left_out], dtype=np.int64)
    covered = (case.membership[rows].astype(np.float32) @ cover.astype(np.float32)) > 0.5
    coverage = covered.sum(axis=1) / max(len(items), 1)
    return MetricArrays("items", rows, coverage.astype(np.float64), ~holes, cover, None, left_out, _notes(left_out))


def _opaque(case: CaseArrays, metric: CoverageInput, n_ineligible: int) -> MetricArrays:
    left_out: dict[str, str] = {}
    rows: list[int] = []
    values_of_subsets: list[float] = []
    for row, name in enumerate(case.subsets):
        found = metric.subsets.get(name)
        if found is None:
            left_out[name] = "the metric gives no value for it"
        elif isinstance(found.coverage, Undefined):
            left_out[name] = found.coverage.reason
        else:
            rows.append(row)
            values_of_subsets.append(found.coverage)
    notes = list(_notes(left_out))
    if n_ineligible:
        notes.append(
            f"the metric is opaque, so its coverage still counts the {n_ineligible} ineligible tasks that "
            "the mutant score leaves out"
        )
    given = metric.task_coverage
    values = np.array([given[task] for task in case.tasks]) if set(case.tasks) <= set(given) else None
    return MetricArrays(
        kind="opaque",
        rows=np.array(rows, dtype=np.int64),
        coverage=np.array(values_of_subsets, dtype=np.float64),
        measured=np.zeros(len(case.tasks), dtype=bool),
        cover=None,
        task_values=values,
        left_out=left_out,
        notes=tuple(notes),
    )


def _notes(left_out: Mapping[str, str]) -> tuple[str, ...]:
    return (f"{len(left_out)} subsets have no coverage by this metric and are left out",) if left_out else ()


def make_pairs(case: CaseArrays, metrics: Mapping[str, MetricArrays]) -> list[Pair]:
    """Returns the record's pairs, one per subset, in the subsets' order."""
    columns: dict[str, dict[int, float]] = {
        name: dict(zip(found.rows.tolist(), found.coverage.tolist(), strict=True)) for name, found in metrics.items()
    }
    return [
        Pair(
            subset=name,
            size=int(case.size[row]),
            mutant_score=float(case.score[row]),
            coverage={
                metric: column.get(row, Undefined(reason=metrics[metric].left_out.get(name, "not_measured")))
                for metric, column in columns.items()
            },
        )
        for row, name in enumerate(case.subsets)
    ]
