# SPDX-License-Identifier: Apache-2.0
"""A worker process of the library driver: materialises one unit after another on the driver's instance."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import dagster as dg

from metric_benchmark.execution.runner import OnProgress, Progress
from metric_benchmark_dagster.build import build_defs
from metric_benchmark_dagster.resources import TrialRelay
from metric_benchmark_dagster.units import Unit

#: Runs of the driver carry this tag, so that the UI can tell them from its own.
RUN_TAGS = {"metric_benchmark/driver": "demo"}


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker needs to know."""

    experiment: str
    output: str
    run_id: str | None
    home: str
    log: str


@dataclass(frozen=True)
class UnitEnd:
    """What became of a unit; `message` and `exit_status` say why it failed."""

    unit: Unit
    duration_s: float
    message: str | None = None
    exit_status: int = 0


class _PipeRelay(TrialRelay):
    """Tells the driver about trials, besides the run's log."""

    def __init__(self, send: Callable[[Progress], None]) -> None:
        self._send = send

    def listener(self, log: dg.DagsterLogManager) -> OnProgress:
        to_log = super().listener(log)

        def relay(progress: Progress) -> None:
            self._send(progress)
            to_log(progress)

        return relay


def work(connection: Connection, settings: WorkerSettings) -> None:
    """Runs units as they come through the connection, until it closes."""
    # A session of its own: an interrupt at the terminal is for the driver, which stops its workers in order.
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    # Dagster logs to standard error; the terminal is the driver's.
    with Path(settings.log).open("ab", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        _serve(connection, settings)
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return


def _serve(connection: Connection, settings: WorkerSettings) -> None:
    os.environ["DAGSTER_HOME"] = settings.home
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    definitions = build_defs(
        experiment=settings.experiment,
        output=settings.output,
        run_id=settings.run_id,
        retry_delay_s=5,
        resources={"trials": _PipeRelay(connection.send)},
    )
    job = definitions.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.get() as instance:
        while True:
            unit: Unit = connection.recv()
            connection.send(_run(job, instance, unit))


def _run(job: dg.JobDefinition, instance: dg.DagsterInstance, unit: Unit) -> UnitEnd:
    started = time.monotonic()
    result = job.execute_in_process(
        instance=instance,
        partition_key=unit.key,
        asset_selection=[dg.AssetKey(asset) for asset in unit.assets],
        raise_on_error=False,
        tags=RUN_TAGS,
    )
    duration_s = time.monotonic() - started
    if result.success:
        return UnitEnd(unit, duration_s)
    message, status = _why_failed(result)
    return UnitEnd(unit, duration_s, message, status)


def _why_failed(result: dg.ExecuteInProcessResult) -> tuple[str, int]:
    for event in result.get_step_failure_events():
        data: Any = event.event_specific_data
        failure = data.user_failure_data
        if failure is not None:
            status = failure.metadata.get("exit_status")
            return str(failure.description or failure.label), int(status.value) if status else 70
        if data.error is not None:
            return str(data.error.message).strip(), 70
    return "the run ended without saying why; see the worker's log", 70
