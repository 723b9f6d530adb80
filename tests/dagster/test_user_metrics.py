# SPDX-License-Identifier: Apache-2.0
"""Metrics of users, in one file and from an installed package: by command line, by Dagster, and replayed elsewhere."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metric_benchmark.records.base import comparable

pytestmark = pytest.mark.harbor

PACKAGE = Path(__file__).parents[1] / "data" / "sample_metric_package"

AGENT = '''
"""Writes the word its instruction asks for, and says that it has read a file of that name."""
import json

from harbor.agents.base import BaseAgent


class Reader(BaseAgent):
    @staticmethod
    def name():
        return "reader"

    def version(self):
        return "1"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        word = instruction.split()[3]
        await environment.exec(f"mkdir -p /app && echo {word} > /app/out.txt")
        call = {"tool_call_id": "1", "function_name": "read", "arguments": {"path": f"{word}.txt"}}
        steps = [{"step_id": 1, "source": "agent", "message": "", "tool_calls": [call]}]
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        (self.logs_dir / "trajectory.json").write_text(json.dumps(
            {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "reader", "version": "1"},
             "steps": steps}))
'''

#: A metric in one file; it leaves a mark each time it is really asked.
ASKED = """
from metric_benchmark.coverage.protocol import CoverMatrix, Settings


class AskedSettings(Settings):
    log: str


class Asked:
    Settings = AskedSettings

    def measure(self, request):
        with open(request.settings.log, "a") as log:
            log.write("asked\\n")
        tasks = {t.task: tuple({call.name for step in t.steps for call in step.tool_calls}) for t in request.traces}
        return CoverMatrix(items=("read", "write"), tasks=tasks)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample package, installed by pip into a folder of its own."""
    target = tmp_path_factory.mktemp("site-packages")
    own = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *own]
    done = subprocess.run(
        [*command, "--target", str(target), str(PACKAGE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def cli(installed: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in a process of its own, where the package is installed."""

    def call(*words: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "metric_benchmark", *map(str, words)],
            env=os.environ | {"PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done

    return call


@pytest.fixture
def reading(tiny: Any, tmp_path: Path) -> Any:
    """The tiny experiment with an agent that writes trajectories and two metrics that are not ours."""
    (tiny.folder / "agent").mkdir()
    (tiny.folder / "agent" / "agent.py").write_text(AGENT)
    (tiny.folder / "asked.py").write_text(ASKED)
    tiny.edit("case.yaml", lambda c: c["baseline"].update(agent={"bundle": {"path": "agent"}, "entry": "agent:Reader"}))
    metrics = [
        {"name": "reads_per_file", "settings": {"tools": ["read", "cat"]}},
        {"name": "asked", "metric": "asked:Asked", "settings": {"log": str(tmp_path / "asked.log")}},
    ]
    tiny.edit("analysis.yaml", lambda a: a.update(coverage=metrics))
    tiny.sign()
    return tiny


def record(output: Path, name: str = "coverage") -> dict[str, Any]:
    return json.loads((output / "analysis" / "tiny" / f"{name}.json").read_text())


def test_command_line_dagster_and_replay_agree(
    reading: Any,
    cli: Callable[..., Any],
    installed: Path,
    make_shell: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = tmp_path / "first"
    cli("verify", reading.path)
    cli("run-experiment", reading.path, "--output", first)
    metrics = record(first)["metrics"]
    assert metrics["reads_per_file"]["tasks"] == {"one": ["one.txt"], "two": ["two.txt"]}
    assert metrics["reads_per_file"]["settings"] == {"attempts": "union", "tools": ["read", "cat"], "argument": "path"}
    assert {name: subset["coverage"] for name, subset in metrics["reads_per_file"]["subsets"].items()} == {
        "first": 0.5,
        "second": 0.5,
        "both": 1.0,
    }
    assert metrics["asked"]["tasks"] == {"one": ["read"], "two": ["read"]}
    assert (tmp_path / "asked.log").read_text() == "asked\n"

    # In Dagster, on the same trials and with no answer to recall.
    second = tmp_path / "out"
    shutil.copytree(first / "execution", second / "execution")
    for name in ("execution.json", "execution-inputs.json"):
        shutil.copy(first / name, second / name)
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("PYTHONPATH", str(installed))
    shell = make_shell(reading.path)
    assert shell.run("coverage", key="tiny").success
    assert comparable(record(second)) == comparable(record(first))
    assert (tmp_path / "asked.log").read_text() == "asked\nasked\n"

    # On a copy of the evidence in another place, whose original is gone, from answers alone.
    moved = tmp_path / "some where" / "else"
    shutil.copytree(first, moved)
    first.rename(tmp_path / "away")
    shutil.rmtree(moved / "analysis")
    again = tmp_path / "again"
    cli("run-experiment", reading.path, "--results", moved, "--output", again, "--replay")
    assert (tmp_path / "asked.log").read_text() == "asked\nasked\n"
    for name in ("coverage", "mutant-scores", "correlation"):
        assert comparable(record(again, name)) == comparable(record(tmp_path / "away", name))
    # An answer that was never given is not asked for.
    shutil.rmtree(moved / "coverage-cache")
    done = cli("run-experiment", reading.path, "--results", moved, "--output", tmp_path / "third", "--replay", status=6)
    assert "replay was asked for, but no answer" in done.stderr
    assert (tmp_path / "asked.log").read_text() == "asked\nasked\n"


def test_wrong_settings_are_refused_by_both(
    reading: Any,
    cli: Callable[..., Any],
    installed: Path,
    make_shell: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading.edit("analysis.yaml", lambda a: a["coverage"][0].update(settings={"tool": ["read"]}))
    reading.edit("analysis.yaml", lambda a: a["coverage"][1].update(settings={"log": 3}))
    done = cli("verify", reading.path, status=2)
    assert "settings.tool: unknown setting; did you mean tools?" in done.stderr
    assert "settings.log" in done.stderr
    cli("run-experiment", reading.path, "--output", reading.folder.parent / "out", status=2)
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("PYTHONPATH", str(installed))
    shell = make_shell(reading.path)
    assert shell.run("raw_results", key="tiny|baseline").success
    description = shell.failure(shell.run("coverage", key="tiny")).description
    assert "settings.tool: unknown setting; did you mean tools?" in description
