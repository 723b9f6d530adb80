# SPDX-License-Identifier: Apache-2.0
"""The command that writes mutants into a case: `mutate`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
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
        "'{commands: [cat]}'\n\nSeveral of one operator: metric-benchmark mutate my-experiment/case.yaml --operator "
        "action_budget --params '{max_actions: 3}' --params '{max_actions: 5}' --dry-run",
    )(mutate)


def mutate(
    case: Annotated[
        Path, typer.Argument(metavar="CASE", help="A case.yaml.", show_default=False, exists=True, dir_okay=False)
    ],
    operator: Annotated[
        list[str],
        typer.Option("--operator", metavar="NAME", help="An operator of `mutants`; repeatable.", show_default=False),
    ],
    params: Annotated[
        list[str] | None,
        typer.Option(
            metavar="YAML",
            help="Its parameters, e.g. '{max_actions: 3}'. The nth goes with the nth operator; a single operator makes "
            "one mutant of each.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--id", metavar="ID", help="The mutant's id, one per mutant (default: made up).", show_default=False
        ),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(
            min=0, help="The operator's seed: one for all, or one per mutant (default: 0).", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Adds mutants of the baseline's agent to a case, and renews its pin in the experiment that names it.

    An operator that is unknown, has wrong parameters or cannot act on the agent is refused, and nothing is written.
    """
    from metric_benchmark.mutating import add_mutants

    done = add_mutants(case, _requests(operator, params or [], names or [], seed or []), dry_run=dry_run)
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
    operators: Sequence[str], params: Sequence[str], names: Sequence[str], seeds: Sequence[int]
) -> list[NewMutant]:
    """Puts together what belongs together: by place, and one operator or one seed for all."""
    from metric_benchmark.mutating import NewMutant

    count = max(len(operators), len(params)) if len(operators) == 1 else len(operators)
    for option, given in (("--params", params), ("--id", names), ("--seed", seeds)):
        allowed = {0, count, 1} if option == "--seed" else {0, count}
        if len(given) not in allowed:
            raise typer.BadParameter(
                f"{len(given)} given for {plural(count, 'mutant')}; give one per mutant, in the order of --operator "
                "(an empty one is '{}'), or none",
                param_hint=option,
            )
    return [
        NewMutant(
            operator=operators[i] if len(operators) > 1 else operators[0],
            params=_params(params[i]) if params else {},
            seed=(seeds[i] if len(seeds) > 1 else seeds[0]) if seeds else 0,
            id=names[i] if names else None,
        )
        for i in range(count)
    ]


def _params(text: str) -> dict[str, Any]:
    import yaml

    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    if not isinstance(value, dict):
        raise typer.BadParameter(
            f"{text!r} is not a YAML mapping; write it like '{{max_actions: 3}}'", param_hint="--params"
        )
    return {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


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
