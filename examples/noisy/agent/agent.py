# SPDX-License-Identifier: Apache-2.0
"""The intern: a host-side agent that now and then misreads a value; its slips can be replayed.

Harbor tells an agent no attempt number. What differs between the attempts of one task is the session id, which ends in
random letters. So each trial draws from a generator seeded with `seed` and the session id: attempts differ, and a trial
can be repeated from its trajectory, which records both.
"""

from __future__ import annotations

import json
import random
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import (
    Agent,
    FinalMetrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_STEPS = {
    "read": re.compile(r"read `([^`]+)`", re.IGNORECASE),
    "read_named": re.compile(r"read the file it names()", re.IGNORECASE),
    "read_all": re.compile(r"read every file in `([^`]+)`", re.IGNORECASE),
    "search": re.compile(r"search `([^`]+)` for `([^`]+)`", re.IGNORECASE),
    "take": re.compile(r"take the `([^`]+)`", re.IGNORECASE),
    "add_up": re.compile(r"add up every `([^`]+)`", re.IGNORECASE),
    "count": re.compile(r"count the lines()", re.IGNORECASE),
    "write": re.compile(r"write the result to `([^`]+)`", re.IGNORECASE),
}
_COMMANDS = {
    "read_file": "cat {path}",
    "list_dir": "ls -1 {path}",
    "search": "grep -F {pattern} {path}",
    "write_file": "printf '%s\\n' {content} > {path}",
}


class InternAgent(BaseAgent):
    """Does what the sentences of its instruction say, one tool call at a time.

    Args:
        slip: probability that a value taken from what was seen is misread.
        seed: with the session id, seeds a trial's slips.
    """

    capabilities = AgentCapabilities(atif=True)

    def __init__(self, logs_dir: Path, slip: float = 0.005, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(logs_dir, **kwargs)
        self._slip = slip
        self._seed = seed
        self._steps: list[Step] = []

    @staticmethod
    @override
    def name() -> str:
        return "intern"

    @override
    def version(self) -> str:
        return "1.0"

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        """Needs nothing installed."""

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        rng = random.Random(f"{self._seed}:{self.session_id}")
        self._steps = [Step(step_id=1, source="user", message=instruction, timestamp=_now())]
        try:
            await self._work(instruction, environment, rng)
        finally:
            self._save()
            context.n_input_tokens = context.n_output_tokens = 0

    async def _work(self, instruction: str, environment: BaseEnvironment, rng: random.Random) -> None:
        seen, result = "", ""
        for sentence in _SENTENCE_END.split(instruction.strip()):
            for verb, pattern in _STEPS.items():
                match = pattern.search(sentence)
                if match is None:
                    continue
                match verb:
                    case "read":
                        seen = await self._use(environment, "read_file", path=match[1])
                    case "read_named":
                        seen = await self._use(environment, "read_file", path=result)
                    case "read_all":
                        names = (await self._use(environment, "list_dir", path=match[1])).split()
                        texts = [await self._use(environment, "read_file", path=f"{match[1]}/{n}") for n in names]
                        seen = "\n".join(texts)
                    case "search":
                        seen = await self._use(environment, "search", path=match[1], pattern=match[2])
                    case "take":
                        result = self._misread((_values(seen, match[1]) or [""])[0], rng)
                    case "add_up":
                        result = str(sum(_number(self._misread(v, rng)) for v in _values(seen, match[1])))
                    case "count":
                        result = self._misread(str(len(seen.splitlines())), rng)
                    case _:
                        await self._use(environment, "write_file", path=match[1], content=result)

    def _misread(self, value: str, rng: random.Random) -> str:
        """Returns the value, or now and then the value with another last character."""
        if not value or rng.random() >= self._slip:
            return value
        wrong = rng.choice([c for c in "0123456789" if c != value[-1]])
        return value[:-1] + wrong

    async def _use(self, environment: BaseEnvironment, tool: str, **arguments: str) -> str:
        quoted = {name: shlex.quote(value) for name, value in arguments.items()}
        result = await environment.exec(_COMMANDS[tool].format(**quoted))
        call = f"call-{len(self._steps)}"
        self._steps.append(
            Step(
                step_id=len(self._steps) + 1,
                source="agent",
                message="",
                timestamp=_now(),
                llm_call_count=0,
                tool_calls=[ToolCall(tool_call_id=call, function_name=tool, arguments=dict(arguments))],
                observation=Observation(results=[ObservationResult(source_call_id=call, content=result.stdout or "")]),
                extra={"return_code": result.return_code},
            )
        )
        return result.stdout or "" if result.return_code == 0 else ""

    def _save(self) -> None:
        trajectory = Trajectory(
            session_id=self.session_id,
            agent=Agent(name=self.name(), version=self.version(), extra={"slip": self._slip, "seed": self._seed}),
            steps=self._steps,
            final_metrics=FinalMetrics(total_steps=len(self._steps)),
        )
        path = self.logs_dir / "trajectory.json"
        path.write_text(json.dumps(trajectory.to_json_dict(), indent=1), encoding="utf-8")


def _values(text: str, key: str) -> list[str]:
    return re.findall(rf"^{re.escape(key)}: *(.+?) *$", text, re.MULTILINE)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _now() -> str:
    return datetime.now(UTC).isoformat()
