# SPDX-License-Identifier: Apache-2.0
"""An agent of your own goes here: this one runs errands with four tools, without a model.

To bring your own: keep the class's shape (it is Harbor's `BaseAgent`), put your code beside it (modules of this folder
import each other relatively: `from .policy import Policy`), name it under `baseline.agent.entry` in case.yaml, and run
`metric-benchmark sign`. The folder is pinned by its digest: trials of another version are never mixed in.

What mutation operators need of an agent:
- it acts by `environment.exec`, one call per action, so that an operator can count, refuse or falsify actions;
- it writes a trajectory (ATIF), so that coverage metrics can see what it did;
- for `memory_amnesia`, it has a method `forget(*, keep)`.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Agent, Observation, ObservationResult, Step, ToolCall, Trajectory

#: What each tool runs in the task's environment.
TOOLS = {
    "read_file": "cat {path}",
    "search": "grep -rh {text} {path}",
    "run": "{command}",
    "write_file": "printf '%s\\n' {text} > {path}",
}
#: The sentences it understands, and the tool each asks for. A model would go here.
SENTENCES = (
    (re.compile(r"Read `(?P<path>[^`]+)`"), "read_file"),
    (re.compile(r"Read the file that `(?P<key>[^`]+)` names"), "read_file"),
    (re.compile(r"Search `(?P<path>[^`]+)` for `(?P<text>[^`]+)`"), "search"),
    (re.compile(r"Run `(?P<command>[^`]+)`"), "run"),
    (re.compile(r"Write (?P<keys>.+?) to `(?P<path>[^`]+)`"), "write_file"),
)


class ErrandAgent(BaseAgent):
    """Does what its instruction says, sentence by sentence, and remembers what it has seen."""

    capabilities = AgentCapabilities(atif=True)

    def __init__(self, logs_dir: Path, **kwargs: Any) -> None:
        super().__init__(logs_dir, **kwargs)
        self._seen: list[str] = []
        self._steps: list[Step] = []

    @staticmethod
    @override
    def name() -> str:
        return "errands"

    @override
    def version(self) -> str:
        return "1"

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        """Needs nothing installed in the environment."""

    def forget(self, *, keep: int) -> None:
        """Drops all but the `keep` most recent observations; `memory_amnesia` calls this between two actions."""
        self._seen = self._seen[len(self._seen) - keep :] if keep else []

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        self._steps = [Step(step_id=1, source="user", message=instruction)]
        try:
            for sentence in re.split(r"(?<=\.)\s+", instruction.strip()):
                for pattern, tool in SENTENCES:
                    if match := pattern.search(sentence):
                        await self._act(environment, tool, match.groupdict())
        finally:
            # Also when the trial is cancelled: what was done so far is evidence.
            agent = Agent(name=self.name(), version=self.version())
            trajectory = Trajectory(session_id=self.session_id, agent=agent, steps=self._steps)
            (self.logs_dir / "trajectory.json").write_text(json.dumps(trajectory.to_json_dict(), indent=1))

    async def _act(self, environment: BaseEnvironment, tool: str, arguments: dict[str, str]) -> None:
        """Calls one tool, remembers what it showed, and records both."""
        if "key" in arguments:
            arguments = {"path": self._value(arguments["key"])}
        if "keys" in arguments:
            keys = re.findall(r"`([^`]+)`", arguments["keys"])
            arguments = {"text": "\n".join(self._value(key) for key in keys), "path": arguments["path"]}
        quoted = {name: value if name == "command" else shlex.quote(value) for name, value in arguments.items()}
        result = await environment.exec(TOOLS[tool].format(**quoted))
        shown = (result.stdout or "") + (result.stderr or "")
        self._seen.append(shown)
        number = len(self._steps) + 1
        self._steps.append(
            Step(
                step_id=number,
                source="agent",
                message="",
                tool_calls=[ToolCall(tool_call_id=f"call-{number}", function_name=tool, arguments=arguments)],
                observation=Observation(results=[ObservationResult(source_call_id=f"call-{number}", content=shown)]),
            )
        )

    def _value(self, key: str) -> str:
        """Returns what stands behind `key:` in what it has seen, the newest first."""
        for text in reversed(self._seen):
            if found := re.findall(rf"^\W*{re.escape(key)}\s*[:=]\s*(.+)$", text, re.MULTILINE):
                return found[-1].strip()
        return "unknown"
