# SPDX-License-Identifier: Apache-2.0
"""`make demo`: an experiment through Dagster from the first trial to the report, without a daemon.

    python -m metric_benchmark_dagster.demo [--experiment PATH] [--output DIR]

Prints a table of the result and where evidence and report are. Run again, it runs only what is not up to date.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, override

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark.execution.runner import Progress as TrialProgress
from metric_benchmark.experiment import check_designs, open_run
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.table import render_table, summary_rows
from metric_benchmark_dagster.driver import Driven, Watcher, drive, warm_up
from metric_benchmark_dagster.home import DEFAULT_EXPERIMENT, DEFAULT_OUTPUT, prepare_home
from metric_benchmark_dagster.units import Unit
from metric_benchmark_dagster.worker import UnitEnd

INTERRUPTED = 130


class _Clock(Watcher):
    """Notes when which kind of work ended, to say what the time was spent on; prints nothing."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.marks: dict[str, float] = {}

    def planned(self, units: Iterable[Unit]) -> None:
        self._mark("starting")

    def progress(self, progress: TrialProgress) -> None:
        pass

    def unit_end(self, end: UnitEnd) -> None:
        names = {"raw_results": "trials", "report": "report"}
        first = end.unit.assets[-1]
        self._mark("observing inputs" if first.endswith("_inputs") else names.get(first, "analysis"))

    def _mark(self, name: str) -> None:
        self.marks[name] = time.monotonic() - self.started

    def spent(self) -> str:
        """Says how long each part took, by when its last piece ended."""
        parts: list[str] = []
        before = 0.0
        for name, end in sorted(self.marks.items(), key=lambda mark: mark[1]):
            parts.append(f"{name} {end - before:.0f} s")
            before = end
        return ", ".join(parts)


class _Lines(_Clock):
    """Progress as plain lines, one per partition, for logs."""

    @override
    def unit_end(self, end: UnitEnd) -> None:
        super().unit_end(end)
        outcome = "done" if end.message is None else f"FAILED: {end.message}"
        _note(f"[{time.monotonic() - self.started:5.0f} s] {end.unit} {outcome} ({end.duration_s:.1f} s)")


class _Bars(_Clock):
    """Progress as bars, for terminals."""

    def __init__(self, started: float, console: Console) -> None:
        super().__init__(started)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[last]}"),
            console=console,
        )
        self._units = self._bars.add_task("partitions", total=None, last="", visible=False)
        self._trials = self._bars.add_task("trials", total=None, last="", visible=False)
        self._done: dict[str, tuple[int, int]] = {}

    @override
    def planned(self, units: Iterable[Unit]) -> None:
        super().planned(units)
        total = sum(1 for _ in units)
        if total:
            self._bars.update(self._units, total=total, visible=True)
            self._bars.start()

    @override
    def progress(self, progress: TrialProgress) -> None:
        self._done[progress.key] = (progress.n_done, progress.n_total)
        done, total = (sum(column) for column in zip(*self._done.values(), strict=True))
        self._bars.update(self._trials, completed=done, total=total, last=progress.key, visible=True)

    @override
    def unit_end(self, end: UnitEnd) -> None:
        super().unit_end(end)
        self._bars.update(self._units, advance=1, last=str(end.unit))
        if end.message is not None:
            self._bars.console.print(f"{end.unit} failed: {end.message}", style="red", markup=False)

    def stop(self) -> None:
        """Leaves the bars as they are and gives the terminal back."""
        self._bars.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demonstration; returns the exit status (1-domain, "Commands")."""
    parser = argparse.ArgumentParser(
        prog="python -m metric_benchmark_dagster.demo",
        description="Runs an experiment through Dagster, from the first trial to the report.",
    )
    parser.add_argument("--experiment", type=Path, default=DEFAULT_EXPERIMENT, help="experiment.yaml or its folder")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="the evidence root")
    parser.add_argument("--run-id", default=None, help="names the run (default: the experiment's name)")
    options = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _demonstrate(options.experiment, options.output, options.run_id)
    except MetricBenchmarkError as error:
        _note(f"error: {error}")
        return error.exit_status
    except KeyboardInterrupt:
        _note("interrupted; what has a verdict is kept, run it again to continue")
        return INTERRUPTED


def _demonstrate(experiment: Path, output: Path, run_id: str | None) -> int:
    started = time.monotonic()
    warm_up()
    run = open_run(experiment, output, run_id=run_id)
    for warning in check_designs(run):
        _note(f"warning: {warning}")
    home = prepare_home(output)
    terminal = Console(stderr=True)
    if terminal.is_terminal:
        bars = _Bars(started, terminal)
        try:
            driven = drive(run, home, bars)
        finally:
            bars.stop()
        clock: _Clock = bars
    else:
        clock = _Lines(started)
        driven = drive(run, home, clock)
    if driven.failures:
        for end in driven.failures:
            _note(f"error: {end.unit}: {end.message}")
        return driven.failures[0].exit_status
    _show(run, home, driven, f"{time.monotonic() - started:.0f} s ({clock.spent()})")
    return 0


def _show(run: ExperimentRun, home: Path, driven: Driven, spent: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else 100)
    data = load_report(run.root)
    n_kept = (data.seal.n_trials if data.seal else 0) - driven.n_run
    console.print(render_table(summary_rows(data), title=f"{run.experiment.name}: coverage against mutant score"))
    for line in (
        f"{driven.n_run} trials run, {max(0, n_kept)} kept from before; {len(driven.ends)} Dagster runs in {spent}",
        f"evidence: {run.root.path}",
        f"report:   {run.root.report}",
        f"in Dagster's UI: make dev (its instance is {home})",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # Only the first interrupts: ending the sandboxes in order takes a moment and must not be cut short.
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    _note("stopping: ending the trials and their sandboxes ...")
    raise KeyboardInterrupt


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
