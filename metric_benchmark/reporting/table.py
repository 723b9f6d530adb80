# SPDX-License-Identifier: Apache-2.0
"""The result in one table: a row per case and metric, for terminals, Dagster metadata and the top of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import Correlation, MetricCorrelation
from metric_benchmark.reporting.data import CaseReport, ReportData

type Row = dict[str, Any]

#: How a verdict is coloured in a terminal.
VERDICT_STYLES = {"supported": "green", "refuted": "red", "inconclusive": "yellow", "blocked": "magenta"}


def summary_rows(data: ReportData) -> list[Row]:
    """Returns one row per case and metric.

    Keys: `case, metric, label, n_subsets, size_min, size_max, n_tasks, n_mutants, rho, rho_reason, partial_rho,
    partial_rho_reason, calibrated, ci_low, ci_high, p_value, p_adjusted, verdict, reason`. A number that does not
    exist is None, and its reason is beside it. A case that has no correlation yet has the verdict `missing`.
    """
    return [row for case in data.cases for row in case_rows(case)]


def case_rows(case: CaseReport) -> list[Row]:
    """Returns the rows of one case; see `summary_rows`."""
    if case.correlation is None:
        names = case.metric_names or ("",)
        return [_missing(case, name) for name in names]
    known = case.correlation.metrics
    names = [name for name in case.metric_names if name in known]
    names += [name for name in known if name not in names]
    return [_row(case, case.correlation, name, known[name]) for name in names]


def _missing(case: CaseReport, metric: str) -> Row:
    todo = "coverage" if case.scores else "mutant scores"
    reason = "not correlated yet" if case.scores and case.coverage else f"no {todo} yet"
    return {
        "case": case.case_id, "metric": metric, "label": case.label(metric), "n_subsets": len(case.subset_tasks),
        "size_min": None, "size_max": None, "n_tasks": len(case.tasks),
        "n_mutants": case.scores.n_mutants if case.scores else None,
        "rho": None, "rho_reason": reason, "partial_rho": None, "partial_rho_reason": reason,
        "calibrated": None, "ci_low": None, "ci_high": None, "p_value": None, "p_adjusted": None,
        "verdict": "missing", "reason": reason,
    }  # fmt: skip


def _row(case: CaseReport, record: Correlation, name: str, metric: MetricCorrelation) -> Row:
    rho, partial = metric.estimates.spearman, metric.estimates.partial_spearman_given_size
    sizes = [pair.size for pair in record.pairs if not isinstance(pair.coverage.get(name), Undefined)]
    calibrated = metric.calibrated
    return {
        "case": case.case_id,
        "metric": name,
        "label": case.label(name),
        "n_subsets": metric.n_subsets,
        "size_min": min(sizes, default=None),
        "size_max": max(sizes, default=None),
        "n_tasks": record.n_tasks,
        "n_mutants": record.n_mutants,
        "rho": None if isinstance(rho, Undefined) else rho.value,
        "rho_reason": rho.reason if isinstance(rho, Undefined) else "",
        "partial_rho": None if isinstance(partial, Undefined) else partial.value,
        "partial_rho_reason": partial.reason if isinstance(partial, Undefined) else "",
        "calibrated": calibrated.estimate if calibrated else None,
        "ci_low": calibrated.low if calibrated else None,
        "ci_high": calibrated.high if calibrated else None,
        "p_value": metric.test.p_value if metric.test else None,
        "p_adjusted": metric.verdict.p_adjusted,
        "verdict": metric.verdict.verdict,
        "reason": metric.verdict.reason,
    }


def render_table(rows: Iterable[Mapping[str, Any]], *, title: str | None = None) -> Table:
    """Returns the rows as a table for a terminal of 80 columns; labels are shown as text, never as markup."""
    rows = list(rows)
    table = Table(
        title=escape(title) if title else None, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False, caption=_caption(rows), caption_justify="left",
    )  # fmt: skip
    table.add_column("case", overflow="fold")
    table.add_column("metric", overflow="fold")
    for name in ("subsets\n(sizes)", "tasks x\nmutants", "rho", "partial\nrho"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for row in rows:
        label = f"\n[dim]({escape(row['label'])})[/dim]" if row["label"] else ""
        style = VERDICT_STYLES.get(row["verdict"], "dim")
        table.add_row(
            escape(row["case"]),
            escape(row["metric"]) + label,
            f"{_count(row['n_subsets'])} ({sizes_text(row)})",
            f"{_count(row['n_tasks'])} x {_count(row['n_mutants'])}",
            _number(row["rho"]),
            _number(row["partial_rho"]),
            f"[{style}]{escape(words(row['verdict']))}[/{style}]",
        )
    return table


def words(code: str) -> str:
    """Returns a code of a record as words, e.g. `constant_size` as `constant size`."""
    return code.replace("_", " ")


def sizes_text(row: Mapping[str, Any]) -> str:
    """Returns the range of subset sizes of a row, e.g. `2-10`."""
    low, high = row["size_min"], row["size_max"]
    if low is None:
        return "-"
    return f"{low}-{high}" if low != high else str(low)


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _number(value: float | None) -> str:
    return "[dim]undefined[/dim]" if value is None else f"{value:+.2f}"


def _caption(rows: list[Mapping[str, Any]]) -> str | None:
    """Says why numbers are undefined, once per reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for reason in dict.fromkeys((row["rho_reason"], row["partial_rho_reason"])):
            if reason:
                reasons.setdefault(reason, []).append(f"{row['case']}/{row['metric']}".rstrip("/"))
    lines = [f"undefined, {words(reason)}: {', '.join(where)}" for reason, where in reasons.items()]
    return escape("\n".join(lines)) or None
