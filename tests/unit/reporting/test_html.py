# SPDX-License-Identifier: Apache-2.0
"""The HTML report: complete in itself, safe against hostile text, and true to the records."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from metric_benchmark.config.models import CorrelationConfig
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.matrices import Matrix, analyze_matrix
from metric_benchmark.records.correlation import PowerOption, PowerPlan, PowerPoint
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
    assert "Native validation of trial folders: not done." in html


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


def test_the_agreement_figure_shows_the_records_numbers(finished, html):
    for case in load_report(finished).cases:
        (text,) = re.findall(rf"<svg [^>]*metrics of case {case.case_id} with the mutant score.*?</svg>", html, re.S)
        for name, metric in case.correlation.metrics.items():
            overall, within = metric.practical.agreement, metric.practical.within_size.agreement
            if overall.status == "ok":
                assert f"<title>{name}, all pairs: {overall.value:.3f}</title>" in text
            if within.status == "ok":
                assert f"<title>{name}, pairs of one size: {within.value:.3f}</title>" in text


def test_the_false_kill_figure_shows_every_size(finished, html):
    for case in load_report(finished).cases:
        (text,) = re.findall(rf"<svg [^>]*controls of case {case.case_id} by subset size.*?</svg>", html, re.S)
        assert [int(size) for size in re.findall(r"<title>size (\d+):", text)] == [
            rate.size for rate in case.scores.noise.by_size
        ]


def test_a_power_plan_becomes_a_curve(finished):
    points = [
        PowerPoint(link=link, effect=effect, power=power, stderr=0.05, n_simulations=60, n_trials=300)
        for link, effect, power in ((0.0, 0.0, 0.05), (1.0, 0.4, 0.62), (2.0, 0.6, 0.9))
    ]
    plan = PowerPlan(
        seed=1, target_power=0.8, alpha=0.05, planned_link=1.0, curve=points, smallest_effect=0.52,
        advice="add tasks", options=[
            PowerOption(change="40 tasks", n_tasks=40, n_mutants=12, n_subsets=60, n_baseline=1, n_mutant=1,
                        n_trials=420, extra_trials=120, power=0.9, stderr=0.03),
        ],
    )  # fmt: skip
    html = render_report(replace(load_report(finished), plans={"desk": plan}))
    assert html.count("<h3>Power") == 1
    assert "association 0.40: power 0.62" in html
    assert "An association of 0.52 is found 80 times out of 100; smaller ones are often missed." in html
    assert '<td>40 tasks</td><td class="n">120</td><td class="n">90%</td>' in html


def test_matrices_of_another_tool_have_a_report(tmp_path):
    def matrix(rows, columns, cells):
        return Matrix(tuple(rows), tuple(columns), np.array(cells, dtype=np.int8))

    tasks = ["task, one", "<b>two</b>", "three"]
    found = analyze_matrix(
        matrix(tasks, ["m 1", "m/2"], [[1, 0], [0, 1], [0, -1]]),
        matrix(tasks, ["i", "j"], [[1, 0], [1, 1], [0, 1]]),
        matrix(["a", "b", "c"], tasks, [[1, 0, 0], [0, 1, 1], [1, 1, 0]]),
        CorrelationConfig(replicates=100),
    )
    root = EvidenceRoot(tmp_path)
    for path, record in (
        (root.mutant_scores("matrix"), found.scores),
        (root.coverage("matrix"), found.coverage),
        (root.correlation("matrix"), found.correlation),
    ):
        write_record(path, record)
    html = render_report(load_report(root))
    assert 'data-fig="kills" data-case="matrix"' in html
    assert "&lt;b&gt;two&lt;/b&gt;" in html
    assert "<b>two" not in html
    assert "#mutant/matrix/m%2F2" in html


def test_failed_validation_is_the_first_thing_said(finished):
    data = load_report(finished)
    seal = data.seal.model_copy(update={"native_validation": "failed", "validated_at": "2026-03-05T08:00:00+00:00"})
    html = render_report(replace(data, seal=seal))
    assert "failed at 2026-03-05 08:00:00: the folders differ from the records" in html
    assert 'class="banner complete"' not in html
