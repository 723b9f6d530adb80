# SPDX-License-Identifier: Apache-2.0
"""Fixtures every layer uses: a tiny real experiment, and what the machine must have for a test to run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

# How long a machine takes says nothing of the code.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")

REPOSITORY = Path(__file__).parent.parent


def _sandbox_works() -> bool:
    from metric_benchmark.execution.sandbox import check_sandbox

    return not check_sandbox()


def _docker_works() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


_NEEDS: dict[str, tuple[str, Callable[[], bool], str]] = {
    "harbor": ("sandbox", _sandbox_works, "the local sandbox cannot work here (metric-benchmark doctor says why)"),
    "docker": ("docker", _docker_works, "no Docker engine answers"),
    "browser": ("browser", lambda: shutil.which("chromium") is not None, "no chromium on PATH"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips, with the reason, what this machine cannot run; where CI requires it, it runs and fails instead."""
    required = os.environ.get("METRIC_BENCHMARK_REQUIRE", "").split()
    works: dict[str, bool] = {}
    for item in items:
        for marker, (name, check, reason) in _NEEDS.items():
            if item.get_closest_marker(marker) is None or name in required:
                continue
            if marker not in works:
                works[marker] = check()
            if not works[marker]:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _harbor_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may wait for a network that is not there."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")


class ExperimentFiles:
    """A small experiment on disk whose YAML files can be edited as plain values."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "experiment.yaml"

    def read(self, name: str) -> Any:
        return yaml.safe_load((self.folder / name).read_text())

    def write(self, name: str, value: Any) -> None:
        (self.folder / name).write_text(yaml.safe_dump(value, sort_keys=False))

    def edit(self, name: str, change: Callable[[Any], None]) -> None:
        value = self.read(name)
        change(value)
        self.write(name, value)

    def sign(self) -> None:
        from metric_benchmark.pins import sign_experiment

        sign_experiment(self.path)

    def add_task(self, task: str, *, answer: str | None = None) -> None:
        """Writes a Harbor task whose answer is a word in a file, and enters it in the case."""
        write_task(self.folder / "tasks" / task, answer or task)
        self.edit("case.yaml", lambda case: case["tasks"].append({"id": task, "path": f"tasks/{task}"}))


def write_task(folder: Path, answer: str) -> None:
    """Writes the smallest ordinary Harbor task: it is solved by writing `answer` to /app/out.txt."""
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(
        'version = "1.0"\n[agent]\ntimeout_sec = 300.0\n[verifier]\ntimeout_sec = 300.0\n'
        '[environment]\ndocker_image = "debian:bookworm-slim"\n'
    )
    (folder / "instruction.md").write_text(f"Write the word {answer} to /app/out.txt.\n")
    (folder / "solution" / "solve.sh").write_text(f"#!/bin/bash\nmkdir -p /app\necho {answer} > /app/out.txt\n")
    (folder / "tests" / "test.sh").write_text(
        "#!/bin/bash\n"
        f'if [ "$(cat /app/out.txt 2>/dev/null)" = "{answer}" ]; then echo 1; else echo 0; fi '
        "> /logs/verifier/reward.txt\n"
    )


@pytest.fixture
def tiny(tmp_path: Path) -> ExperimentFiles:
    """Two tasks, an oracle as the agent, a mutant that does nothing and one that may not act: signed and runnable.

    What each variant scores is plain: baseline, screening and controls pass both tasks, both mutants fail both.
    """
    files = ExperimentFiles(tmp_path / "experiment")
    files.folder.mkdir()
    files.write(
        "experiment.yaml",
        {
            "schema": "metric-benchmark/experiment/v1",
            "name": "tiny",
            "cases": "cases.yaml",
            "execution": "execution.yaml",
            "analysis": "analysis.yaml",
        },
    )
    files.write("cases.yaml", {"schema": "metric-benchmark/cases/v1", "cases": [{"path": "case.yaml"}]})
    files.write(
        "case.yaml",
        {
            "schema": "metric-benchmark/case/v1",
            "case_id": "tiny",
            "description": {"path": "description.yaml"},
            "subsets": {"path": "subsets.yaml"},
            "tasks": [],
            "baseline": {"agent": {"name": "oracle"}},
            "mutants": [
                {"id": "idle", "operator": "external/does-nothing", "agent": {"name": "nop"}},
                {
                    "id": "no-actions",
                    "operator": {"name": "action_budget", "params": {"max_actions": 0}},
                    "agent": "inherit",
                },
            ],
        },
    )
    files.write("description.yaml", {"schema": "metric-benchmark/description/v1", "title": "Tiny"})
    files.write(
        "subsets.yaml",
        {
            "schema": "metric-benchmark/subsets/v1",
            "subsets": [
                {"id": "first", "tasks": ["one"]},
                {"id": "second", "tasks": ["two"]},
                {"id": "both", "tasks": ["one", "two"]},
            ],
        },
    )
    files.write(
        "execution.yaml",
        {
            "schema": "metric-benchmark/execution/v1",
            "roles": {
                "baseline": {"attempts": 1},
                "screening": {"attempts": 1},
                "control": {"count": 1, "attempts": 1},
                "mutant": {"attempts": 1},
            },
            "environment": "local",
            "reward_key": "reward",
        },
    )
    files.write(
        "analysis.yaml",
        {
            "schema": "metric-benchmark/analysis/v1",
            "scoring": {"kill_rule": {"name": "deterministic"}},
            "coverage": [{"name": "suite_size"}, {"name": "synthetic"}],
            "correlation": {"replicates": 200, "seed": 3},
        },
    )
    files.add_task("one")
    files.add_task("two")
    files.sign()
    return files
