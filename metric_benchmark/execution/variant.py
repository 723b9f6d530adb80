# SPDX-License-Identifier: Apache-2.0
"""One variant as stage 1 is given it: an agent, tasks, attempts, and the trial keys that decide what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metric_benchmark.execution.environments import Environment
from metric_benchmark.execution.runtimes import Runtime
from metric_benchmark.records.execution import Role


@dataclass(frozen=True)
class Task:
    """One task of a variant."""

    id: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class Variant:
    """One agent configuration to run on a case's tasks.

    Attributes:
        agent: fields of Harbor's `AgentConfig`, with paths of this machine.
        trial_keys: by task id.
        operator: the operator's name, for mutants.
        runtime: the environment the agent's bundle asks for; None where it runs in ours.
        parts: digests of what of the trial keys is the agent's or the settings', by name; they tell what has changed.
    """

    case_id: str
    variant_id: str
    role: Role
    attempts: int
    operator: str | None
    agent: Mapping[str, Any]
    tasks: tuple[Task, ...]
    trial_keys: Mapping[str, str]
    config_hash: str
    environment: Environment
    runtime: Runtime | None = None
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> str:
        """The variant's partition key."""
        return f"{self.case_id}|{self.variant_id}"

    @property
    def inputs(self) -> dict[str, str]:
        """What a record of the variant names as its inputs: its parts and the pins of its tasks."""
        return {**self.parts, **{f"task:{task.id}": task.sha256 for task in self.tasks}}

    @property
    def n_trials(self) -> int:
        """How many trials the variant asks for."""
        return self.attempts * len(self.tasks)
