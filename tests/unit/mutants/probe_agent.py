# SPDX-License-Identifier: Apache-2.0
"""A small host-side agent for tests: runs the commands its instruction quotes, remembers what it saw, reports it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Agent, Observation, ObservationResult, Step, ToolCall, Trajectory


class ProbeAgent(BaseAgent):
    """Runs each `command` of its instruction; the last action writes how much it remembers into memory.txt.

    Args:
        swallow: goes on after an exception in an action.
        late_context: fills the context in populate_context_post_run only.
        cleanup: makes one more call when it ends.
    """

    capabilities = AgentCapabilities(atif=True, resume=True)

    def __init__(
        self, logs_dir: Path, swallow: bool = False, late_context: bool = False, cleanup: bool = False, **more: Any
    ) -> None:
        super().__init__(logs_dir, **more)
        self.swallow, self.late_context, self.cleanup = swallow, late_context, cleanup
        self.memory: list[str] = []
        self.steps: list[Step] = []

    @staticmethod
    @override
    def name() -> str:
        return "probe"

    @override
    def version(self) -> str:
        return "1"

    def forget(self, *, keep: int) -> None:
        del self.memory[: max(0, len(self.memory) - keep)]

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        await environment.exec("true")  # must never count as an action

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        self.steps = [Step(step_id=1, source="user", message=instruction)]
        try:
            for command in instruction.split("`")[1::2]:
                await self._act(command, environment)
            await self._act(f"echo {len(self.memory)} > memory.txt", environment)
        finally:
            if self.cleanup:
                await environment.exec("touch cleaned-up")
            self._write_trajectory()
            if not self.late_context:
                context.metadata = {"n_steps": len(self.steps)}

    @override
    async def resume(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await self.run(instruction, environment, context)

    @override
    def populate_context_post_run(self, context: AgentContext) -> None:
        context.metadata = {"n_steps": len(self.steps)}

    async def _act(self, command: str, environment: BaseEnvironment) -> None:
        try:
            result = await environment.exec(command)
        except Exception:
            if not self.swallow:
                raise
            return
        seen = f"{result.stdout or ''}{result.stderr or ''}"
        self.memory.append(seen)
        number = len(self.steps)
        self.steps.append(
            Step(
                step_id=number + 1,
                source="agent",
                message="",
                tool_calls=[ToolCall(tool_call_id=str(number), function_name="shell", arguments={"command": command})],
                observation=Observation(results=[ObservationResult(source_call_id=str(number), content=seen)]),
                extra={"return_code": result.return_code},
            )
        )

    def _write_trajectory(self) -> None:
        trajectory = Trajectory(session_id="s", agent=Agent(name="probe", version="1"), steps=self.steps)
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        (self.logs_dir / "trajectory.json").write_text(json.dumps(trajectory.to_json_dict()))


class ForgetlessAgent(BaseAgent):
    """An agent without the memory hook."""

    @staticmethod
    @override
    def name() -> str:
        return "forgetless"

    @override
    def version(self) -> str:
        return "1"

    @override
    async def setup(self, environment: BaseEnvironment) -> None: ...

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None: ...
