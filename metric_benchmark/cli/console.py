# SPDX-License-Identifier: Apache-2.0
"""What commands print: results on standard output, everything else on standard error, colour on terminals only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer


def say(text: str = "") -> None:
    """Prints a line of the result."""
    typer.echo(text)


def say_json(value: Mapping[str, Any]) -> None:
    """Prints the result as one JSON object."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def note(text: str) -> None:
    """Prints a line about what is going on."""
    typer.echo(text, err=True)


def warn(text: str) -> None:
    """Prints a warning."""
    typer.echo(f"{typer.style('warning:', fg='yellow')} {text}", err=True)


def fail(text: str) -> None:
    """Prints an error."""
    typer.echo(f"{typer.style('error:', fg='red')} {text}", err=True)


def say_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table in columns as wide as their cells; nothing is cut, whatever the width of the terminal.

    Numbers are aligned to the right; None is shown as `-`.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(header, *cells, strict=True)]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    say(typer.style(_line(header, widths, right), bold=True))
    for row in cells:
        say(_line(row, widths, right))


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(texts, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:z.3f}" if isinstance(value, float) else str(value)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def plural(number: int, noun: str, several: str | None = None) -> str:
    """Returns a number and its noun, e.g. `1 trial`, `2 trials`; `several` is a plural that is not made with an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {several or f'{noun}s'}"
