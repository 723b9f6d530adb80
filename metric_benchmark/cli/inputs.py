# SPDX-License-Identifier: Apache-2.0
"""Commands about an experiment's inputs: `sign`, `verify`, `plan`, `mutants`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metric_benchmark.cli.console import plural, say, say_json, say_table, warn
from metric_benchmark.cli.options import ExperimentArgument, JsonOption, RunIdOption


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Write the pins (SHA-256) of an experiment's inputs.",
        epilog="Example: metric-benchmark sign my-experiment/experiment.yaml",
    )(sign)
    app.command(
        short_help="Check an experiment: files, pins, agents, metrics, design.",
        epilog="Example: metric-benchmark verify my-experiment\n\nProve it with trials: metric-benchmark verify "
        "my-experiment --deep --output runs/mine",
    )(verify)
    app.command(
        short_help="Show trials, cost bound and what the design can show.",
        epilog="Example: metric-benchmark plan my-experiment --output runs/mine\n\n"
        "What the design can show: metric-benchmark plan my-experiment --power --plot power.svg",
    )(plan)
    app.command(short_help="List the mutation operators.", epilog="Example: metric-benchmark mutants --json")(mutants)


def sign(experiment: ExperimentArgument, as_json: JsonOption = False) -> None:
    """Computes the pins of an experiment and writes them into its files.

    A pin is the SHA-256 of a file or folder an experiment names. Comments and layout of the files stay.
    """
    from metric_benchmark.cli.checks import prepare
    from metric_benchmark.errors import ConfigError
    from metric_benchmark.pins import sign_experiment

    signed = sign_experiment(experiment)
    changed = [_shown(path) for path in signed.changed]
    problems: list[str] = []
    try:
        prepare(experiment, None)
    except ConfigError as error:
        # What was signed holds; that it cannot be run yet should not come as a surprise.
        problems = [str(problem) for problem in error.problems]
    if as_json:
        say_json({"n_pins": signed.n_pins, "changed": changed, "problems": problems})
        return
    for path in changed:
        say(f"wrote {path}")
    say(f"{plural(signed.n_pins, 'pin')} hold{'s' if signed.n_pins == 1 else ''}")
    for problem in problems:
        warn(problem)


def verify(
    experiment: ExperimentArgument,
    deep: Annotated[
        bool, typer.Option("--deep", help="Prove the cases by trials: oracle, nop, baseline, screening, controls.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="With --deep: the experiment's evidence root. Trials it has are not run again, and those run now are "
            "kept by a later run (default: a folder in the user's cache).",
            show_default=False,
            file_okay=False,
        ),
    ] = None,
    case: Annotated[
        str | None,
        typer.Option(
            "--case", metavar="ID", help="With --deep: prove this case only (default: all).", show_default=False
        ),
    ] = None,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes", help="With --deep: run what changed inputs ask for, though --output has older trials."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Checks an experiment: its files, its pins, agents, operators, metrics and design.

    Every agent is made and every task loaded by Harbor, as before a run. Without --deep it writes nothing. With it,
    every task must be passed by its own solution and failed by an agent that does nothing, the baseline must be
    reliable, controls must survive, and no metric may be constant.
    """
    from metric_benchmark.cli.checks import prepare_all

    if deep:
        from metric_benchmark.cli.proving import verify_deep

        verify_deep(experiment, output, case, accept_changes=accept_changes, as_json=as_json)
        return
    for option, given in (("--output", output), ("--case", case), ("--accept-changes", accept_changes or None)):
        if given is not None:
            raise typer.BadParameter("goes with --deep", param_hint=option)
    ready = prepare_all(experiment)
    run, checked = ready.run, ready.checked
    cases = {
        case.case_id: {
            "n_tasks": len(case.config.tasks),
            "n_mutants": len(case.config.mutants),
            "n_subsets": len(case.subsets.subsets),
            "n_variants": len(checked.of(case.case_id)),
        }
        for case in run.experiment.cases
    }
    if as_json:
        say_json({"experiment": run.experiment.name, "cases": cases, "warnings": list(checked.warnings)})
        return
    for message in checked.warnings:
        warn(message)
    for case_id, counts in cases.items():
        parts = (plural(counts[f"n_{noun}s"], noun) for noun in ("task", "mutant", "subset", "variant"))
        say(f"case {case_id}: {', '.join(parts)}")
    say(f"experiment {run.experiment.name}: all pins hold, nothing is wrong")


