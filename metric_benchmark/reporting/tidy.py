# SPDX-License-Identifier: Apache-2.0
"""The records as tidy tables, one observation per row, for pandas and for CSV; names follow 2-architecture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.scores import FalseKillRate
from metric_benchmark.reporting.data import CaseReport, ReportData, load_report, trajectory_paths
from metric_benchmark.reporting.markdown import render_markdown
from metric_benchmark.reporting.sentences import describe_verdict
from metric_benchmark.reporting.suggestions import suggest, value_tasks
from metric_benchmark.reporting.table import case_rows

type Row = dict[str, Any]


def write_tables(root: EvidenceRoot | Path, folder: Path | None = None) -> list[Path]:
    """Writes the report's content as Markdown (`report.md`) and as one CSV per table.

    Args:
        root: the evidence root.
        folder: where to write; by default `report/` in the root.

    Returns:
        The files written.

    Raises:
        EvidenceError: there is no evidence, or a record is damaged.
        StorageError: the disk is full or not writable.
    """
    data = load_report(root)
    folder = folder or data.root.path / "report"
    written = [folder / "report.md"]
    write_bytes(written[0], render_markdown(data).encode())
    for name, rows in tidy_tables(data).items():
        written.append(folder / f"{name}.csv")
        write_bytes(written[-1], to_csv(rows, TABLES[name][0]))
    return written


def tidy_tables(data: ReportData) -> dict[str, list[Row]]:
    """Returns all tables by name; `pandas.DataFrame(rows)` makes a frame of one. Missing values are None."""
    return {name: [row for case in data.cases for row in make(data, case)] for name, (_, make) in TABLES.items()}


def to_csv(rows: Sequence[Row], columns: Sequence[str]) -> bytes:
    """Returns a table as CSV: UTF-8, a header always, an empty cell for what is missing, numbers in full."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return stream.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _results(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for row in case_rows(case):
        record = case.correlation
        found = record.metrics[row["metric"]] if record else None
        words = describe_verdict(row, record)
        yield {
            "case_id": row["case"], "metric_id": row["metric"], "label": row["label"] or None,
            "verdict": row["verdict"], "reason": row["reason"], "answer": words.answer,
            "estimate": row["calibrated"], "ci_low": row["ci_low"], "ci_high": row["ci_high"],
            "ci_level": found.interval.level if found and found.interval else None,
            "stderr_z": found.interval.stderr_z if found and found.interval else None,
            "null_mean": found.calibrated.null_mean if found and found.calibrated else None,
            "p_value": row["p_value"], "p_adjusted": row["p_adjusted"],
            "p_exploratory": found.p_exploratory if found else None,
            "minimum_effect": found.verdict.minimum_effect if found else None,
            "direction": found.verdict.direction if found else None,
            "n_subsets": row["n_subsets"], "n_tasks": row["n_tasks"], "n_mutants": row["n_mutants"],
            "size_min": row["size_min"], "size_max": row["size_max"],
        }  # fmt: skip


