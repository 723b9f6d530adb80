# SPDX-License-Identifier: Apache-2.0
"""What an operator is: the base class with its hooks, and the call and observation they are given.

Free of Harbor, so that the catalogue can be read without it. An operator's randomness comes from
`Operator.random` alone: it depends on the operator's seed and on what the trial is about, never on task ids,
time or global state.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

Family = Literal["prompt", "tools", "observation", "memory", "control"]

#: What an operator needs of an agent: an instruction it reads, one `exec` call per action, command lines that say
#: what it does, observations it reacts to, or the memory hook of `metric_benchmark.mutants.hooks`.
Need = Literal["instruction", "calls", "commands", "observations", "memory"]


class Params(BaseModel):
    """The parameters of an operator: frozen, typed, unknown names refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NoParams(Params):
    """The parameters of an operator that has none."""


@dataclass(frozen=True)
class Call:
    """One action of the agent: its nth `exec` call in `run()`.

    Attributes:
        number: 1 for the first action of a run.
        command: the command line for the environment's shell.
        times: how often it is executed; the agent sees the last result.
    """

    number: int
    command: str
    times: int = 1


@dataclass(frozen=True)
class Observation:
    """What the agent is told about a call."""

    stdout: str | None
    stderr: str | None
    return_code: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but white space to read."""
        return not (self.stdout or "").strip() and not (self.stderr or "").strip()


@dataclass(frozen=True)
class Stop:
    """The agent's run ends here; the trial is graded on what was done so far."""

    reason: str


@dataclass(frozen=True)
class Firing:
    """One moment in which an operator changed something; `action` is 0 for an instruction or an upload."""

    action: int
    what: str


class Operator[P: Params]:
    """One fault, injected into one run of an agent. Subclasses override the hooks they need.

    A new instance is made for every run, so that attributes may hold the state of a run.
    """

    name: ClassVar[str]
    family: ClassVar[Family]
    fault: ClassVar[str]
    needs: ClassVar[Need]
    params_model: ClassVar[type[Params]]

    def __init__(self, params: P, seed: int = 0) -> None:
        self.params = params
        self.seed = seed
        self.fired: list[Firing] = []
        self._content = ""

    def begin(self, instruction: str) -> None:
        """Binds the operator's randomness to the trial's content."""
        self._content = hashlib.sha256(instruction.encode()).hexdigest()

    def random(self, *place: object) -> random.Random:
        """Returns a generator made from the seed, the instruction and `place`, e.g. an action's number."""
        return random.Random(":".join([str(self.seed), self._content, *map(str, place)]))

    def fire(self, action: int, what: str) -> None:
        """Notes that the operator changed something, so that an inert mutant can be told."""
        self.fired.append(Firing(action, what))

    def on_instruction(self, text: str) -> str:
        """Returns the instruction the agent is given."""
        return text

    def before_exec(self, call: Call) -> Call | Observation | Stop:
        """Returns the call to execute, or an answer that is given without executing anything, or a stop."""
        return call

    def after_exec(self, call: Call, seen: Observation) -> Observation | Stop:
        """Returns what the agent sees of an executed call, or a stop."""
        return seen

    def after_action(self, call: Call, agent: Any) -> None:
        """Is called when an action is over, just before the agent sees its observation."""

    def on_upload(self, target: str, content: bytes) -> bytes:
        """Returns the content of a file that the agent uploads into the environment."""
        return content


def answer(message: str, return_code: int) -> Observation:
    """Returns what a shell says when it fails: a message on standard error and a return code."""
    return Observation(stdout="", stderr=message + "\n", return_code=return_code)
