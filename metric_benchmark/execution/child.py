# SPDX-License-Identifier: Apache-2.0
"""The parent's side of a variant's child process: starts it, hands it jobs, reads its events, leaves none behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from metric_benchmark.errors import ConfigError, ExecutionError
from metric_benchmark.evidence.locks import Held
from metric_benchmark.evidence.writes import cannot_be_written
from metric_benchmark.execution.forkserver import shared_server
from metric_benchmark.execution.refusals import Refusal
from metric_benchmark.execution.spawned import SpawnedChild
from metric_benchmark.execution.worker import STOP_GRACE_S, JobRequest

type Event = dict[str, Any]


class HarborChild:
    """One child process that runs Harbor jobs in turn; use as a context manager.

    Leaving the context ends the child: it cancels what runs, stops its environments and is killed if it does not.

    Args:
        held: a lock the child holds until it ends, also where its parent dies before it.
        python: the interpreter of an agent's own runtime (default: this one, forked).
        uses_model: whether its jobs call a model.

    Attributes:
        was_killed: the child did not end by itself, so that its environments may be left.
    """

    was_killed = False

    def __init__(self, held: Held | None = None, python: Path | None = None, *, uses_model: bool = False) -> None:
        # Closed by `close`, which leaving the context calls.
        self._log = tempfile.TemporaryFile(prefix="mb-harbor-")  # noqa: SIM115
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        self._requests = os.fdopen(our_output, "wb")
        self._events = os.fdopen(our_input, "rb")
        try:
            self._environment = shared_server().changed_environment() if python is None else {}
            descriptors = (their_input, their_output, self._log.fileno(), None if held is None else held.fd)
            self._process = (
                shared_server().start(*descriptors, uses_model=uses_model)
                if python is None
                else SpawnedChild(python, *descriptors)
            )
        finally:
            os.close(their_input)
            os.close(their_output)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run_job(self, request: JobRequest, on_event: Callable[[Event], None]) -> None:
        """Runs one job to its end.

        Args:
            request: the job.
            on_event: called with each `trial_start` and `trial_end` event.

        Raises:
            ConfigError: the job was refused before any trial started; with all reasons.
            ExecutionError: Harbor could not run the job, or the child died.
            StorageError: Harbor could not write; the job is to be given up, since every other trial would fail as well.
        """
        for event in self._ask(request):
            match event["event"]:
                case "trial_start" | "trial_end":
                    on_event(event)
                case "refused":
                    raise ConfigError(list(event["problems"]))
                case "disk_full":
                    raise cannot_be_written(
                        event["file"] or f"{request.job['jobs_dir']}/{request.job['job_name']}", event["why"]
                    )
                case "job_error":
                    raise JobFailedError(f"Harbor could not run the job: {event['type']}: {event['message']}")
                case "job_end":
                    return
                case _:
                    pass
        raise self._died()

    def check(self, request: JobRequest) -> list[Refusal]:
        """Returns why a job could not run; runs none of it.

        Raises:
            ExecutionError: Harbor could not look, or the child died.
        """
        request = request.model_copy(update={"only_check": True})
        for event in self._ask(request):
            match event["event"]:
                case "checked":
                    return [Refusal.model_validate(item) for item in event["refusals"]]
                case "job_error":
                    raise JobFailedError(f"Harbor could not check the job: {event['type']}: {event['message']}")
                case _:
                    pass
        raise self._died()

    def _ask(self, request: JobRequest) -> Iterator[Event]:
        """Hands a request to the child and yields what it says, until it ends."""
        try:
            request = request.model_copy(update={"environment": self._environment})
            self._requests.write(request.model_dump_json().encode() + b"\n")
            self._requests.flush()
        except BrokenPipeError:
            raise self._died() from None
        for line in self._events:
            yield json.loads(line)

    def close(self) -> None:
        """Ends the child."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            if not self._process.wait(STOP_GRACE_S):
                self._kill()
        except BaseException:
            # A second interrupt while we wait: stop waiting, leave nothing behind.
            self._kill()
            raise
        finally:
            self._process.wait()
            self._process.close()
            self._events.close()
            self._log.close()

    def _kill(self) -> None:
        self.was_killed = True
        self._process.signal(signal.SIGKILL)
        # It leads a group of its own: Docker's client could otherwise still be starting a container.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _died(self) -> ExecutionError:
        self._kill()
        self._process.wait()
        return ChildDiedError(f"the Harbor process died; the end of its log:\n{self._log_tail()}")

    def _log_tail(self, size: int = 2000) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - size))
        return self._log.read().decode(errors="replace").strip() or "(empty)"


class ReplaceableChild:
    """The process that runs a variant's jobs, made when first needed and replaced when it died; `close` ends it.

    Args:
        held: see `HarborChild`; `python` and `uses_model` alike.
        on_killed: called after a child was killed or died: its environments may be left.
    """

    def __init__(self, held: Held | None, on_killed: Callable[[], None], python: Path | None, uses_model: bool) -> None:
        self._held = held
        self._python = python
        self._uses_model = uses_model
        self._on_killed = on_killed
        self._process: HarborChild | None = None

    def process(self) -> HarborChild:
        """Returns the running child."""
        if self._process is None:
            self._process = HarborChild(self._held, self._python, uses_model=self._uses_model)
        return self._process

    def close(self) -> None:
        """Ends the child, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.close()
        finally:
            if process.was_killed:
                self._on_killed()


class JobFailedError(ExecutionError):
    """Harbor raised instead of running the job; running it again would do the same."""


class ChildDiedError(ExecutionError):
    """The child process died; its finished trials are kept, and the job may be run again."""


def job_config(
    *,
    jobs_dir: Path,
    run: str,
    attempts: int,
    task_paths: list[str],
    agent: dict[str, Any],
    environment: dict[str, Any],
    concurrency: int,
    multipliers: dict[str, float],
) -> dict[str, Any]:
    """Returns Harbor's job configuration for one run: no retries of Harbor's own, which delete evidence."""
    return {
        "job_name": run,
        "jobs_dir": str(jobs_dir),
        "n_attempts": attempts,
        "n_concurrent_trials": concurrency,
        "quiet": True,
        "retry": {"max_retries": 0},
        "agent_timeout_multiplier": multipliers["agent"],
        "verifier_timeout_multiplier": multipliers["verifier"],
        "agent_setup_timeout_multiplier": multipliers["setup"],
        "environment_build_timeout_multiplier": multipliers["setup"],
        "environment": environment,
        "agents": [agent],
        "tasks": [{"path": path} for path in task_paths],
    }
