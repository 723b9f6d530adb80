# SPDX-License-Identifier: Apache-2.0
"""Tidy tables and Markdown: the records' numbers in full, text as text, also from an unfinished experiment."""

from __future__ import annotations

import csv

import pandas as pd
import pytest

from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.markdown import escape_markdown, render_markdown
from metric_benchmark.reporting.tidy import TABLES, tidy_tables, to_csv, write_tables


@pytest.fixture(scope="module")
def tables(finished):
    return {name: pd.DataFrame(rows) for name, rows in tidy_tables(load_report(finished)).items()}


def test_rows_have_exactly_the_declared_columns(finished):
    for name, rows in tidy_tables(load_report(finished)).items():
        assert rows, name
        assert all(tuple(row) == TABLES[name][0] for row in rows), name


def test_the_main_figure_can_be_redrawn_from_the_tables(finished, tables):
    record = load_report(finished).cases[0].correlation
    frame = tables["pairs"].query("case_id == 'desk' and metric_id == 'tool_calls'")
    assert len(frame) == 60
    assert list(frame.coverage_frac) == [pair.coverage["tool_calls"] for pair in record.pairs]
    assert list(frame.mutant_score_frac) == [pair.mutant_score for pair in record.pairs]
    estimates = tables["estimates"].query("case_id == 'desk' and metric_id == 'tool_calls'").set_index("estimator")
    assert estimates.estimate["pearson"] == pytest.approx(frame.coverage_frac.corr(frame.mutant_score_frac))


def test_kills_and_covers_agree_with_the_records(finished, tables):
    case = load_report(finished).cases[1]
    kills = tables["kills"].query("case_id == 'files' and outcome == 'killed' and role == 'mutant'")
    expected = {(task, name) for name, m in case.scores.mutants.items() for task in m.killed_by}
    assert set(zip(kills.task_id, kills.variant_id, strict=True)) == expected
    covers = tables["covers"].query("case_id == 'files' and metric_id == 'synthetic'")
    assert covers.groupby("task_id").item.count().to_dict() == {
        task: len(items) for task, items in case.coverage.metrics["synthetic"].tasks.items() if items
    }
    assert tables["false_kills"].query("scope == 'suite'").n_controls.tolist() == [2, 2]


def test_files_hold_numbers_in_full(finished, tmp_path):
    written = {path.name: path for path in write_tables(finished, tmp_path)}
    assert set(written) == {"report.md", *(f"{name}.csv" for name in TABLES)}
    with written["pairs.csv"].open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    first = load_report(finished).cases[0].correlation.pairs[0]
    assert float(rows[0]["mutant_score_frac"]) == first.mutant_score
    assert written["results.csv"].read_text().splitlines()[0].startswith("case_id,metric_id,label,verdict")


def test_awkward_cells_survive_csv():
    data = to_csv([{"a": 'x,"y"\nz', "b": 0.1 + 0.2, "c": True, "d": None}], ("a", "b", "c", "d"))
    (row,) = csv.DictReader(data.decode().splitlines(keepends=True))
    assert row == {"a": 'x,"y"\nz', "b": "0.30000000000000004", "c": "true", "d": ""}


@pytest.mark.parametrize("stage", ["execution", "scores", "coverage"])
def test_an_unfinished_experiment_has_tables_and_markdown(world, tmp_path, stage):
    root = world.write_world(
        tmp_path / "root", {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8)}, stop_after=stage
    )
    tables = tidy_tables(load_report(root))
    assert len(tables["trials"]) == 6 * (3 + 2 + 2)
    assert tables["pairs"] == []
    assert bool(tables["mutants"]) == (stage != "execution")
    assert "Not complete" in write_tables(root)[0].read_text()


def test_markdown_says_what_the_html_says(finished):
    text = render_markdown(load_report(finished))
    assert "**supported**, desk / tool\\_calls: Yes." in text
    assert "## What to do next" in text
    assert "| blind-1 | blind | killed |" in text
    assert "null metric" in text
    assert "### Metric synthetic" in text
    assert "| planned | count |" in text


def test_hostile_text_stays_text_in_markdown(world, tmp_path):
    cases = {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8, hostile=True)}
    text = render_markdown(load_report(world.write_world(tmp_path, cases)))
    assert "<script>" not in text
    assert "\\<script\\>" in text
    assert escape_markdown("a|b\n# [x](http://y) `z`") == "a\\|b \\# \\[x\\](http:\\//y) \\`z\\`"
