# SPDX-License-Identifier: Apache-2.0
"""Finds out before any trial whether every variant can run, in one child process; remembers what it found sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from metric_benchmark.config.models import ExecutionConfig
from metric_benchmark.errors import ConfigError, ExecutionError
from metric_benchmark.execution.child import HarborChild, job_config
from metric_benchmark.execution.refusals import Refusal
from metric_benchmark.execution.runtimes import Runtime, ensure_runtime, made_runtime
from metric_benchmark.execution.variant import Variant
from metric_benchmark.execution.worker import JobRequest
from metric_benchmark.hashing import digest_json

#: (environment, task digest) of tasks that this process checked, or ran a job of: Harbor accepts them.
_sound_tasks: set[tuple[str, str]] = set()
#: What this process made once: agents in an environment.
_sound_agents: set[str] = set()


@dataclass(frozen=True)
class Refused:
    """Why a variant cannot run; `task` is the id of the task it is about."""

    variant: Variant
    about: Literal["agent", "task", "environment"]
    message: str
    task: str | None = None


def unchecked_tasks(variant: Variant, tasks: set[str]) -> tuple[str, ...]:
    """Returns the folders of those tasks of a variant that this process knows nothing of."""
    environment = _environment(variant)
    return tuple(
        str(task.path) for task in variant.tasks if task.id in tasks and (environment, task.sha256) not in _sound_tasks
    )


def note_tasks(variant: Variant, tasks: set[str]) -> None:
    """Remembers that Harbor accepts these tasks of a variant."""
    environment = _environment(variant)
    _sound_tasks.update((environment, task.sha256) for task in variant.tasks if task.id in tasks)


def check_variants(variants: Sequence[Variant], settings: ExecutionConfig, *, to_run: bool = True) -> list[Refused]:
    """Makes every agent and loads every task once, and returns all that is refused; writes nothing to the evidence.

    Variants that differ in neither are checked once: the first of them is named.

    Args:
        variants: what shall run.
        settings: how.
        to_run: whether trials follow: then runtimes are made, and the environment must work here. Else an agent whose
            runtime was never made is not looked at.

    Raises:
        ExecutionError: Harbor cannot be asked, or a runtime's packages cannot be installed.
    """
    found: list[Refused] = []
    todo = [variant for variant in _distinct(variants) if _needs_check(variant)]
    own = [variant for variant in todo if variant.runtime is not None]
    found += _check([variant for variant in todo if variant.runtime is None], settings, None, to_run=to_run)
    for runtime, group in groupby(own, key=lambda variant: variant.runtime):
        assert runtime is not None
        same = list(group)
        try:
            python = _python(runtime, to_run=to_run)
        except ConfigError as error:
            found += [Refused(same[0], "agent", problem.message) for problem in error.problems]
            continue
        if python is not None:
            found += _check(same, settings, python, to_run=to_run)
    return found


def request_for(
    variant: Variant,
    settings: ExecutionConfig,
    *,
    jobs_dir: Path,
    run: str,
    attempts: int,
    task_paths: list[str],
    check: tuple[str, ...],
    variables: dict[str, str],
) -> JobRequest:
    """Returns the request for a job of a variant."""
    timeouts = settings.timeouts
    return JobRequest(
        job=job_config(
            jobs_dir=jobs_dir,
            run=run,
            attempts=attempts,
            task_paths=task_paths,
            agent=dict(variant.agent),
            environment=dict(variant.environment.harbor),
            concurrency=settings.concurrency,
            multipliers={
                "agent": timeouts.agent_multiplier,
                "verifier": timeouts.verifier_multiplier,
                "setup": timeouts.setup_multiplier,
            },
        ),
        timeout_s=timeouts.job_s,
        reward_key=settings.reward_key,
        sandbox=variant.environment.kind == "local",
        check=check,
        variables=variables,
    )


def _check(
    variants: Sequence[Variant], settings: ExecutionConfig, python: Path | None, *, to_run: bool
) -> Iterator[Refused]:
    asked_environments: set[str] = set()
    child: HarborChild | None = None
    try:
        for variant in variants:
            child = child or HarborChild(python=python)
            environment = _environment(variant)
            tasks = {task.id for task in variant.tasks}
            request = request_for(
                variant,
                settings,
                jobs_dir=Path("unused"),
                run="check",
                attempts=1,
                task_paths=[str(task.path) for task in variant.tasks],
                check=unchecked_tasks(variant, tasks),
                variables={},
            ).model_copy(update={"check_environment": to_run and environment not in asked_environments})
            try:
                refusals = child.check(request)
            except ExecutionError as error:
                # An agent that takes the whole process with it; the others are checked in a new one.
                refusals = [Refusal(about="agent", message=f"the process ends while the agent is made: {error}")]
                with suppress(OSError):
                    child.close()
                child = None
            else:
                asked_environments.add(environment)
            yield from _note(variant, refusals, tasks)
    finally:
        if child is not None:
            child.close()


def _note(variant: Variant, refusals: Sequence[Refusal], tasks: set[str]) -> Iterator[Refused]:
    ids = {str(task.path): task.id for task in variant.tasks}
    for refusal in refusals:
        yield Refused(variant, refusal.about, refusal.message, ids.get(refusal.task or ""))
    if not refusals:
        _sound_agents.add(_agent(variant))
        note_tasks(variant, tasks)


def _needs_check(variant: Variant) -> bool:
    return _agent(variant) not in _sound_agents or bool(unchecked_tasks(variant, {task.id for task in variant.tasks}))


def _distinct(variants: Sequence[Variant]) -> list[Variant]:
    """Leaves out controls and the like, which are the baseline's agent on the baseline's tasks."""
    first: dict[str, Variant] = {}
    for variant in variants:
        first.setdefault(digest_json([_agent(variant), variant.case_id]), variant)
    return list(first.values())


def _agent(variant: Variant) -> str:
    runtime = None if variant.runtime is None else dict(variant.runtime.identity)
    return digest_json([dict(variant.agent), _environment(variant), runtime])


def _environment(variant: Variant) -> str:
    return digest_json(dict(variant.environment.identity))


def _python(runtime: Runtime, *, to_run: bool) -> Path | None:
    return ensure_runtime(runtime) if to_run else made_runtime(runtime)
