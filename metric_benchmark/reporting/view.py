# SPDX-License-Identifier: Apache-2.0
"""What the HTML template shows: per case the verdicts, the figures and the tables, made from records."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from metric_benchmark.records.base import Defined, Undefined
from metric_benchmark.records.correlation import Correlation, MetricCorrelation, Pair, PowerPlan, Settling
from metric_benchmark.records.coverage import MetricCoverage
from metric_benchmark.records.scores import MutantScores
from metric_benchmark.reporting import figures
from metric_benchmark.reporting.data import CaseReport, ReportData
from metric_benchmark.reporting.details import list_agreement, list_estimates
from metric_benchmark.reporting.figures.matrices import MAX_LINES
from metric_benchmark.reporting.figures.scatter import Point, size_class
from metric_benchmark.reporting.numbers import (
    Bools,
    cover_matrix,
    expect_by_size,
    kill_matrix,
    metric_points,
    order_matrix,
    residual_ranks,
)
from metric_benchmark.reporting.pooled import pooled_rows
from metric_benchmark.reporting.provenance import TrialCounts, count_trials, describe_case
from metric_benchmark.reporting.sentences import Sentences, describe_verdict
from metric_benchmark.reporting.suggestions import Suggestion, TaskValues, suggest, value_tasks
from metric_benchmark.reporting.table import case_rows, words


@dataclass(frozen=True)
class CoverFigure:
    """A cover matrix as drawn: its tasks, its items by their place in the record, and what must be said about it."""

    svg: Markup | None = None
    tasks: tuple[str, ...] = ()
    items: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class PointFigures:
    """Scatter and residual plot with what they show: (place among the pairs, x, y) and (size, coverage, score)."""

    scatter: Markup | None = None
    residuals: Markup | None = None
    residual_points: tuple[tuple[int, float, float], ...] = ()
    expectation: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True)
class MetricView:
    """One metric of one case: verdict, figures, numbers; `is_exploratory` where nothing was claimed beforehand."""

    row: Mapping[str, Any]
    is_exploratory: bool
    sentences: Sentences
    points: PointFigures
    cover: CoverFigure
    estimates: tuple[tuple[str, str], ...]
    agreement: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class CaseView:
    """One case: its metrics and what its mutants, controls and trials say.

    `task_order` and `mutant_order` are places in the record in the order the heat map shows them.
    """

    case: CaseReport
    metrics: tuple[MetricView, ...]
    kills: Markup | None
    task_order: tuple[int, ...]
    mutant_order: tuple[int, ...]
    kills_note: str
    false_kills: Markup | None
    agreement: Markup | None
    plan: PowerPlan | None
    power: Markup | None
    sizes: tuple[tuple[int, int], ...]
    values: TaskValues
    suggestions: tuple[Suggestion, ...]
    trials: tuple[TrialCounts, ...]
    provenance: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]

    def coverage_text(self, subset: str, metric: str) -> str:
        """Returns a subset's coverage by a metric for a table."""
        if self.case.correlation is not None:
            pair = self.pairs.get(subset)
            value = pair.coverage.get(metric) if pair else None
        else:
            measured = self.case.coverage.metrics.get(metric) if self.case.coverage else None
            found = measured.subsets.get(subset) if measured else None
            value = found.coverage if found else None
        if value is None or isinstance(value, Undefined):
            return words(value.reason) if value else "–"
        return f"{value:z.3f}"

    @functools.cached_property
    def pairs(self) -> dict[str, Pair]:
        """The correlation's pairs by subset."""
        return {pair.subset: pair for pair in self.case.correlation.pairs} if self.case.correlation else {}


