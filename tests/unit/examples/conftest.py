# SPDX-License-Identifier: Apache-2.0
"""The example agents, and a folder that stands for a task's container so that they can be rehearsed without one."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext

from metric_benchmark.execution.agents import load_entry
from metric_benchmark.hashing import digest_folder
from metric_benchmark.mutants.agent import mutate

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="session")
def examples() -> Path:
    return EXAMPLES


@pytest.fixture(scope="session")
def clerk() -> type[Any]:
    return agent_class("bundled", "agent:ClerkAgent")


@pytest.fixture(scope="session")
def intern() -> type[Any]:
    return agent_class("noisy", "agent:InternAgent")


def agent_class(example: str, entry: str) -> type[Any]:
    bundle = EXAMPLES / example / "agent"
    return load_entry(str(bundle), digest_folder(bundle), entry)


class Folder:
    """A folder with a shell: all an agent that uses relative paths needs of an environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[str] = []

    async def exec(self, command: str, **_: Any) -> ExecResult:
        self.commands.append(command)
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=self.folder,
            stdout=-1,
            stderr=-1,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
        out, err = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)


@dataclass(frozen=True)
class Rehearsal:
    """What one agent did in one task's folder."""

    passed: bool
    trajectory: dict[str, Any]

    @property
    def observations(self) -> list[tuple[str, int]]:
        steps = self.trajectory["steps"][1:]
        return [(s["observation"]["results"][0]["content"], s["extra"]["return_code"]) for s in steps]


@pytest.fixture(scope="session")
def rehearse():
    """Runs an agent in a copy of a task's files and grades it with the task's own test."""

    async def run(
        agent: type[Any], task: Path, where: Path, operator: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Rehearsal:
        app, tests, logs = where / "app", where / "tests", where / "logs"
        shutil.copytree(task / "environment", app)
        shutil.copytree(task / "tests", tests)
        (logs / "verifier").mkdir(parents=True)
        actor = agent(logs_dir=logs, **kwargs)
        actor.session_id = "rehearsal"
        if operator:
            actor = mutate(actor, label="mutant", operator=operator)
        environment: Any = Folder(app)
        await actor.setup(environment)
        await actor.run((task / "instruction.md").read_text(), environment, AgentContext())
        script = (tests / "test.sh").read_text()
        for path in ("/app", "/tests", "/logs"):
            script = script.replace(f" {path}", f" {where}{path}").replace(f"< {path}", f"< {where}{path}")
        grading = await asyncio.create_subprocess_exec("bash", "-c", script, stdout=-1, stderr=-1)
        await grading.communicate()
        reward = (logs / "verifier" / "reward.txt").read_text().strip()
        return Rehearsal(reward == "1", json.loads((logs / "trajectory.json").read_text()))

    return run
