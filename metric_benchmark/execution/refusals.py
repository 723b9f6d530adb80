# SPDX-License-Identifier: Apache-2.0
"""Says in the child process why a job cannot run: agents that cannot be made, tasks Harbor or the sandbox refuses."""

from __future__ import annotations

import importlib
import os
import tempfile
import traceback
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from metric_benchmark.config.fields import REFERENCE
from metric_benchmark.keys import MUTANT_AGENT

#: Whatever the code of an agent, or of Harbor, may raise; signals do not come as exceptions in the child.
ANYTHING = (Exception, SystemExit, KeyboardInterrupt)


class Refusal(BaseModel):
    """One reason; `task` is the folder of the task it is about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: Literal["agent", "task", "environment"]
    message: str
    task: str | None = None

    def __str__(self) -> str:
        return f"task {self.task}: {self.message}" if self.task else self.message


async def refusals(config: Any, check: frozenset[str], *, sandbox: bool) -> list[Refusal]:
    """Returns why this job cannot run; checked beforehand because Harbor cancels all trials when one cannot be created.

    Args:
        config: Harbor's `JobConfig`.
        check: the task folders nobody checked before; creating a trial costs about 50 ms. The agent is made for the
            first task that is sound in any case.
        sandbox: whether trials run in the local sandbox.
    """
    with tempfile.TemporaryDirectory(prefix="mb-check-") as scratch:
        return await _refusals(config, check, Path(scratch), sandbox=sandbox)


async def _refusals(config: Any, check: frozenset[str], scratch: Path, *, sandbox: bool) -> list[Refusal]:
    found = _declared(config)
    agent = config.agents[0]
    is_made = bool(found)
    for task in config.tasks:
        if is_made and str(task.path) not in check:
            continue
        if sandbox:
            from metric_benchmark.execution.sandbox import check_task

            reasons = check_task(Path(task.path), config.environment.kwargs)
            if reasons:
                found += [Refusal(about="task", task=str(task.path), message=reason) for reason in reasons]
                continue
        refusal = await _create(config, task, None if found and is_made else agent, scratch)
        if refusal is not None and refusal.about == "agent":
            found.append(refusal)
            is_made = True
            refusal = await _create(config, task, None, scratch)
        if refusal is not None:
            found.append(refusal)
            continue
        is_made = True
    return list(dict.fromkeys(found))


def preflight(config: Any, *, agents: bool, environment: bool) -> list[Refusal]:
    """Asks what Harbor asks before a job: an agent's credentials; and whether the environment works here at all."""
    from harbor.agents.factory import AgentFactory
    from harbor.environments.factory import EnvironmentFactory

    found: list[Refusal] = []
    for agent in config.agents if agents else ():
        try:
            AgentFactory.run_preflight(agent)
        except ANYTHING as error:
            found.append(Refusal(about="agent", message=_told(error)))
    if environment:
        try:
            EnvironmentFactory.run_preflight(
                type=config.environment.type,
                import_path=config.environment.import_path,
                kwargs=config.environment.kwargs,
            )
        except ANYTHING as error:
            found.append(Refusal(about="environment", message=_told(error)))
    return found


async def _create(config: Any, task: Any, agent: Any, scratch: Path) -> Refusal | None:
    """Makes a trial of a task, without an agent that is known to be broken."""
    from harbor.models.trial.config import AgentConfig, TrialConfig
    from harbor.trial.trial import Trial

    trial = TrialConfig(
        task=task,
        trials_dir=scratch,
        agent=agent or AgentConfig(name="nop"),
        environment=config.environment,
    )
    try:
        await Trial.create(trial)
    except ANYTHING as error:
        frames = traceback.extract_tb(error.__traceback__)
        if any(frame.filename.endswith("harbor/agents/factory.py") for frame in frames):
            return Refusal(about="agent", message=f"the agent cannot be made: {_told(error)}")
        return Refusal(about="task", task=str(task.path), message=_told(error))
    return None


def _told(error: BaseException) -> str:
    if isinstance(error, SystemExit) and isinstance(error.code, str):
        return error.code
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return f"its code ends the process ({type(error).__name__}{f' {error}' if str(error) else ''})"
    return f"{type(error).__name__}: {error}"


def _declared(config: Any) -> list[Refusal]:
    """Looks at what an agent's configuration says: variables it refers to, an operator that cannot act on it."""
    problems: list[str] = []
    for agent in config.agents:
        unset = sorted(
            _references(agent.model_dump(mode="json", context={"redact_sensitive_env": False})) - set(os.environ)
        )
        problems += [f"environment variable {name} is not set, but the agent's `env` refers to it" for name in unset]
        if agent.import_path == MUTANT_AGENT:
            module = importlib.import_module(MUTANT_AGENT.partition(":")[0])
            try:
                problems += module.refusal_for({"import_path": agent.import_path, "kwargs": agent.kwargs})
            except ANYTHING as error:
                problems.append(f"the agent cannot be made: {_told(error)}")
    return [Refusal(about="agent", message=problem) for problem in problems]


def _references(value: Any) -> set[str]:
    """Returns the variables named as `${VAR}` in an agent's configuration, that of a wrapped agent included."""
    if isinstance(value, dict):
        return {name for child in value.values() for name in _references(child)}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return {name for child in value for name in _references(child)}  # pyright: ignore[reportUnknownVariableType]
    match = REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return {match.group(1)} if match else set()
