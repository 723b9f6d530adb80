# SPDX-License-Identifier: Apache-2.0
"""The UI in a real browser; screenshots land in an ignored folder, to be looked at."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.timeout(600)]

#: Loading a page and a run's start, on a machine that has other things to do.
PATIENCE_MS = 200_000


def _shoot(page: Any, name: str) -> None:
    page.screenshot(path=str(sys.modules["mb_tests_host"].screenshot_folder() / f"{name}.png"))


def test_the_lineage_page_shows_the_stages(host: Any, page: Any) -> None:
    page.goto(f"{host.url}/asset-groups")
    for group in ("inputs", "raw_results", "mutant_scores", "coverage", "correlation", "report"):
        page.get_by_text(group, exact=True).first.wait_for(timeout=PATIENCE_MS)
    page.wait_for_timeout(2000)
    _shoot(page, "lineage-groups")
    assert page.get_by_text("newsletter").count() == 0


def test_what_runs_by_itself_is_listed_and_what_costs_money_is_off(host: Any, page: Any) -> None:
    page.goto(f"{host.url}/automation")
    for name in ("analysis_follows", "scheduled_backfill", "watch_inputs"):
        page.get_by_text(name, exact=True).wait_for(timeout=PATIENCE_MS)
    # One box selects all; each line has one that selects it and one that switches it on.
    boxes = page.locator("input[type=checkbox]")
    boxes.nth(6).wait_for(timeout=PATIENCE_MS, state="attached")
    page.wait_for_timeout(1000)
    _shoot(page, "automation")
    assert [boxes.nth(place).is_checked() for place in (2, 4, 6)] == [True, False, True]


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
