# SPDX-License-Identifier: Apache-2.0
"""The clerk as a Harbor agent: a host-side, deterministic policy; no model, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

from .memory import Memory, Observation, lines_of
from .plan import make_plan
from .policy import Clerk
from .tools import NOT_FOUND, PAGE_LINES, Arguments, commands
from .trajectory import Recorder


class ClerkAgent(BaseAgent):
    """Reads its instruction, looks around with tools, writes down what was asked for.

    Every tool call is one `environment.exec`, so an environment that lies, forgets or refuses changes what the
    agent does next, and nothing else does.
    """

    capabilities = AgentCapabilities(atif=True)

    def __init__(self, logs_dir: Path, **kwargs: Any) -> None:
        super().__init__(logs_dir, **kwargs)
        self._memory = Memory()

    @staticmethod
    @override
    def name() -> str:
        return "clerk"

    @override
    def version(self) -> str:
        return "1.0"

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        """Needs nothing installed."""

    def forget(self, *, keep: int) -> None:
        """Drops all but the `keep` most recent observations (the hook of memory mutants)."""
        self._memory.forget(keep)

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        recorder = Recorder(self.name(), self.version(), self.session_id, instruction)

        async def use(tool: str, **arguments: str | int | bool) -> Observation:
            return await self._use(environment, recorder, tool, arguments)

        clerk = Clerk(use, self._memory)
        plan = make_plan(instruction)
        try:
            for number, step in enumerate(plan):
                after = plan[number + 1] if number + 1 < len(plan) else None
                recorder.purpose = step.sentence
                await clerk.do(step, after.target if after and after.verb == "fallback" else "")
        finally:
            # Also when the trial is cancelled half-way: what was done is evidence.
            recorder.save(self.logs_dir / "trajectory.json")
            context.n_input_tokens = context.n_output_tokens = 0
            context.metadata = {"n_actions": recorder.n_calls}

    async def _use(
        self, environment: BaseEnvironment, recorder: Recorder, tool: str, arguments: Arguments
    ) -> Observation:
        """Calls a tool; while its program is missing, tries the next way to do the same."""
        subject = str(arguments.get("path") or arguments.get("command") or arguments.get("name"))
        first = int(arguments.get("start", 1))
        seen = Observation(tool, subject, "", NOT_FOUND)
        for command in commands(tool, arguments):
            result = await environment.exec(command)
            text = "\n".join(t.rstrip("\n") for t in (result.stdout, result.stderr) if t)
            lines = lines_of(tool, subject, text, first)
            more = tool == "read_file" and "tail" not in arguments and len(lines) == PAGE_LINES
            seen = Observation(tool, subject, text, result.return_code, lines, more)
            recorder.add(tool, dict(arguments), text, result.return_code)
            self._memory.add(seen)
            if result.return_code != NOT_FOUND or tool == "run":
                break
        if tool in ("write_file", "move_file"):
            self._memory.outdate(subject)
        return seen
