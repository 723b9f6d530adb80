# SPDX-License-Identifier: Apache-2.0
"""A mutated agent on a folder of this machine: what an operator does to a run, without Harbor's job machinery."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext

from metric_benchmark.mutants.agent import MutantAgent

HERE = Path(__file__).parent
PROBE = {"import_path": "probe_agent:ProbeAgent"}


@dataclass
class FolderEnvironment:
    """Runs commands with bash in a folder; knows what was executed."""

    folder: Path
    executed: list[str] = field(default_factory=list)

    async def exec(self, command: str, cwd: str | None = None, **_: Any) -> ExecResult:
        self.executed.append(command)
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", command, cwd=cwd or self.folder, stdout=-1, stderr=-1, stdin=asyncio.subprocess.DEVNULL
        )
        out, err = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copy(source_path, self.folder / target_path)


@dataclass
class Ran:
    """A run's trace, its effects, and what the operator says of itself."""

    steps: list[dict[str, Any]]
    executed: list[str]
    folder: Path
    metadata: dict[str, Any]
    logs: Path
    agent: Any

    @property
    def trace(self) -> list[tuple[str, str, int]]:
        """Command, observation and return code of each action."""
        return [
            (
                step["tool_calls"][0]["arguments"]["command"],
                step["observation"]["results"][0]["content"],
                step["extra"]["return_code"],
            )
            for step in self.steps[1:]
        ]

    @property
    def seen(self) -> list[str]:
        return [observation for _, observation, _ in self.trace]

    @property
    def instruction(self) -> str:
        return self.steps[0]["message"]

    @property
    def fired(self) -> int:
        return self.metadata["mutation"]["fired"]

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


Runner = Callable[..., Ran]


@pytest.fixture
def run_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Runs the probe agent on an instruction, bare or under an operator, in a fresh folder each time."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("HARBOR_TELEMETRY", "0")
    monkeypatch.syspath_prepend(str(HERE))
    count = 0

    def run(
        instruction: str,
        operator: str | None = None,
        params: dict[str, Any] | None = None,
        *,
        seed: int = 0,
        files: dict[str, str] | None = None,
        agent: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Ran:
        nonlocal count
        count += 1
        folder, logs = tmp_path / f"{count}-files", tmp_path / f"{count}-logs"
        folder.mkdir()
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        run.environment = environment = FolderEnvironment(folder)  # type: ignore[attr-defined]
        inner = agent or {**PROBE, "kwargs": kwargs}
        made: Any
        if operator is None:
            made = sys.modules.get("probe_agent") or __import__("probe_agent")
            made = made.ProbeAgent(logs, **kwargs)
        else:
            made = MutantAgent(
                logs, label="m1", operator={"name": operator, "params": params or {}, "seed": seed}, agent=inner
            )
        context = AgentContext()

        async def trial() -> None:
            await made.setup(environment=environment)
            await made.run(instruction=instruction, environment=environment, context=context)
            if context.is_empty():
                made.populate_context_post_run(context)

        asyncio.run(trial())
        trajectory = logs / "trajectory.json"
        steps = json.loads(trajectory.read_text())["steps"] if trajectory.exists() else []
        return Ran(steps, environment.executed[1:], folder, context.metadata or {}, logs, made)

    return run
