# SPDX-License-Identifier: Apache-2.0
"""Commands that run trials: `run-evals` and `run-experiment`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metric_benchmark.cli.console import plural, say, say_json, warn
from metric_benchmark.cli.options import (
    AcceptOption,
    ExperimentArgument,
    JsonOption,
    OutputOption,
    ReplayOption,
    RunIdOption,
)
from metric_benchmark.cli.working import working

if TYPE_CHECKING:
    from metric_benchmark.cli.checks import Ready
    from metric_benchmark.experiment import EvalsDone
    from metric_benchmark.pipeline import ExperimentRun


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Run the trials (stage 1); continues where it stopped.",
        epilog="Example: metric-benchmark run-evals my-experiment --output runs/mine",
    )(run_evals)
    app.command(
        short_help="Run all four stages; continues where it stopped.",
        epilog="Example: metric-benchmark run-experiment my-experiment --output runs/mine\n\n"
        "Saved evidence: metric-benchmark run-experiment my-experiment --results runs/mine --output runs/again",
    )(run_experiment)


def run_evals(
    experiment: ExperimentArgument,
    output: OutputOption,
    run_id: RunIdOption = None,
    accept_changes: AcceptOption = False,
    as_json: JsonOption = False,
) -> None:
    """Runs the trials of an experiment (stage 1); continues where it stopped.

    Trials that have a verdict are never run again while what decides their outcome stays the same.
    """
    _load_harbor_meanwhile()
    from metric_benchmark.cli.checks import prepare

    ready = prepare(experiment, output, run_id=run_id, level="execution")
    done = _run(ready, accept_changes=accept_changes)
    run = ready.run
    if as_json:
        say_json(_evals_json(run, done))
        return
    say(_evals_text(done))
    say(f"evidence: {run.root.path}")


def run_experiment(
    experiment: ExperimentArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The evidence root.", show_default=False, file_okay=False),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="DIR",
            help="Analyse the saved evidence in DIR instead of running trials; tasks and agents are not needed.",
            show_default=False,
            file_okay=False,
        ),
    ] = None,
    replay: ReplayOption = False,
    run_id: RunIdOption = None,
    accept_changes: AcceptOption = False,
    as_json: JsonOption = False,
) -> None:
    """Runs all four stages: trials, mutant scores, coverage, correlation; continues where it stopped.

    With --results no trial is run: the saved evidence is analysed, and the analysis is written to --output, or into
    the evidence itself.
    """
    from metric_benchmark.cli.checks import prepare
    from metric_benchmark.cli.showing import report_json, say_report
    from metric_benchmark.experiment import analyse_saved, open_run
    from metric_benchmark.pipeline.planning import plan_open_cases
    from metric_benchmark.pipeline.secrets import describe_states
    from metric_benchmark.reporting.data import load_report
    from metric_benchmark.reporting.html import write_report

    if output is None and results is None:
        raise typer.BadParameter("name the evidence root, or saved evidence by --results", param_hint="--output")
    if results is not None and accept_changes:
        raise typer.BadParameter("goes with running trials, not with --results", param_hint="--accept-changes")
    done: EvalsDone | None = None
    if results is None:
        _load_harbor_meanwhile()
        ready = prepare(experiment, output, run_id=run_id)
        run = ready.run
        done = _run(ready, accept_changes=accept_changes)
    else:
        run = open_run(experiment, output, results=results, run_id=run_id, level="analysis")
    with working() as tell:
        seal = analyse_saved(run, replay=replay, on_case=lambda case_id: tell(f"analysing case {case_id}"))
    for text in describe_states(seal.secrets):
        warn(text)
    with working("writing the report"):
        plans = plan_open_cases(run, seal)
        html = write_report(run.root)
        data = load_report(run.root)
    if plans.problem is not None:
        warn(plans.problem)
    if as_json:
        say_json({**({} if done is None else _evals_json(run, done)), **report_json(data, html)})
        return
    if done is not None:
        say(_evals_text(done))
    say_report(data, html)


def _load_harbor_meanwhile() -> None:
    """Starts the process that loads Harbor, which takes as long as it takes us to check the experiment."""
    from metric_benchmark.execution.forkserver import shared_server

    shared_server()


def _run(ready: Ready, *, accept_changes: bool) -> EvalsDone:
    from metric_benchmark.cli.progress import note_runtimes, show_progress
    from metric_benchmark.experiment import run_evals as run_stage_1

    for message in ready.checked.warnings:
        warn(message)
    note_runtimes(ready.checked.variants)
    with show_progress(len(ready.checked.variants), ready.checked.n_trials) as sink:
        return run_stage_1(ready.run, on_progress=sink, accept_changes=accept_changes)


def _evals_text(done: EvalsDone) -> str:
    cost = "" if done.cost_usd is None else f"; {done.cost_usd:.2f} USD in all"
    lines = [f"{plural(done.n_run, 'trial')} run, {done.n_kept} kept{cost}"]
    for case_id, roles in done.times.items():
        for role, time in roles.items():
            offset = "" if role == "baseline" or time.offset_s is None else f", {_later(time.offset_s)} the baseline's"
            lines.append(
                f"{case_id}: {role} trials ran from {time.first_start[:19]} to {time.last_end[:19]} UTC{offset}"
            )
    return "\n".join(lines)


def _later(offset_s: float) -> str:
    """Says how much later (or earlier) trials started on average than others."""
    size = abs(offset_s)
    amount = f"{size:.0f} s" if size < 120 else f"{size / 60:.0f} min" if size < 7200 else f"{size / 3600:.1f} h"
    return f"on average {amount} {'after' if offset_s >= 0 else 'before'}"


def _evals_json(run: ExperimentRun, done: EvalsDone) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "evidence": str(run.root.path),
        "n_run": done.n_run,
        "n_kept": done.n_kept,
        "cost_usd": done.cost_usd,
        "role_times": {
            case_id: {role: asdict(time) for role, time in roles.items()} for case_id, roles in done.times.items()
        },
    }
