# SPDX-License-Identifier: Apache-2.0
"""Commands about native evidence: `validate-results` and `import-results`."""

from __future__ import annotations

from collections import Counter

import typer

from metric_benchmark.cli.console import plural, say, say_json, say_table
from metric_benchmark.cli.options import ExperimentArgument, JsonOption, ResultsOption, RunIdOption


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Compare native trial folders with the records.",
        epilog="Example: metric-benchmark validate-results my-experiment --results runs/mine",
    )(validate_results)


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
    report = validate(run)
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
        say(f"{plural(report.n_other_runs, 'run')} of other settings beside them: no result rests on them")
    say(f"valid: the native evidence is what the records say ({run.root.validation})")
