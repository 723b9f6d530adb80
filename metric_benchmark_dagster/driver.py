# SPDX-License-Identifier: Apache-2.0
"""The library driver: brings an experiment up to date through Dagster with two worker processes and no daemon.

Processes, never threads: two threads that each run Dagster in one process deadlock. Workers come from a forkserver that
has everything imported, so that starting one costs next to nothing.
"""

import multiprocessing
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

import dagster as dg

from metric_benchmark.execution.runner import Progress
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.units import Unit, plan_units
from metric_benchmark_dagster.worker import UnitEnd, WorkerSettings, work

N_WORKERS = 2
#: How long a worker may take to end its trial and sandboxes; above the grace Harbor's own process has.
STOP_S = 45.0


class Watcher(Protocol):
    """Who is told how the work goes on."""

    def planned(self, units: Iterable[Unit]) -> None:
        """Called once, before work starts."""
        ...

    def progress(self, progress: Progress) -> None:
        """Called with every step of a variant."""
        ...

    def unit_end(self, end: UnitEnd) -> None:
        """Called with every unit that ended."""
        ...


@dataclass(frozen=True)
class Driven:
    """What the driver did.

    Attributes:
        ends: every unit that ended, in that order.
        n_run: trials that were run now.
    """

    ends: tuple[UnitEnd, ...]
    n_run: int

    @property
    def failures(self) -> tuple[UnitEnd, ...]:
        """The units that failed; what depends on them was not tried."""
        return tuple(end for end in self.ends if end.message is not None)


def warm_up() -> None:
    """Starts the process that workers are forked from; it imports in the background."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["metric_benchmark_dagster.worker"])
    from multiprocessing import forkserver

    forkserver.ensure_running()


def drive(run: ExperimentRun, home: Path, watcher: Watcher) -> Driven:
    """Materialises what is not up to date and all that depends on it.

    A unit that fails stops only what depends on it. An interrupt ends the workers in order and is raised again.

    Args:
        run: the experiment and its evidence.
        home: the instance's folder, which is prepared.
        watcher: told about progress.
    """
    os.environ["DAGSTER_HOME"] = str(home)
    with dg.DagsterInstance.get() as instance:
        keys = PartitionKeys.of(run.experiment)
        plan = plan_units(keys, _Currency(run, instance))
    watcher.planned(plan)
    if not plan:
        return Driven((), 0)
    with ExitStack() as stack:
        workers = [_Worker(run, home, number) for number in range(1, min(N_WORKERS, len(plan)) + 1)]
        for worker in workers:
            stack.callback(worker.kill)
        stack.callback(_stop, workers)
        return _hand_out(plan, workers, watcher)


class _Currency:
    """Knows what is up to date: fresh by the evidence, and materialised in the Dagster instance."""

    def __init__(self, run: ExperimentRun, instance: dg.DagsterInstance) -> None:
        self._fresh = {(s.stage, s.key) for s in experiment_status(run) if s.state == "fresh"}
        self._files = {"execution_manifest": run.root.manifest, "report": run.root.experiment}
        self._instance = instance
        self._materialised: dict[str, set[str]] = {}

    def __call__(self, asset: str, key: str | None) -> bool:
        if key is None:
            known = self._instance.get_latest_materialization_event(dg.AssetKey(asset)) is not None
            return known and self._files[asset].exists()
        if asset not in self._materialised:
            self._materialised[asset] = self._instance.get_materialized_partitions(dg.AssetKey(asset))
        return (asset, key) in self._fresh and key in self._materialised[asset]


@dataclass
class _Worker:
    """A worker process and the unit it is at."""

    run: ExperimentRun
    home: Path
    number: int
    unit: Unit | None = None
    is_dead: bool = False
    process: BaseProcess = field(init=False)
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        settings = WorkerSettings(
            experiment=str(self.run.experiment.source.path),
            output=str(self.run.root.path),
            run_id=self.run.run_id,
            home=str(self.home),
            log=str(self.home / f"worker-{self.number}.log"),
        )
        context = multiprocessing.get_context("forkserver")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, settings), name=f"worker {self.number}")
        self.process.start()
        theirs.close()

    def give(self, unit: Unit) -> None:
        self.unit = unit
        self.connection.send(unit)

    def kill(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def _hand_out(plan: dict[Unit, frozenset[Unit]], workers: list[_Worker], watcher: Watcher) -> Driven:
    sorter = TopologicalSorter(plan)
    sorter.prepare()
    order = {unit: place for place, unit in enumerate(plan)}
    ready: list[Unit] = []
    ends: list[UnitEnd] = []
    n_run = 0
    while True:
        ready = sorted([*ready, *sorter.get_ready()], key=order.__getitem__)
        for worker in workers:
            if worker.unit is None and not worker.is_dead and ready:
                worker.give(ready.pop(0))
        busy = {worker.connection: worker for worker in workers if worker.unit is not None}
        if not busy:
            return Driven(tuple(ends), n_run)
        for connection in wait(list(busy)):
            worker = busy[connection]  # pyright: ignore[reportArgumentType]
            event = _receive(worker)
            if isinstance(event, Progress):
                n_run += event.kind == "trial_end"
                watcher.progress(event)
                continue
            worker.unit = None
            ends.append(event)
            watcher.unit_end(event)
            if event.message is None:
                sorter.done(event.unit)


def _receive(worker: _Worker) -> Progress | UnitEnd:
    assert worker.unit is not None
    try:
        return worker.connection.recv()
    except EOFError:
        worker.process.join()
        # It takes no more work; the others go on.
        worker.is_dead = True
        message = f"its process died (status {worker.process.exitcode}); see {worker.home}/worker-{worker.number}.log"
        return UnitEnd(worker.unit, 0.0, message, 70)


def _stop(workers: list[_Worker]) -> None:
    """Ends the workers: idle ones by closing their connection, busy ones by an interrupt first."""
    for worker in workers:
        if worker.unit is not None and worker.process.is_alive():
            worker.process.terminate()
        worker.connection.close()
    for worker in workers:
        worker.process.join(STOP_S)