def view_case(
    case: CaseReport, plan: PowerPlan | None = None, settling: Mapping[str, Settling] | None = None
) -> CaseView:
    """Makes everything the report shows about one case; what is missing is left out.

    Args:
        case: its records.
        plan: what its design could show, if that was simulated.
        settling: by metric, what would settle a claim that stayed open, if that was simulated.
    """
    scores = case.scores
    tasks: list[int] = []
    mutants: list[int] = []
    kills = None
    if scores is not None:
        killed, undetermined = kill_matrix(scores)
        tasks, mutants = order_matrix(killed)
        kills = _draw_kills(case.case_id, scores, killed, undetermined, tasks, mutants)
    rows = case_rows(case)
    all_sizes = [pair.size for pair in case.correlation.pairs] if case.correlation else []
    distinct = sorted(set(all_sizes))
    warnings = [*(case.correlation.warnings if case.correlation else scores.warnings if scores else ())]
    return CaseView(
        case=case,
        metrics=tuple(
            _view_metric(case, row, all_sizes, tasks, (settling or {}).get(row["metric"]))
            for row in rows
            if row["metric"]
        ),
        kills=kills,
        task_order=tuple(tasks),
        mutant_order=tuple(mutants),
        kills_note=_too_many(tasks, mutants),
        false_kills=_draw_noise(case.case_id, scores),
        agreement=_draw_agreement(case),
        plan=plan,
        power=figures.draw_power(case.case_id, plan) if plan and plan.curve else None,
        sizes=tuple((size, size_class(size, all_sizes)) for size in distinct),
        values=value_tasks(case),
        suggestions=tuple(suggest(case)),
        trials=tuple(count_trials(case)),
        provenance=tuple(describe_case(case)),
        warnings=tuple(warnings),
    )


def forest(data: ReportData) -> Markup | None:
    """Draws the forest plot over all cases and metrics; None before anything is correlated."""
    rows = [
        _forest_row(case.case_id, row, case.correlation.metrics[row["metric"]])
        for case in data.cases
        if case.correlation is not None
        for row in case_rows(case)
    ]
    rows += [
        figures.ForestRow(f"all cases / {row['metric']}", row["calibrated"], row["ci_low"], row["ci_high"], "pooled",
                          is_calibrated=True)
        for row in pooled_rows(data)
        if row["calibrated"] is not None
    ]  # fmt: skip
    return figures.draw_forest(rows) if rows else None


def interval_levels(data: ReportData) -> str:
    """Names the levels of the intervals in the forest plot; those of cases follow the claims' alpha."""
    of_cases = {
        metric.interval.level
        for case in data.cases
        if case.correlation is not None
        for metric in case.correlation.metrics.values()
        if metric.interval is not None and metric.calibrated is not None
    }
    pooled = {row["ci_level"] for row in pooled_rows(data) if row["calibrated"] is not None}
    named = [(of_cases, "of cases"), (pooled, "pooled over cases")]
    found = [f"{' or '.join(f'{level:.0%}' for level in sorted(levels))} {what}" for levels, what in named if levels]
    return ", ".join(found) or "none could be made"


def _forest_row(case: str, row: Mapping[str, Any], found: MetricCorrelation) -> figures.ForestRow:
    label = f"{case} / {row['metric']}"
    if found.calibrated is not None:
        return figures.ForestRow(
            label, found.calibrated.estimate, found.calibrated.low, found.calibrated.high, found.verdict.verdict,
            is_calibrated=True, minimum_effect=_signed_minimum(found),
        )  # fmt: skip
    note = words(row["partial_rho_reason"])
    return figures.ForestRow(label, row["partial_rho"], verdict=found.verdict.verdict, note=note)


def _signed_minimum(found: MetricCorrelation) -> float | None:
    minimum = found.verdict.minimum_effect
    return minimum if minimum is None or found.verdict.direction != "less" else -minimum


def _view_metric(
    case: CaseReport, row: Mapping[str, Any], sizes: Sequence[int], order: Sequence[int], settling: Settling | None
) -> MetricView:
    name, record = row["metric"], case.correlation
    measured = case.coverage.metrics.get(name) if case.coverage else None
    found = record.metrics[name] if record else None
    return MetricView(
        row=row,
        is_exploratory=found is None or found.verdict.minimum_effect is None,
        sentences=describe_verdict(row, record, settling),
        points=_draw_points(case, record, measured, name, sizes) if record and measured else PointFigures(),
        cover=_draw_cover(case, measured, name, order) if measured else CoverFigure(),
        estimates=list_estimates(found) if found else (),
        agreement=list_agreement(found) if found else (),
    )


