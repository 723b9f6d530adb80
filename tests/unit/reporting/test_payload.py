# SPDX-License-Identifier: Apache-2.0
"""Every figure's numbers equal the records: what the HTML embeds and where its SVG draws it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from metric_benchmark.records.base import Undefined
from metric_benchmark.reporting.data import load_report, trajectory_paths
from metric_benchmark.reporting.html import render_report
from metric_benchmark.reporting.payload import embed


@pytest.fixture(scope="module")
def html(finished) -> str:
    return render_report(load_report(finished))


@pytest.fixture(scope="module")
def payload(html) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(text)


def _svg(html: str, fig: str, case: str, metric: str | None = None) -> ET.Element:
    extra = f' data-metric="{metric}"' if metric else ""
    (text,) = re.findall(rf'<svg [^>]*data-fig="{fig}" data-case="{case}"{extra}.*?</svg>', html, re.S)
    return ET.fromstring(text)


def test_coverage_and_scores_are_those_of_the_pairs(finished, payload):
    for case, found in zip(load_report(finished).cases, payload["cases"], strict=True):
        assert found["id"] == case.case_id
        pairs = case.correlation.pairs
        assert [s["id"] for s in found["subsets"]] == [pair.subset for pair in pairs]
        assert [s["score"] for s in found["subsets"]] == [pair.mutant_score for pair in pairs]
        assert [s["size"] for s in found["subsets"]] == [pair.size for pair in pairs]
        for metric in found["metrics"]:
            values = [pair.coverage[metric["name"]] for pair in pairs]
            assert metric["coverage"] == [None if isinstance(v, Undefined) else v for v in values]


def test_kills_covers_and_members_are_those_of_the_records(finished, payload):
    for case, found in zip(load_report(finished).cases, payload["cases"], strict=True):
        tasks = found["tasks"]
        every = {**case.scores.mutants, **case.scores.controls}
        assert [v["id"] for v in found["variants"]] == list(every)
        for variant in found["variants"]:
            assert [tasks[t] for t in variant["killed_by"]] == every[variant["id"]].killed_by
            for task, cell in variant["cells"].items():
                kill = case.kills[variant["id"]].tasks[tasks[int(task)]]
                assert cell == [kill.n_baseline_passed, kill.n_baseline, kill.n_mutant_passed, kill.n_mutant,
                                kill.p_adjusted]  # fmt: skip
        for subset in found["subsets"]:
            assert [tasks[t] for t in subset["tasks"]] == list(case.subsets.subsets[subset["id"]])
            names = [found["variants"][v]["id"] for v in subset["detected"]]
            assert names == case.scores.subsets[subset["id"]].detected
        for metric in found["metrics"]:
            record = case.coverage.metrics[metric["name"]]
            assert metric["items"] == record.items
            for task, items in metric["tasks"].items():
                assert {metric["items"][i] for i in items} == set(record.tasks[tasks[int(task)]])


@pytest.mark.parametrize("case", ["desk", "files"])
@pytest.mark.parametrize("metric", ["tool_calls", "suite_size", "synthetic"])
def test_the_scatter_draws_the_pairs(finished, html, case, metric):
    record = next(c for c in load_report(finished).cases if c.case_id == case).correlation
    circles = [c for c in _svg(html, "scatter", case, metric) if c.get("class", "").startswith("p ")]
    drawn = {int(c.get("data-i")): (float(c.get("cx")), float(c.get("cy"))) for c in circles}
    assert sorted(drawn) == list(range(len(record.pairs)))
    x = np.array([record.pairs[i].coverage[metric] for i in sorted(drawn)])
    y = np.array([record.pairs[i].mutant_score for i in sorted(drawn)])
    cx, cy = (np.array([drawn[i][k] for i in sorted(drawn)]) for k in (0, 1))
    # The scale is linear, and coordinates are written to 0.1: a straight line fits them all.
    for value, pixel, sign in ((x, cx, 1), (y, cy, -1)):
        slope, start = np.polyfit(value, pixel, 1)
        assert slope * sign > 0
        assert np.abs(start + slope * value - pixel).max() < 0.11


def test_the_residual_plot_draws_what_is_embedded(html, payload):
    metric = payload["cases"][0]["metrics"][0]
    circles = [c for c in _svg(html, "residuals", "desk", metric["name"]) if c.get("class", "").startswith("p ")]
    assert [int(c.get("data-i")) for c in circles] == [int(p[0]) for p in metric["residuals"]]
    slope, start = np.polyfit([p[1] for p in metric["residuals"]], [float(c.get("cx")) for c in circles], 1)
    assert all(
        abs(start + slope * p[1] - float(c.get("cx"))) < 0.11 for p, c in zip(metric["residuals"], circles, strict=True)
    )


@pytest.mark.parametrize("case", ["desk", "files"])
def test_the_heat_map_has_a_cell_where_the_record_has_a_kill(finished, html, payload, case):
    found = next(c for c in payload["cases"] if c["id"] == case)
    svg = _svg(html, "kills", case)
    left, top, cell = (float(svg.get(f"data-{name}")) for name in ("x", "y", "cell"))
    (path,) = [p.get("d") for p in svg if p.get("class") == "c-killed"]
    drawn = {
        (round((float(y) - top) / cell), round((float(x) - left) / cell))
        for x, y in re.findall(r"M(\S+) (\S+?)h", path)
    }
    scores = next(c for c in load_report(finished).cases if c.case_id == case).scores
    expected = {
        (found["rows"].index(found["tasks"].index(task)), found["columns"].index(column))
        for column, mutant in enumerate(scores.mutants.values())
        for task in mutant.killed_by
    }
    assert drawn == expected


def test_the_forest_draws_estimates_and_intervals(finished, html):
    (text,) = re.findall(r'<svg [^>]*aria-label="Forest plot.*?</svg>', html, re.S)
    titles = re.findall(r"<title>(.*?)</title>", text)
    rows = [
        f"{case.case_id} / {name}: {metric.calibrated.estimate:+.3f}"
        for case in load_report(finished).cases
        for name, metric in case.correlation.metrics.items()
        if metric.calibrated
    ]
    assert sorted(titles) == sorted(rows)
    assert len(rows) == 4


def test_trials_lead_to_their_trajectories(finished, payload):
    data = load_report(finished)
    results = data.cases[0].results["blind-1"]
    case = payload["cases"][0]
    ((folder, run, members),) = case["trials"]["blind-1"]
    assert len(members) == len(results.trials)
    by_key = {(t.task, t.attempt): t for t in results.trials}
    for task, attempt, name, status, reward, trajectory in members:
        trial = by_key[case["tasks"][task], attempt]
        assert (payload["statuses"][status], reward, trajectory) == (trial.status, trial.reward, 1)
        full = f"{case['tasks'][task]}__{name[1:]}" if name.startswith("~") else name
        expected = f"execution/desk/blind-1/{folder}/jobs/{run}/{full}/agent/trajectory.json"
        assert trajectory_paths(finished, results, trial) == (expected,)
    assert payload["cases"][1]["trials"]["baseline"][0][2][0][5] == 0


def test_too_many_trials_keep_those_that_killed(finished, monkeypatch):
    from metric_benchmark.reporting import payload as module

    monkeypatch.setattr(module, "MAX_TRIALS", 100)
    html = render_report(load_report(finished))
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    case = json.loads(text)["cases"][0]
    kept = {(v, m[0]) for v, jobs in case["trials"].items() for _, _, members in jobs for m in members}
    killing = {(v["id"], t) for v in case["variants"] for t in v["killed_by"]}
    assert killing <= kept
    assert len(kept) == 50
    assert case["n_trials_left_out"] == 16 * 20 - 50


def test_embedded_text_cannot_leave_its_element():
    text = embed({"a": "</script><!-- & \u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028"}
