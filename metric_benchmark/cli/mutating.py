# SPDX-License-Identifier: Apache-2.0
"""The command that writes mutants into a case: `mutate`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metric_benchmark.cli.console import plural, say, say_json
from metric_benchmark.cli.options import JsonOption

if TYPE_CHECKING:
    from metric_benchmark.mutating import Mutated, NewMutant


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Write mutants into a case, checked and signed.",
        epilog="Example: metric-benchmark mutate my-experiment/case.yaml --operator tool_removal --params "
        "'{commands: [cat]}' --id no-cat\n\nA mutant each: metric-benchmark mutate my-experiment/case.yaml --operator "
        "action_budget --params '{max_actions: 3}' --params '{max_actions: 5}' --dry-run\n\nSeveral operators: "
        "metric-benchmark mutate my-experiment/case.yaml --operator '{name: misread_number, seed: 7}' --operator "
        "'{name: tool_removal, params: {commands: [cat]}}'",
    )(mutate)


def mutate(
    case: Annotated[
        Path, typer.Argument(metavar="CASE", help="A case.yaml.", show_default=False, exists=True, dir_okay=False)
    ],
    operators: Annotated[
        list[str],
        typer.Option(
            "--operator",
            metavar="OPERATOR",
            help="An operator of `mutants`: its name, or all of it as in a case file, '{name: ..., params: {...}, "
            "seed: 7, id: ...}'; repeatable.",
            show_default=False,
        ),
    ],
    params: Annotated[
        list[str] | None,
        typer.Option(
            metavar="YAML",
            help="Parameters of a single operator given by name, e.g. '{max_actions: 3}'; several make a mutant each.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option(
            "--seed",
            min=0,
            help="Its seed (default: 0); several make a mutant each, with each of the --params.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The id of a single mutant (default: made up).", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Adds mutants of the baseline's agent to a case, and renews its pin in the experiment that names it.

    An operator that is unknown, has wrong parameters or cannot act on the agent is refused, and nothing is written.
    """
    from metric_benchmark.mutating import add_mutants

    done = add_mutants(case, _requests(operators, params or [], seeds or [], name), dry_run=dry_run)
    if as_json:
        say_json(_as_json(done, is_written=not dry_run))
        return
    if dry_run:
        say(_difference(done))
        say(f"nothing was written; {plural(len(done.mutants), 'mutant')} would be added")
        return
    say(f"added {plural(len(done.mutants), 'mutant')} to {case}: {', '.join(name for name, _ in done.mutants)}")
    for path in done.signed_in:
        say(f"renewed the case's pin in {path}")
    if done.unsigned:
        say(f"{done.unsigned}; sign the experiment: metric-benchmark sign EXPERIMENT")


def _requests(
    operators: Sequence[str], params: Sequence[str], seeds: Sequence[int], name: str | None
) -> list[NewMutant]:
    """Returns what is asked for; nothing is matched by its place: options beside an operator are for it alone."""
    from metric_benchmark.mutating import NewMutant

    beside = [option for option, given in (("--params", params), ("--seed", seeds), ("--id", name)) if given]
    if beside and (len(operators) > 1 or _is_mapping(operators[0])):
        raise typer.BadParameter(
            "goes with a single operator given by name; say it in each --operator: "
            "'{name: tool_removal, params: {commands: [cat]}, seed: 7, id: no-cat}'",
            param_hint=beside[0],
        )
    if not beside:
        return _each(operators, "--operator", _operator)
    given = _each(params, "--params", _parameters) or [{}]
    made = [NewMutant(operators[0], one, seed, name) for one in given for seed in seeds or [0]]
    if name is not None and len(made) > 1:
        raise typer.BadParameter(f"{len(made)} mutants are asked for, and an id names one", param_hint="--id")
    return made


def _each[T](texts: Sequence[str], option: str, read: Callable[[str, str], T]) -> list[T]:
    """Reads what an option was given, each time it was given.

    Raises:
        ConfigError: with all that is wrong, each with its line; of several, each with its number.
    """
    from metric_benchmark.errors import ConfigError, Problem

    read_ones: list[T] = []
    problems: list[Problem] = []
    for number, text in enumerate(texts, start=1):
        try:
            read_ones.append(read(text, option if len(texts) == 1 else f"{option} {number}"))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return read_ones


def _operator(text: str, shown: str) -> NewMutant:
    from metric_benchmark.config import parse_model
    from metric_benchmark.config.yaml_source import parse_yaml
    from metric_benchmark.mutating import NewMutant, WrittenOperator

    if not _is_mapping(text):
        return NewMutant(text, {})
    source = parse_yaml(Path(shown), os.fsencode(text), shown, such_as="name")
    found = parse_model(source, WrittenOperator)
    return NewMutant(found.name, found.params, found.seed, found.id)


def _is_mapping(text: str) -> bool:
    return text.lstrip().startswith("{")


def _parameters(text: str, shown: str) -> dict[str, Any]:
    from metric_benchmark.config.yaml_source import parse_yaml

    return parse_yaml(Path(shown), os.fsencode(text), shown, such_as="max_actions").value


def _difference(done: Mutated) -> str:
    """Returns the lines that would be added, with their surroundings."""
    name = str(done.case)
    lines = difflib.unified_diff(
        done.before.splitlines(), done.after.splitlines(), fromfile=name, tofile=name, lineterm=""
    )
    return "\n".join(lines)


def _as_json(done: Mutated, *, is_written: bool) -> dict[str, Any]:
    return {
        "case": str(done.case),
        "mutants": [{"id": name, **operator.model_dump()} for name, operator in done.mutants],
        "is_written": is_written,
        "signed_in": [str(path) for path in done.signed_in],
    }
