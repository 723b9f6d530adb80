# SPDX-License-Identifier: Apache-2.0
"""The summary table: every number is the record's, undefined ones say why, labels stay text."""

from __future__ import annotations

import io

from rich.console import Console

from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.table import render_table, summary_rows


def _show(rows, width: int = 80) -> str:
    console = Console(width=width, color_system=None, file=io.StringIO())
    console.print(render_table(rows))
    return console.file.getvalue()


def test_a_row_per_case_and_metric_with_the_records_numbers(finished):
    data = load_report(finished)
    rows = summary_rows(data)
    assert [(r["case"], r["metric"], r["label"]) for r in rows[:3]] == [
        ("desk", "tool_calls", ""), ("desk", "suite_size", "null metric"), ("desk", "synthetic", "wiring test"),
    ]  # fmt: skip
    record = data.cases[0].correlation
    row, metric = rows[0], record.metrics["tool_calls"]
    assert row["rho"] == metric.estimates.spearman.value
    assert row["partial_rho"] == metric.estimates.partial_spearman_given_size.value
    assert (row["ci_low"], row["ci_high"]) == (metric.calibrated.low, metric.calibrated.high)
    assert (row["n_subsets"], row["n_tasks"], row["n_mutants"]) == (60, 20, 12)
    assert (row["size_min"], row["size_max"]) == (3, 11)
    assert row["verdict"] == "supported"


def test_size_itself_has_no_partial_correlation(finished):
    row = summary_rows(load_report(finished))[1]
    assert row["partial_rho"] is None
    assert row["partial_rho_reason"] == "size_determines_coverage"
    text = _show([row])
    assert "undefined, size determines coverage: desk/suite_size" in text


def test_a_case_without_correlation_has_rows_that_say_so(world, tmp_path):
    root = world.write_world(tmp_path, {"desk": world.World(n_tasks=6, n_mutants=3)}, stop_after="scores")
    rows = summary_rows(load_report(root))
    assert [row["metric"] for row in rows] == ["tool_calls", "suite_size", "synthetic"]
    assert {row["verdict"] for row in rows} == {"missing"}
    assert rows[0]["reason"] == "no coverage yet"
    assert "missing" in _show(rows)


def test_eighty_columns_are_enough_and_markup_in_labels_is_text(finished):
    rows = [{**row, "case": "[red]x"} for row in summary_rows(load_report(finished))]
    text = _show(rows)
    assert max(map(len, text.splitlines())) <= 80
    assert "[red]x" in text
    assert "60 (3-11)" in text
    assert "…" not in text
