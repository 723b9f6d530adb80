# SPDX-License-Identifier: Apache-2.0
"""Replays a simple Dockerfile's steps in a running sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from harbor.environments.base import SandboxBuildFailedError
from harbor.environments.snowflake.dockerfile_replay import CopyStep, ReplayPlan, RunStep

from metric_benchmark.execution.sandbox.process import SandboxError, SandboxProcess
from metric_benchmark.execution.sandbox.transfer import upload


async def replay(process: SandboxProcess, plan: ReplayPlan, context: Path, network: Literal["host", "none"]) -> None:
    """Run every RUN and COPY step of ``plan``; ``context`` is the folder COPY takes from.

    Raises:
        SandboxBuildFailedError: a step failed; the message has the step and its output.
    """
    for step in plan.steps:
        try:
            if isinstance(step, RunStep):
                await _run(process, step, network)
            else:
                await _copy(process, step, context.resolve())
        except (SandboxError, RuntimeError, OSError) as error:
            raise SandboxBuildFailedError(f"the Dockerfile cannot be replayed: {error}") from error


async def _run(process: SandboxProcess, step: RunStep, network: Literal["host", "none"]) -> None:
    ended = await process.run(
        ["/bin/sh", "-c", step.command], cwd=step.workdir, env=step.env, user=step.user, network=network
    )
    if ended.status:
        output = ended.output[-4000:].decode(errors="replace")
        raise SandboxBuildFailedError(f"RUN {step.command} ended with status {ended.status}:\n{output}")


async def _copy(process: SandboxProcess, step: CopyStep, context: Path) -> None:
    for pattern in step.sources:
        relative = pattern.lstrip("/").removeprefix("./")
        wild = any(character in relative for character in "*?[")
        hits = sorted(context.glob(relative)) if wild else [context / relative]
        if not hits or not all(hit.exists() and hit.resolve().is_relative_to(context) for hit in hits):
            raise SandboxBuildFailedError(f"COPY {pattern}: not found in {context}")
        for hit in hits:
            target = step.dest if hit.is_dir() or not step.dest_is_dir else step.dest.rstrip("/") + "/"
            await upload(process, hit, target, folder=hit.is_dir(), chown=step.chown, chmod=step.chmod)