def _draw_points(
    case: CaseReport, record: Correlation, measured: MetricCoverage, name: str, sizes: Sequence[int]
) -> PointFigures:
    found = metric_points(record, name)
    if not found.index or case.scores is None:
        return PointFigures()
    columns = zip(found.index, found.coverage, found.score, found.size, strict=True)
    points = [Point(i, x, y, size) for i, x, y, size in columns]
    expectation = expect_by_size(case.scores, measured, found)
    scatter = figures.draw_scatter(name, points, sizes, expectation, case=case.case_id)
    left = residual_ranks(found)
    if left is None or record.metrics[name].estimates.partial_spearman_given_size.status != "ok":
        return PointFigures(scatter, expectation=expectation)
    columns = zip(found.index, left[0].tolist(), left[1].tolist(), found.size, strict=True)
    beyond = [Point(i, x, y, size) for i, x, y, size in columns]
    residuals = figures.draw_residuals(name, beyond, sizes, case=case.case_id)
    return PointFigures(scatter, residuals, tuple((p.index, p.x, p.y) for p in beyond), expectation)


def _draw_kills(
    case: str, scores: MutantScores, killed: Bools, undetermined: Bools, tasks: list[int], mutants: list[int]
) -> Markup | None:
    rows, columns = tasks[:MAX_LINES], mutants[:MAX_LINES]
    names = list(scores.mutants)

    def outcome(row: int, column: int) -> str:
        place = rows[row], columns[column]
        return "killed" if killed[place] else "undetermined" if undetermined[place] else "survived"

    return figures.draw_kill_matrix(
        case, [scores.eligible_tasks[i] for i in rows], [names[i] for i in columns], outcome
    )


def _draw_cover(case: CaseReport, measured: MetricCoverage, name: str, order: Sequence[int]) -> CoverFigure:
    if measured.kind == "opaque":
        note = "This metric is opaque: it gives a number per subset and no items, so there is no cover matrix."
        return CoverFigure(note=note)
    eligible = [case.scores.eligible_tasks[i] for i in order] if case.scores else []
    tasks = [task for task in eligible if task in measured.tasks]
    tasks += [task for task in measured.tasks if task not in set(tasks)]
    matrix = cover_matrix(tasks, measured.items, measured.tasks)
    _, columns = order_matrix(matrix) if matrix.shape[1] <= MAX_LINES else ([], _most_covered(matrix))
    rows, columns = tasks[:MAX_LINES], columns[:MAX_LINES]
    if not rows or not columns:
        return CoverFigure(note="No task could be measured." if not rows else "This metric has no items.")
    drawn = figures.draw_cover_matrix(
        case.case_id, name, rows, [measured.items[i] for i in columns],
        lambda row, column: bool(matrix[row, columns[column]]),
    )  # fmt: skip
    return CoverFigure(drawn, tuple(rows), tuple(columns), _too_many(tasks, measured.items))


def _most_covered(matrix: Bools) -> list[int]:
    count = matrix.sum(axis=0)
    return sorted(range(matrix.shape[1]), key=lambda i: -int(count[i]))


def _too_many(rows: Sequence[object], columns: Sequence[object]) -> str:
    if max(len(rows), len(columns)) <= MAX_LINES:
        return ""
    return (
        f"The figure shows at most {MAX_LINES} lines of each kind; there are {len(rows)} rows and {len(columns)} "
        "columns. The CSV tables hold all of them."
    )


def _draw_agreement(case: CaseReport) -> Markup | None:
    known = case.correlation.metrics if case.correlation else {}
    found = [(name, known[name].practical) for name in case.metric_names if name in known]
    rows = [
        figures.AgreementRow(name, _value(value.agreement), _value(value.within_size.agreement))
        for name, value in found
        if value is not None
    ]
    return figures.draw_agreement(case.case_id, rows) if rows else None


def _value(number: Defined | Undefined) -> float | None:
    return None if isinstance(number, Undefined) else number.value


def _draw_noise(case: str, scores: MutantScores | None) -> Markup | None:
    if scores is None or not scores.noise.by_size:
        return None
    return figures.draw_false_kills(case, scores.noise.by_size, scores.noise.alpha)
