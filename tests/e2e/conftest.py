# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the live tests: one `dagster dev` per session on a small experiment, and a browser."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]


def _load(path: str) -> ModuleType:
    """Loads a module of the tests, which are no packages."""
    full = f"mb_tests_{Path(path).stem}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, TESTS / path)
        assert spec
        assert spec.loader
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


@pytest.fixture(scope="session")
def small() -> ModuleType:
    """The module that builds small experiments."""
    return _load("dagster/small_experiment.py")


@pytest.fixture(scope="session")
def processes() -> ModuleType:
    """The module that finds processes."""
    return _load("dagster/processes.py")


@pytest.fixture(scope="session")
def hosts() -> ModuleType:
    """The module that talks to Dagster hosts."""
    return _load("e2e/host.py")


@pytest.fixture(scope="session")
def host(small: ModuleType, processes: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A `dagster dev` of an experiment of two cases, nothing of which has been run."""
    folder = tmp_path_factory.mktemp("live")
    experiment = small.build_experiment(folder / "experiment", cases=small.TWO_CASES)
    with _load("e2e/host.py").Host(experiment, folder / "out", folder / "dev.log", processes) as host:
        yield host


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                  "--disable-background-networking", "--disable-component-update", "--disable-sync"],
        )  # fmt: skip
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page, wide enough for the lineage graph."""
    page = browser.new_page(viewport={"width": 1680, "height": 900})
    yield page
    page.close()
