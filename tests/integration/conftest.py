# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests that run whole experiments in processes that are killed, starved or interrupted."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults"


@pytest.fixture(scope="session")
def harness() -> ModuleType:
    """The module that runs experiments in processes of their own, and kills them."""
    name = "mb_faults_harness"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FAULTS / "harness.py")
        assert spec
        assert spec.loader
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@dataclass
class Undisturbed:
    """A small experiment, a way to run it to its end, and what that comes to when nothing happens.

    Attributes:
        zygote: starts the processes.
        run: called with the experiment, an output folder, and how to disturb it.
        folder: what the undisturbed run wrote.
        points: kill points it passed.
    """

    zygote: Any
    run: Callable[..., Any]
    experiment: Path
    folder: Path
    records: dict[str, Any]
    points: list[str]
    seconds: float
    mounts: list[str]


def _undisturbed(harness: ModuleType, folder: Path, zygote: Any, run: Callable[..., Any]) -> Undisturbed:
    mounts = zygote.mounts()
    experiment = harness.build_experiment(folder / "experiment")
    done = run(experiment, folder / "reference", trace=folder / "trace")
    assert done.status == 0, done.log
    records = harness.read_records(folder / "reference")
    assert harness.problems_of(folder / "reference", records) == []
    points = harness.kill_points(folder / "trace")
    return Undisturbed(zygote, run, experiment, folder / "reference", records, points, done.seconds, mounts)


@contextmanager
def _command_line(harness: ModuleType, folder: Path, *, private_mounts: bool) -> Iterator[Undisturbed]:
    modules = ("metric_benchmark.cli.checks", "metric_benchmark.cli.showing")
    with harness.Zygote(folder, *modules, private_mounts=private_mounts) as zygote:

        def run(experiment: Path, output: Path, **how: Any) -> Any:
            return zygote.command("run-experiment", experiment, "--output", output, **how)

        yield _undisturbed(harness, folder, zygote, run)


@pytest.fixture(scope="session")
def shell(harness: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    """Runs by the command line."""
    with _command_line(harness, tmp_path_factory.mktemp("faults"), private_mounts=True) as undisturbed:
        yield undisturbed


@pytest.fixture(scope="session")
def mounting_shell(harness: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    """Runs by the command line that see what a test mounts."""
    with _command_line(harness, tmp_path_factory.mktemp("mounting"), private_mounts=False) as undisturbed:
        yield undisturbed


@pytest.fixture(scope="session")
def dagster(harness: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    """Runs by Dagster, in one process."""
    folder = tmp_path_factory.mktemp("dagster-faults")
    with harness.Zygote(folder, "metric_benchmark_dagster.definitions") as zygote:

        def run(experiment: Path, output: Path, **how: Any) -> Any:
            return zygote.call("dagster_run:materialise", str(experiment), str(output), **how)

        yield _undisturbed(harness, folder, zygote, run)
