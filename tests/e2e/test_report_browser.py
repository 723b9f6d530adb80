# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: no errors, no requests, no sideways scrolling, drill-down by mouse and by keyboard."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from metric_benchmark.reporting.html import write_report

pytestmark = pytest.mark.browser


def _world():
    path = Path(__file__).parents[1] / "unit" / "reporting" / "world.py"
    spec = importlib.util.spec_from_file_location("reporting_world", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("reporting_world", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = _world()
    cases = {
        "desk": world.World(verdicts={"tool_calls": "supported"}, trajectories=True, hostile=True),
        "files": world.World(n_tasks=12, n_mutants=6, seed=3),
    }
    return write_report(world.write_world(tmp_path_factory.mktemp("report"), cases))


class Watched:
    """A page that notes what it must not do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.faults.append("dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else self.faults.append(f"request: {r.url}"),
        )


@pytest.fixture
def watched(browser: Browser, report: Path) -> Iterator[Watched]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    found = Watched(page)
    page.goto(report.as_uri())
    yield found
    page.close()
    assert found.faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_opens_without_errors_requests_or_sideways_scrolling(browser, report, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = Watched(page)
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg[data-fig=scatter]").count() == 6
    assert found.faults == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser, report, scheme):
    page = browser.new_page(color_scheme=scheme)
    page.goto(report.as_uri())
    low = page.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement('i'));
          const value = (name) => {
            probe.style.color = `var(${name})`;
            const rgb = getComputedStyle(probe).color.match(/\\d+/g).map((v) => v / 255);
            const [r, g, b] = rgb.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ratio = (a, b) => {
            const [x, y] = [value(a), value(b)].sort();
            return (y + 0.05) / (x + 0.05);
          };
          const text = ['--ink', '--soft', '--link', '--good', '--bad', '--open', '--noise', '--none'];
          const marks = ['--s0', '--s1', '--s2', '--s3', '--s4', '--s5', '--killed', '--covered', '--undetermined'];
          return [...text.flatMap((t) => ['--ground', '--card'].map((g) => [t, g, ratio(t, g), 4.5])),
            ...marks.map((m) => [m, "--ground", ratio(m, "--ground"), 3])].filter((line) => line[2] < line[3]);
        }"""
    )
    assert low == []
    page.close()


def test_hostile_labels_are_text(watched: Watched):
    assert "<script>alert('x')</script>" in watched.page.locator("h2").all_text_contents()[2]
    assert watched.page.locator("body script").count() == 2


def test_a_dot_tells_its_subset_and_opens_it(watched: Watched):
    page = watched.page
    dot = page.locator("svg[data-case=desk][data-metric=tool_calls][data-fig=scatter] circle.p").first
    dot.scroll_into_view_if_needed()
    dot.hover(force=True)
    assert "coverage 0." in page.locator("#tip").inner_text()
    dot.click(force=True)
    panel = page.locator(".explore[data-case=desk] .detail")
    assert panel.locator("h4").inner_text().startswith("Subset s")
    assert "Misses, though the whole suite catches them" in panel.inner_text()


def test_the_keyboard_reaches_every_cell_and_dot(watched: Watched):
    page = watched.page
    page.locator("svg[data-case=desk][data-fig=kills]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    first = page.locator("#tip").inner_text()
    assert "×" in first
    assert "baseline" in first
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text() != first
    page.keyboard.press("Enter")
    assert page.locator(".explore[data-case=desk] h4").inner_text().startswith("Mutant ")
    page.locator("svg[data-case=files][data-metric=tool_calls][data-fig=residuals]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator(".explore[data-case=files] h4").inner_text().startswith("Subset ")


def test_a_mutant_leads_to_its_trials_and_their_trajectories(watched: Watched, report: Path):
    page = watched.page
    page.goto(f"{report.as_uri()}#mutant/desk/blind-1")
    panel = page.locator(".explore[data-case=desk] .detail")
    assert panel.locator("h4").inner_text() == "Mutant blind-1"
    panel.locator("details").first.evaluate("(d) => { d.open = true; }")
    href = panel.locator("a", has_text="trajectory").first.get_attribute("href")
    assert href is not None
    assert href.startswith("execution/desk/blind-1/")
    assert (report.parent / href).is_file()


def test_selects_tasks_tables_legend_and_theme_work(watched: Watched):
    page = watched.page
    panel = page.locator(".explore[data-case=files]")
    panel.locator("select[data-kind=task]").select_option("task-02")
    assert panel.locator("h4").inner_text() == "Task task-02"
    assert "Kills alone" in panel.inner_text()
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    table = page.locator("table.sortable").last
    table.locator("th button").nth(2).click()
    scores = [float(t) for t in table.locator("tbody tr td:nth-child(3)").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    group = page.locator(".sized").first
    group.locator("button").first.click()
    assert 0 < group.locator("circle.dim").count() < group.locator("circle.p").count()
    button = page.locator("#theme")
    button.click()
    button.click()
    assert button.inner_text() == "Theme: dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 29)"


def test_it_prints_with_all_details_open_and_in_light_colours(browser, report, tmp_path):
    page = browser.new_page(color_scheme="dark")
    page.goto(report.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.pdf(path=str(tmp_path / "report.pdf"))
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    page.close()


def test_figures_show_without_a_script(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("svg[data-fig=scatter] circle.p").first.is_visible()
    assert page.locator("svg[data-fig=kills]").first.is_visible()
    assert not page.locator("#theme").is_visible()
    context.close()
