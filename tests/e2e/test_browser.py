# SPDX-License-Identifier: Apache-2.0
"""The UI in a real browser; screenshots land in an ignored folder, to be looked at."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.timeout(600)]


def _shoot(page: Any, name: str) -> None:
    page.screenshot(path=str(sys.modules["mb_tests_host"].screenshot_folder() / f"{name}.png"))


def test_the_lineage_page_shows_the_stages(host: Any, page: Any) -> None:
    page.goto(f"{host.url}/asset-groups")
    for group in ("inputs", "raw_results", "mutant_scores", "coverage", "correlation", "report"):
        page.get_by_text(group, exact=True).first.wait_for(timeout=60_000)
    page.wait_for_timeout(2000)
    _shoot(page, "lineage-groups")
    assert page.get_by_text("newsletter").count() == 0
