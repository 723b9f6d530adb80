# SPDX-License-Identifier: Apache-2.0
"""The HTML report: complete in itself, safe against hostile text, and true to the records."""

from __future__ import annotations

import re

import pytest

from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.html import render_report, write_report


@pytest.fixture(scope="module")
def html(finished) -> str:
    return render_report(load_report(finished))


def test_it_is_written_into_the_root_by_default(world, tmp_path):
    root = world.write_world(tmp_path / "root", {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8)})
    assert write_report(root) == root.report
    assert root.report.read_text().startswith("<!doctype html>")
    elsewhere = write_report(root.path, tmp_path / "elsewhere" / "r.html")
    assert elsewhere.is_file()


def test_it_names_nothing_on_a_network(html):
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", html)
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_every_case_and_metric_has_its_verdict_and_figures(html):
    for case in ("desk", "files"):
        for metric in ("tool_calls", "suite_size", "synthetic"):
            assert f'data-fig="scatter" data-case="{case}" data-metric="{metric}"' in html
    assert "Yes. Among suites of the same size, those with more tool_calls coverage catch more faulty agents." in html
    assert "null metric" in html
    assert "wiring test" in html
    assert "Complete: sealed 2026-03-04" in html
    assert "were not validated again" in html


@pytest.mark.parametrize(
    ("stage", "there", "absent"),
    [
        ("execution", "mutant scores yet", "Kill matrix"),
        ("scores", "Kill matrix", 'data-fig="scatter"'),
        ("coverage", "Cover matrix", 'data-fig="scatter"'),
    ],
)
def test_an_unfinished_experiment_has_a_report_that_says_so(world, tmp_path, stage, there, absent):
    cases = {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8)}
    html = render_report(load_report(world.write_world(tmp_path, cases, stop_after=stage)))
    assert "Not complete: no correlation yet for desk" in html
    assert there in html
    assert absent not in html


def test_hostile_text_is_shown_as_text(world, tmp_path):
    cases = {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8, hostile=True)}
    html = render_report(load_report(world.write_world(tmp_path, cases)))
    assert "<script>alert" not in html
    assert html.count("<script") == html.count("</script>")
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in html


def test_an_opaque_metric_has_no_matrix_but_a_scatter(world, tmp_path):
    cases = {"desk": world.World(n_tasks=8, n_mutants=4, n_subsets=20, opaque="synthetic")}
    html = render_report(load_report(world.write_world(tmp_path, cases)))
    assert 'data-fig="scatter" data-case="desk" data-metric="synthetic"' in html
    assert 'data-fig="cover" data-case="desk" data-metric="synthetic"' not in html
    assert "This metric is opaque" in html