def plan(
    experiment: ExperimentArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Evidence that is there already: what of it is kept, what would be run.",
            show_default=False,
            file_okay=False,
        ),
    ] = None,
    run_id: RunIdOption = None,
    power: Annotated[
        bool, typer.Option("--power", help="Simulate what the design can show; takes some seconds a case.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the simulated power, as .svg or .png; simulates as --power does.",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Shows what an experiment will run and can cost at most, before anything is paid for.

    It writes nothing but the plot, and with --power and --output the simulated power beside the evidence, where the
    report finds it.
    """
    from metric_benchmark.cli.checks import prepare
    from metric_benchmark.cli.forecast import forecast
    from metric_benchmark.cli.power import check_plot, power_plans, say_power, write_plot
    from metric_benchmark.pipeline.registration import claims_digest

    if plot is not None:
        check_plot(plot)
    ready = prepare(experiment, output, run_id=run_id)
    run = ready.run
    found = forecast(run, ready.checked, has_evidence=output is not None)
    powers = power_plans(run.experiment, run.root if output is not None else None) if power or plot else {}
    if plot is not None:
        write_plot(plot, powers)
    n_claims = len(run.experiment.analysis.correlation.hypotheses)
    claims = {case.case_id: claims_digest(run.experiment, case) for case in run.experiment.cases} if n_claims else {}
    if as_json:
        shown = {case_id: plan.model_dump(mode="json") for case_id, plan in powers.items()}
        say_json({**found.to_json(), "claims_sha256": claims, **({"power": shown} if powers else {})})
        return
    n_cases = plural(len(run.experiment.cases), "case")
    say(f"experiment {run.experiment.name}: {n_cases}, environment {found.environment}")
    say()
    say_table(
        ["case", "role", "variants", "tasks", "attempts", "trials", *(["kept", "to run"] if output else [])],
        [
            [
                r.case,
                r.role,
                r.n_variants,
                r.n_tasks,
                r.attempts,
                r.n_trials,
                *([r.n_kept, r.n_to_run] if output else []),
            ]
            for r in found.rows
        ],
    )
    say()
    say(f"{plural(found.n_trials, 'trial')} in all" + (f", {found.n_to_run} of them still to run" if output else ""))
    say(found.cost)
    what = f"{plural(n_claims, 'hypothesis', 'hypotheses')} and how they are judged"
    for case_id, digest in claims.items():
        say(f"claims of case {case_id} ({what}): SHA-256 {digest}")
    for case_id, plan in powers.items():
        say_power(case_id, plan)
    for message in (*found.changes, *found.warnings):
        warn(message)


def mutants(as_json: JsonOption = False) -> None:
    """Lists the mutation operators: the fault each injects, its parameters, the agents it acts on."""
    from metric_benchmark.mutants.catalog import OPERATORS

    listed = [
        {
            "name": info.name,
            "family": info.family,
            "fault": info.fault,
            "applies_to": info.applies_to,
            "params": {
                name: {"required": field.is_required(), "description": field.description}
                for name, field in info.params_model.model_fields.items()
            },
        }
        for info in OPERATORS.values()
    ]
    if as_json:
        say_json({"operators": listed})
        return
    for info in OPERATORS.values():
        say(f"{typer.style(info.name, bold=True)} ({info.family}): {info.fault}")
        for name, field in info.params_model.model_fields.items():
            default = "required" if field.is_required() else f"default {field.default}"
            say(f"    {name}: {field.description} ({default})")
        say(f"    acts on {info.applies_to}")
    say("external/<label>: a mutant that brings its own agent; the label names its fault")


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
