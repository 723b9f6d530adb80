# SPDX-License-Identifier: Apache-2.0
"""Commands that look at an evidence root: `status` and `report`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from metric_benchmark.cli.console import plural, say, say_json, say_table, warn
from metric_benchmark.cli.options import ExperimentArgument, JsonOption, OutputOption, RunIdOption
from metric_benchmark.cli.working import working


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Say what is missing, failed, stale or fresh, and why.",
        epilog="Example: metric-benchmark status my-experiment --output runs/mine",
    )(status)
    app.command(
        short_help="Print the result and write report.html.", epilog="Example: metric-benchmark report runs/mine"
    )(report)


def status(
    experiment: ExperimentArgument,
    output: OutputOption,
    run_id: RunIdOption = None,
    show_all: Annotated[bool, typer.Option("--all", help="List fresh partitions too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Says what of an experiment is missing, failed, stale (and why) or fresh. Writes nothing.

    It compares evidence with the experiment's files and pins; task folders and bundles need not be there.
    """
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.status import experiment_status, inert_mutants, is_sealed

    run = open_run(experiment, output, run_id=run_id, level="analysis")
    partitions = experiment_status(run)
    is_current = is_sealed(run, partitions)
    inert = inert_mutants(run)
    n_superseded = sum(found.n_superseded for found in partitions)
    counts: dict[str, Counter[str]] = {}
    for found in partitions:
        counts.setdefault(found.stage, Counter())[found.state] += 1
    if as_json:
        say_json(
            {
                "run_id": run.run_id,
                "evidence": str(run.root.path),
                "is_sealed": is_current,
                "inert_mutants": inert,
                "n_superseded": n_superseded,
                "counts": {stage: dict(states) for stage, states in counts.items()},
                "partitions": [asdict(found) for found in partitions],
            }
        )
        return
    states = ["fresh", "stale", "failed", "missing"]
    say_table(["stage", *states], [[stage, *(found[state] for state in states)] for stage, found in counts.items()])
    listed = [found for found in partitions if show_all or found.state != "fresh"]
    if listed:
        say()
        say_table(["stage", "partition", "state", "reason"], [[f.stage, f.key, f.state, f.reason] for f in listed])
    say()
    if not run.root.path.exists():
        say(f"{output}: no such folder yet; nothing has been run into it")
    for case_id, names in inert.items():
        say(f"case {case_id}: inert, never unlike the baseline: {', '.join(names)}")
    if n_superseded:
        say(f"{plural(n_superseded, 'superseded configuration')} kept beside the current ones")
    if is_current:
        say("sealed: everything was checked again after the last stage")
    elif run.root.experiment.exists():
        say("not sealed: there is a seal, but not of what is here now; finish what is listed, or analyse again")
    else:
        say("not sealed")


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The evidence root.", show_default=False, file_okay=False),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the HTML goes (default: report.html in DIR, where its links to trajectories work).",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prints the result of an experiment and writes it as one HTML file.

    A run that is not finished is reported as far as it is.
    """
    from metric_benchmark.cli.showing import report_json, say_report
    from metric_benchmark.pipeline.saved import saved_root
    from metric_benchmark.reporting.data import load_report
    from metric_benchmark.reporting.html import write_report

    root = saved_root(folder)
    with working("writing the report"):
        written = write_report(root, html)
        data = load_report(root)
    if data.plan_problem is not None:
        warn(data.plan_problem)
    if as_json:
        say_json(report_json(data, written))
    else:
        say_report(data, written)
