# SPDX-License-Identifier: Apache-2.0
"""The UI in a real browser; screenshots land in an ignored folder, to be looked at."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.timeout(1500)]

#: Loading a page and a run's start, on a machine that has other things to do.
PATIENCE_MS = 200_000


def _shoot(page: Any, name: str) -> None:
    page.screenshot(path=str(sys.modules["mb_tests_host"].screenshot_folder() / f"{name}.png"))


def test_the_lineage_page_shows_the_stages(host: Any, page: Any) -> None:
    page.goto(f"{host.url}/asset-groups")
    for group in ("inputs", "raw_results", "mutant_scores", "coverage", "correlation", "report"):
        page.get_by_text(group, exact=True).first.wait_for(timeout=PATIENCE_MS)
    _shoot(page, "lineage-groups")
    assert page.get_by_text("newsletter").count() == 0


def test_what_runs_by_itself_is_listed_and_what_costs_money_is_off(host: Any, page: Any) -> None:
    from playwright.sync_api import expect

    page.goto(f"{host.url}/automation")
    for name, is_on in (("analysis_follows", True), ("scheduled_backfill", False), ("watch_inputs", True)):
        label = page.get_by_text(name, exact=True)
        label.wait_for(timeout=PATIENCE_MS)
        # A line has two boxes: one selects it, and one switches it on.
        line = label.locator("xpath=ancestor::*[count(.//input[@type='checkbox']) >= 2][1]")
        expect(line.locator("input[type=checkbox]").nth(1)).to_be_checked(checked=is_on, timeout=PATIENCE_MS)
    _shoot(page, "automation")


@pytest.mark.harbor
def test_a_partition_is_launched_by_clicking_and_shows_what_it_was_made_from(host: Any, page: Any) -> None:
    page.goto(f"{host.url}/assets/raw_results?view=partitions")
    page.get_by_text("tiny|baseline").first.wait_for(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_text("Select a partition or create one").click()
    page.get_by_placeholder("Filter partitions").fill("tiny|baseline")
    page.get_by_text("Select all (1)").first.click()
    page.keyboard.press("Escape")
    _shoot(page, "launch-dialog")
    page.get_by_role("button", name="Launch 1 run").click()
    sys.modules["mb_tests_host"].wait_for(
        lambda: "tiny|baseline" in host.materialised()["raw_results"], 300, "the partition that was launched"
    )
    page.goto(f"{host.url}/assets/raw_results?view=partitions&partition=tiny%7Cbaseline")
    for text in ("config_hash", "implementation_hash", "input_digests", "harbor_view", "trials", "plot"):
        page.get_by_text(text, exact=True).first.wait_for(timeout=PATIENCE_MS)
    _shoot(page, "partition")