def _estimates(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for name, metric in (case.correlation.metrics if case.correlation else {}).items():
        for estimator in type(metric.estimates).model_fields:
            value = getattr(metric.estimates, estimator)
            defined = not isinstance(value, Undefined)
            yield {
                "case_id": case.case_id, "metric_id": name, "estimator": estimator,
                "estimate": value.value if defined else None, "reason": None if defined else value.reason,
                "n_subsets": metric.n_subsets,
            }  # fmt: skip


def _pairs(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for pair in case.correlation.pairs if case.correlation else ():
        for name, value in pair.coverage.items():
            missing = isinstance(value, Undefined)
            yield {
                "case_id": case.case_id, "subset_id": pair.subset, "metric_id": name, "n_tasks": pair.size,
                "coverage_frac": None if missing else value, "mutant_score_frac": pair.mutant_score,
                "reason": value.reason if missing else None,
            }  # fmt: skip


def _subsets(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for name, subset in (case.scores.subsets if case.scores else {}).items():
        dominators = subset.score_dominators
        yield {
            "case_id": case.case_id, "subset_id": name, "n_tasks": subset.size, "n_detected": len(subset.detected),
            "mutant_score_frac": subset.score, "score_low_frac": subset.score_low, "score_high_frac": subset.score_high,
            "score_dominators_frac": None if isinstance(dominators, Undefined) else dominators,
        }  # fmt: skip


def _members(_: ReportData, case: CaseReport) -> Iterator[Row]:
    eligible = set(case.scores.eligible_tasks) if case.scores else set[str]()
    for name, tasks in case.subset_tasks.items():
        for task in tasks:
            yield {"case_id": case.case_id, "subset_id": name, "task_id": task, "is_eligible": task in eligible}


def _kills(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for name, record in case.kills.items():
        for task, kill in record.tasks.items():
            yield {
                "case_id": case.case_id, "variant_id": name, "role": record.role, "operator": record.operator,
                "task_id": task, "outcome": kill.outcome, "n_baseline": kill.n_baseline,
                "n_baseline_passed": kill.n_baseline_passed, "n_mutant": kill.n_mutant,
                "n_mutant_passed": kill.n_mutant_passed, "p_value": kill.p_value, "p_adjusted": kill.p_adjusted,
                "reason": kill.reason,
            }  # fmt: skip


def _mutants(_: ReportData, case: CaseReport) -> Iterator[Row]:
    scores = case.scores
    for role, found in (("mutant", scores.mutants), ("control", scores.controls)) if scores else ():
        for name, status in found.items():
            yield {
                "case_id": case.case_id, "variant_id": name, "role": role, "operator": status.operator,
                "status": status.status, "n_killed_by": len(status.killed_by),
                "n_undetermined": len(status.undetermined_tasks), "is_trivial": status.is_trivial,
                "is_dominator": status.is_dominator, "is_never_killed": status.is_never_killed,
                "is_inert": status.is_inert, "duplicate_of": status.duplicate_of,
            }  # fmt: skip


def _tasks(_: ReportData, case: CaseReport) -> Iterator[Row]:
    values = value_tasks(case)
    for task in values.tasks:
        yield {
            "case_id": case.case_id, "task_id": task.task, "rank": task.rank, "n_kills": len(task.kills),
            "n_kills_alone": len(task.alone), "n_new_kills": len(task.new_kills), "is_redundant": task.is_redundant,
            "cost": task.cost, "cost_unit": values.unit,
        }  # fmt: skip


def _covers(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for name, metric in (case.coverage.metrics if case.coverage else {}).items():
        for task, items in metric.tasks.items():
            for item in items:
                yield {"case_id": case.case_id, "metric_id": name, "task_id": task, "item": item}


def _items(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for name, metric in (case.coverage.metrics if case.coverage else {}).items():
        count = dict.fromkeys(metric.items, 0)
        for items in metric.tasks.values():
            for item in items:
                count[item] = count.get(item, 0) + 1
        for item, n in count.items():
            yield {"case_id": case.case_id, "metric_id": name, "item": item, "n_tasks": n}


def _trials(data: ReportData, case: CaseReport) -> Iterator[Row]:
    for variant, results in case.results.items():
        for trial in results.trials:
            yield {
                "case_id": case.case_id, "variant_id": variant, "role": results.role, "task_id": trial.task,
                "attempt": trial.attempt, "status": trial.status, "reward": trial.reward, "reason": trial.reason,
                "started_at": trial.started_at, "duration_s": trial.duration_s, "cost_usd": trial.cost_usd,
                "trial": trial.trial, "trajectory": " ".join(trajectory_paths(data.root, results, trial)) or None,
            }  # fmt: skip


def _false_kills(_: ReportData, case: CaseReport) -> Iterator[Row]:
    noise = case.scores.noise if case.scores else None
    found: list[tuple[str, FalseKillRate]] = [("subsets", rate) for rate in noise.by_size] if noise else []
    found += [("suite", noise.suite)] if noise and noise.suite else []
    for scope, rate in found:
        yield {
            "case_id": case.case_id, "scope": scope, "n_tasks": rate.size, "n_subsets": rate.n_subsets,
            "n_controls": rate.n_controls, "estimate": rate.rate, "ci_low": rate.low, "ci_high": rate.high,
        }  # fmt: skip


def _suggestions(_: ReportData, case: CaseReport) -> Iterator[Row]:
    for number, item in enumerate(suggest(case), start=1):
        for subject in item.subjects:
            yield {
                "case_id": case.case_id, "number": number, "kind": item.kind, "subject": subject,
                "found": item.found, "advice": item.advice,
            }  # fmt: skip


#: Name -> (columns, what makes the rows of a case).
TABLES: dict[str, tuple[tuple[str, ...], Callable[[ReportData, CaseReport], Iterator[Row]]]] = {
    "results": (
        ("case_id", "metric_id", "label", "verdict", "reason", "answer", "estimate", "ci_low", "ci_high", "ci_level",
         "stderr_z", "null_mean", "p_value", "p_adjusted", "p_exploratory", "minimum_effect", "direction", "n_subsets",
         "n_tasks", "n_mutants", "size_min", "size_max"),
        _results,
    ),
    "estimates": (("case_id", "metric_id", "estimator", "estimate", "reason", "n_subsets"), _estimates),
    "pairs": (
        ("case_id", "subset_id", "metric_id", "n_tasks", "coverage_frac", "mutant_score_frac", "reason"), _pairs,
    ),
    "subsets": (
        ("case_id", "subset_id", "n_tasks", "n_detected", "mutant_score_frac", "score_low_frac", "score_high_frac",
         "score_dominators_frac"),
        _subsets,
    ),
    "subset_tasks": (("case_id", "subset_id", "task_id", "is_eligible"), _members),
    "mutants": (
        ("case_id", "variant_id", "role", "operator", "status", "n_killed_by", "n_undetermined", "is_trivial",
         "is_dominator", "is_never_killed", "is_inert", "duplicate_of"),
        _mutants,
    ),
    "tasks": (
        ("case_id", "task_id", "rank", "n_kills", "n_kills_alone", "n_new_kills", "is_redundant", "cost", "cost_unit"),
        _tasks,
    ),
    "kills": (
        ("case_id", "variant_id", "role", "operator", "task_id", "outcome", "n_baseline", "n_baseline_passed",
         "n_mutant", "n_mutant_passed", "p_value", "p_adjusted", "reason"),
        _kills,
    ),
    "covers": (("case_id", "metric_id", "task_id", "item"), _covers),
    "items": (("case_id", "metric_id", "item", "n_tasks"), _items),
    "trials": (
        ("case_id", "variant_id", "role", "task_id", "attempt", "status", "reward", "reason", "started_at",
         "duration_s", "cost_usd", "trial", "trajectory"),
        _trials,
    ),
    "false_kills": (
        ("case_id", "scope", "n_tasks", "n_subsets", "n_controls", "estimate", "ci_low", "ci_high"), _false_kills,
    ),
    "suggestions": (("case_id", "number", "kind", "subject", "found", "advice"), _suggestions),
}  # fmt: skip
