# SPDX-License-Identifier: Apache-2.0
"""Commands about native evidence: `validate-results` and `import-results`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from metric_benchmark.cli.console import plural, say, say_json, say_table, warn
from metric_benchmark.cli.options import (
    AcceptOption,
    ExperimentArgument,
    JsonOption,
    OutputOption,
    ResultsOption,
    RunIdOption,
)
from metric_benchmark.cli.working import working


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Compare native trial folders with the records.",
        epilog="Example: metric-benchmark validate-results my-experiment --results runs/mine",
    )(validate_results)
    app.command(
        short_help="Adopt Harbor jobs run elsewhere as a variant's.",
        epilog="Example: metric-benchmark import-results my-experiment --variant 'errands|baseline' "
        "--jobs jobs/2026-01-31 --output runs/mine",
    )(import_results)


def validate_results(
    experiment: ExperimentArgument,
    results: ResultsOption,
    run_id: RunIdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recomputes everything the records say from Harbor's native folders, and names every deviation.

    Digests of files, the inventory of trials against the plans, rewards, classification, and both digests Harbor keeps
    of each task: against the task's folder where that is there. What was found is written to validation.json.
    """
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.validation import require_valid
    from metric_benchmark.pipeline.validation import validate_results as validate

    run = open_run(experiment, None, results=results, run_id=run_id, level="analysis")
    with working("comparing the records with the native folders"):
        done = validate(run)
    report = done.report
    if done.not_saved is not None:
        warn(f"{done.not_saved}, so that this report is not kept there: a later analysis will not know of it")
    if as_json:
        say_json(report.to_json())
    require_valid(run.root, report)
    if as_json:
        return
    sources = Counter(report.tasks.values())
    say_table(
        ["compared", "number"],
        [
            ["variants", report.n_variants],
            ["trials", report.n_trials],
            ["digests of files", report.n_files],
            ["tasks, with their folders", sources["folder"]],
            ["tasks, among their trials", sources["records"]],
        ],
    )
    if report.n_other_runs:
        say(f"{plural(report.n_other_runs, 'run')} of other settings beside them: their digests were compared as well")
    kept = f" ({run.root.validation})" if done.not_saved is None else ""
    say(f"valid: the native evidence is what the records say{kept}")


def import_results(
    experiment: ExperimentArgument,
    variant: Annotated[
        str,
        typer.Option(
            "--variant",
            metavar="CASE|ID",
            help="Whose trials they are; ID alone if there is one case.",
            show_default=False,
        ),
    ],
    jobs: Annotated[
        Path,
        typer.Option(
            "--jobs",
            metavar="DIR",
            help="A Harbor job folder, or a folder of some.",
            show_default=False,
            file_okay=False,
        ),
    ],
    output: OutputOption,
    run_id: RunIdOption = None,
    accept_changes: AcceptOption = False,
    as_json: JsonOption = False,
) -> None:
    """Adopts Harbor jobs that were paid for elsewhere as runs of a variant; their trials then count like any other.

    A trial is taken when it is finished, the same agent is declared in it and both digests Harbor keeps of its task
    are those of a task of the case. The jobs are copied. Everything that differs from a run of this experiment is
    listed, and kept in the run's plan.
    """
    from metric_benchmark.experiment import open_run, refuse_changes
    from metric_benchmark.pipeline.importing import find_variant, import_jobs

    run = open_run(experiment, output, run_id=run_id, level="execution")
    wanted = find_variant(run, variant)
    if not accept_changes:
        refuse_changes(run, [wanted])
    with working("copying and comparing jobs"):
        done = import_jobs(run, wanted, jobs)
    if as_json:
        counts = {"n_counted": done.results.n_counted, "n_without_verdict": done.results.n_without_verdict}
        runs = [asdict(adopted) for adopted in done.runs]
        say_json({"variant": wanted.key, "runs": runs, "left_out": list(done.left_out), **counts})
        return
    for text in done.left_out:
        warn(f"left out: {text}")
    for adopted in done.runs:
        say(f"{adopted.job}: {plural(adopted.n_trials, 'trial')} adopted as {adopted.run}; {adopted.n_counted} count")
        for text in adopted.deviations:
            say(f"  differs: {text}")
    results = done.results
    say(
        f"{wanted.key}: {results.n_counted} of {results.attempts * len(results.tasks)} attempts have a verdict; "
        "`metric-benchmark run-evals` runs the others"
    )
