# SPDX-License-Identifier: Apache-2.0
"""Commands that write inputs: `init` and `subsets generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metric_benchmark.cli.console import plural, say, say_json
from metric_benchmark.cli.options import JsonOption


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Write a small experiment that runs at once.", epilog="Example: metric-benchmark init my-experiment"
    )(init)
    subsets = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Draw task subsets of a case.")
    subsets.command(
        short_help="Draw random subsets, stratified by size.",
        epilog="Example: metric-benchmark subsets generate my-experiment/case.yaml --count 60 --seed 1",
    )(generate)
    app.add_typer(subsets, name="subsets", epilog="Example: metric-benchmark subsets generate my-experiment/case.yaml")


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new or empty folder.", show_default=False, file_okay=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Writes a small experiment that runs at once: tasks, an agent, mutants, subsets, all signed.

    Its files say in comments how to put your own agent and tasks in their place.
    """
    from metric_benchmark.scaffold import write_experiment

    written = write_experiment(folder)
    if as_json:
        say_json({"experiment": str(written.experiment), "n_trials": written.n_trials, "n_files": written.n_files})
        return
    say(f"wrote {plural(written.n_files, 'file')}; {written.experiment} asks for {plural(written.n_trials, 'trial')}")
    say()
    say("next:")
    say(f"  metric-benchmark plan {folder}")
    say(f"  metric-benchmark run-experiment {folder} --output {folder}/runs/first")


def generate(
    case: Annotated[
        Path, typer.Argument(metavar="CASE", help="A case.yaml.", show_default=False, exists=True, dir_okay=False)
    ],
    seed: Annotated[int, typer.Option(min=0, help="Draws other subsets of the same sizes.")] = 0,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="How many subsets (default: 60, or all there are).",
            show_default=False,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Sizes, in tasks (default: up to six between few and most of the tasks)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write (default: the one the case names).",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file this command did not write.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draws random subsets of a case's tasks, equally many of each size, and writes their file.

    The same seed, count, sizes and tasks give the same subsets on every machine.
    """
    from metric_benchmark.config.subsets import write_subsets

    written = write_subsets(
        case, seed=seed, count=count, sizes=None if sizes is None else _sizes(sizes), target=output, replace=force
    )
    by_size = {str(size): number for size, number in written.counts.items()}
    if as_json:
        say_json({"path": str(written.path), "n_subsets": sum(written.counts.values()), "n_by_size": by_size})
        return
    verb = "wrote" if written.is_changed else "kept"
    say(f"{verb} {plural(sum(written.counts.values()), 'subset')} of {plural(len(by_size), 'size')} in {written.path}")
    if written.is_changed:
        say("sign the experiment again: metric-benchmark sign EXPERIMENT")


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of sizes; write whole numbers with commas, e.g. 2,4,8", param_hint="--sizes"
        ) from None
