# SPDX-License-Identifier: Apache-2.0
"""The child process of a variant: runs Harbor jobs one after another and relays their progress as JSON lines.

Requests come on standard input, one JSON object a line; events leave on standard output. Harbor logs to a global logger
and prints, so that its output goes to standard error and two jobs never share a process at one time. End of input means
that the parent is gone: the running job is cancelled, its environments are stopped, and the process ends. As long as it
lives it holds the variant's lock, so that no other run works beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from metric_benchmark import faults
from metric_benchmark.execution.docker_leftovers import owner_variable
from metric_benchmark.execution.refusals import ANYTHING, preflight, refusals
from metric_benchmark.execution.storage import full_disk, full_disk_message

#: How long a cancelled job may take to stop its environments before it is killed, in seconds.
STOP_GRACE_S = 30.0

type Emit = Callable[[dict[str, Any]], None]


class JobRequest(BaseModel):
    """One job to run: Harbor's own job configuration and what Harbor has no setting for.

    `check` names the task folders to check before the job; the agent is always checked, on the first task. A request
    with `only_check` ends there, and asks for the agent's credentials as well; with `check_environment`, also whether
    the environment works here. `variables` are set in the environment of this process: the overlay for Docker makes
    labels of them; so are those of `environment`, which the parent has and this process was started without.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: dict[str, Any]
    timeout_s: float | None = None
    reward_key: str
    sandbox: bool = False
    check: tuple[str, ...] = ()
    only_check: bool = False
    check_environment: bool = False
    variables: dict[str, str] = {}
    environment: dict[str, str] = {}


def main() -> int:
    """Serves requests until the input ends."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def emit(event: dict[str, Any]) -> None:
        output.write(json.dumps(event) + "\n")

    threading.Thread(target=_end_after_parent, name="parent-watch", daemon=True).start()
    try:
        asyncio.run(_serve(emit))
    except asyncio.CancelledError:
        return 130
    except BrokenPipeError:
        return 1
    return 0


def _end_after_parent() -> None:
    """Ends this process some time after its parent is gone, whatever an agent does to the event loop."""
    poll = select.poll()
    poll.register(0, 0)  # Nothing but the other end being closed.
    poll.poll()
    time.sleep(STOP_GRACE_S)
    print("the parent is gone and the job does not stop: ending", file=sys.stderr, flush=True)  # noqa: T201
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


async def _serve(emit: Emit) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    me = asyncio.current_task()
    assert me is not None
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, me.cancel)
    emit({"event": "ready"})
    following = asyncio.ensure_future(reader.readline())
    # A line without an end was cut short by the parent's death.
    while (line := await following).endswith(b"\n"):
        following = asyncio.ensure_future(reader.readline())
        job = asyncio.ensure_future(_run(JobRequest.model_validate_json(line), emit))
        try:
            # The parent sends the next request only after a job's end, so whatever is readable now is the end of input.
            await asyncio.wait({job, following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not job.done():
                job.cancel()
                await asyncio.gather(job, return_exceptions=True)
        job.result()


async def _run(request: JobRequest, emit: Emit) -> None:
    # Imported late: a child that only waits should not have paid for it, and the parent never does.
    from harbor.job import Job
    from harbor.models.job.config import JobConfig
    from harbor.trial.hooks import TrialEvent

    from metric_benchmark.execution.agents import guard_agents

    guard_agents()
    os.environ.update(request.environment)
    if request.variables:
        os.environ.update(request.variables | owner_variable())
    config = JobConfig.model_validate(request.job)
    try:
        refused = await refusals(config, frozenset(request.check), sandbox=request.sandbox)
        if request.only_check:
            is_made = not any(refusal.about == "agent" for refusal in refused)
            refused += preflight(config, agents=is_made, environment=request.check_environment)
            emit({"event": "checked", "refusals": [refusal.model_dump() for refusal in refused]})
            return
        if refused:
            emit({"event": "refused", "problems": [str(refusal) for refusal in refused]})
            return
        job = await Job.create(config)
        job.add_hook(TrialEvent.START, _reporter(emit, "trial_start", request.reward_key))
        job.add_hook(TrialEvent.END, _reporter(emit, "trial_end", request.reward_key))
        async with asyncio.timeout(request.timeout_s):
            await job.run()
    except ANYTHING as error:  # whatever Harbor raises is reported, never lost
        full = full_disk(error)
        if full is not None:
            emit({"event": "disk_full", "file": full[0], "why": full[1]})
            return
        emit({"event": "job_error", "type": type(error).__name__, "message": str(error)[:2000]})
        return
    emit({"event": "job_end"})


def _reporter(emit: Emit, kind: str, reward_key: str) -> Callable[[Any], Any]:
    async def report(event: Any) -> None:
        faults.point(f"worker.{kind}")
        try:
            result = event.result
            rewards: dict[str, Any] = (result.verifier_result.rewards if result.verifier_result else None) or {}
            exceptions = result.recorded_exceptions()
            for item in exceptions:
                full = full_disk_message(item.exception_type, item.exception_message)
                if full is not None:
                    emit({"event": "disk_full", "file": full[0], "why": full[1]})
            emit(
                {
                    "event": kind,
                    "trial": event.trial_name,
                    "task_path": str(event.config.task.path),
                    "reward": rewards.get(reward_key),
                    "cost_usd": result.compute_token_cost_totals()[3],
                    "exception": exceptions[0].exception_type if exceptions else None,
                }
            )
        except Exception as error:  # noqa: BLE001 - a hook that raises would abort the whole job
            print(f"progress report failed: {error!r}", file=sys.stderr)  # noqa: T201

    return report


if __name__ == "__main__":
    sys.exit(main())
