# SPDX-License-Identifier: Apache-2.0
"""A large report (200 subsets, 50 mutants, 5 metrics): small enough to mail, quick to open, still true."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.html import write_report

pytestmark = pytest.mark.slow

MAX_BYTES = 5_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory):
    path = Path(__file__).parents[1] / "unit" / "reporting" / "world.py"
    spec = importlib.util.spec_from_file_location("reporting_world_large", path)
    assert spec is not None
    assert spec.loader is not None
    world = importlib.util.module_from_spec(spec)
    sys.modules["reporting_world_large"] = world
    spec.loader.exec_module(world)
    case = world.World(
        n_tasks=100, n_mutants=50, n_items=80, n_subsets=200, attempts=5, rule="exact", flaky=0.03, replicates=100,
        metrics=("tool_calls", "suite_size", "synthetic", "bigrams", "audit"),
    )  # fmt: skip
    return world.write_world(tmp_path_factory.mktemp("large"), {"big": case})


def test_it_stays_below_five_megabytes_and_holds_everything(large):
    html = write_report(large).read_text()
    assert len(html.encode()) < MAX_BYTES
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    (case,) = json.loads(text)["cases"]
    record = load_report(large).cases[0]
    assert len(case["subsets"]) == 200
    assert sum(len(v["killed_by"]) for v in case["variants"]) == sum(
        len(m.killed_by) for m in (*record.scores.mutants.values(), *record.scores.controls.values())
    )
    assert [len(m["coverage"]) for m in case["metrics"]] == [200] * 5
    assert html.count('class="p s') == sum(
        m.n_subsets * (2 if m.estimates.partial_spearman_given_size.status == "ok" else 1)
        for m in record.correlation.metrics.values()
    )


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_opens_it_without_errors_requests_or_sideways_scrolling(browser, large, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    faults: list[str] = []
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else faults.append(f"request: {r.url}"))
    page.goto(write_report(large).as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("select").first.select_option(index=1)
    assert page.locator(".explore .detail h4").inner_text() != ""
    assert faults == []
    page.close()
