# SPDX-License-Identifier: Apache-2.0
"""Decides whether a task can run in the sandbox, and how its environment is built there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from harbor.environments.snowflake.dockerfile_replay import (
    CopyStep,
    ReplayPlan,
    RunStep,
    UnsupportedDockerfileError,
    plan_from_dockerfile,
)
from harbor.models.task.config import EnvironmentConfig, NetworkMode, TaskOS
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import resolve_verifier_environment_definition

from metric_benchmark.execution.sandbox.options import SandboxOptions, base_problem

_HEREDOC = re.compile(r"^\s*(?:RUN|COPY|ADD)\b[^\n]*(?<!<)<<(?!<)-?\s*[\"']?[A-Za-z_]", re.IGNORECASE | re.MULTILINE)
_INSTALL = re.compile(r"\b(?:apt|apt-get|aptitude)\s+(?:-\S+\s+)*(?:update|install|upgrade)\b")
_COMPOSE_FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")


def only_root() -> bool:
    """Whether sandboxes started by this process know no user but root (their owner is an ordinary user)."""
    if os.geteuid() != 0:
        return True
    counts = [int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return sum(counts) <= 1


def plan_environment(folder: Path, docker_image: str | None, *, force_build: bool = False) -> ReplayPlan:
    """The base image and the steps that build a task's environment.

    Raises:
        UnsupportedDockerfileError: the Dockerfile needs what a replay cannot do.
        FileNotFoundError: there is nothing to build from.
    """
    dockerfile = folder / "Dockerfile"
    if docker_image and not (force_build and dockerfile.exists()):
        return ReplayPlan(base_image=docker_image)
    if not dockerfile.exists():
        raise FileNotFoundError(f"{folder} has no Dockerfile and the task names no docker_image")
    if _HEREDOC.search(dockerfile.read_text(encoding="utf-8", errors="replace")):
        raise UnsupportedDockerfileError("the Dockerfile has a heredoc: write it as a file and COPY it")
    return plan_from_dockerfile(dockerfile)


def environment_problems(
    folder: Path,
    config: EnvironmentConfig,
    options: SandboxOptions,
    *,
    users: Iterable[str | int | None] = (),
    force_build: bool = False,
) -> list[str]:
    """Why an environment cannot be built or kept in the sandbox.

    Args:
        folder: the ``environment/`` folder (or the verifier's own).
        config: the environment section of ``task.toml``.
        options: the sandbox's options.
        users: who will run commands in it, besides the Dockerfile's own users.
        force_build: whether the Dockerfile is preferred to a prebuilt image.
    """
    problems = [
        f"{name}: services next to the task's own container are not supported"
        for name in _COMPOSE_FILES
        if (folder / name).exists()
    ]
    if config.gpus:
        problems.append(f"the task needs {config.gpus} GPU(s); the sandbox has none to give")
    if config.tpu is not None:
        problems.append("the task needs a TPU; the sandbox has none to give")
    if config.os != TaskOS.LINUX:
        problems.append(f"the task is made for {config.os.value}; the sandbox is Linux")
    try:
        plan = plan_environment(folder, config.docker_image, force_build=force_build)
    except (UnsupportedDockerfileError, FileNotFoundError, ValueError) as error:
        return problems or [str(error)]
    base = options.base_for(plan.base_image)
    if problem := base_problem(plan.base_image, base):
        problems.append(problem)
    if base == "host" and (step := _first_install(plan)):
        problems.append(
            f"RUN {step} installs packages, and the base 'host' has no package index: map the image to an unpacked "
            "root file system, or use the docker environment"
        )
    if plan.entrypoint:
        problems.append("ENTRYPOINT is not supported: nothing is started but the commands themselves")
    if (folder / ".dockerignore").exists() and any(isinstance(step, CopyStep) for step in plan.steps):
        problems.append(".dockerignore is not supported: COPY would take what it excludes")
    return problems + _user_problems([*users, *plan_users(plan)])


def _first_install(plan: ReplayPlan) -> str | None:
    runs = [step.command for step in plan.steps if isinstance(step, RunStep)]
    return next((command for command in runs if _INSTALL.search(command)), None)


def plan_users(plan: ReplayPlan) -> list[str | None]:
    """Every user a Dockerfile mentions."""
    users: list[str | None] = [plan.user]
    for step in plan.steps:
        users.append(step.user if isinstance(step, RunStep) else step.chown)
    return users


def is_root(user: str | int | None) -> bool:
    """Whether ``user`` (of a task, a Dockerfile or a command) is the superuser."""
    return user is None or str(user).partition(":")[0] in ("", "root", "0")


def _user_problems(users: Iterable[str | int | None]) -> list[str]:
    if not only_root():
        return []
    return [user_problem(user) for user in dict.fromkeys(str(user) for user in users if not is_root(user))]


def user_problem(user: str | int | None) -> str:
    """What to say when a user is wanted that does not exist in an ordinary user's sandbox."""
    return (
        f"user {str(user)!r} is needed, but the sandbox of an ordinary user knows only root: "
        "run as root, or use the docker environment"
    )


def check_task(task_dir: Path | str, options: Mapping[str, object] | SandboxOptions | None = None) -> list[str]:
    """Every reason why a task cannot run in the sandbox; none means it can.

    Call it before a Harbor job is made: a refusal inside a job counts as a failed trial, or ends the job.

    Args:
        task_dir: a Harbor task folder.
        options: the sandbox's keyword arguments as in the configuration.
    """
    if not isinstance(options, SandboxOptions):
        options = SandboxOptions.model_validate(options or {})
    try:
        task = Task(task_dir=Path(task_dir))
    except Exception as error:  # noqa: BLE001 - whatever Harbor raises, it cannot run this task
        return [f"Harbor cannot read the task: {error}"]
    config = task.config
    steps = config.steps or []
    users = [config.agent.user, config.verifier.user]
    users += [user for step in steps for user in (step.agent.user, step.verifier.user)]
    problems = environment_problems(task.paths.environment_dir, config.environment, options, users=users)
    for step in [None, *steps]:
        definition = resolve_verifier_environment_definition(config, task.paths, step)
        if definition is not None:
            problems += [
                f"verifier environment: {problem}"
                for problem in environment_problems(definition.directory, definition.config, options)
            ]
    problems += _network_problems(task)
    return list(dict.fromkeys(problems))


def _network_problems(task: Task) -> list[str]:
    config = task.config
    policies = [config.environment.resolve_baseline(), config.agent.explicit_phase_policy()]
    policies.append(config.verifier.explicit_phase_policy())
    for step in config.steps or []:
        policies += [step.agent.explicit_phase_policy(), step.verifier.explicit_phase_policy()]
    if any(policy is not None and policy.network_mode == NetworkMode.ALLOWLIST for policy in policies):
        return ["network_mode 'allowlist' is not supported: the sandbox has the host's network or none"]
    return []
