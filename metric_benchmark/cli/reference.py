# SPDX-License-Identifier: Apache-2.0
"""Writes the reference of all commands as Markdown, from the commands themselves: docs/tools.md is made of it."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator
from typing import Any

import typer

from metric_benchmark import errors
from metric_benchmark.cli.app import INTERRUPTED, OWN_FAULT, app

PROGRAM = "metric-benchmark"
_WIDTH = 100


def cli_reference() -> str:
    """Returns a Markdown section per command: what `--help` says about it, and a table of all of them first."""
    found = list(_commands(typer.main.get_command(app)))
    lines = ["| command | does |", "|---|---|"]
    for words, summary in found:
        name = " ".join(words)
        lines.append(f"| [`{name}`](#{'-'.join(words)}) | {summary} |")
    lines += ["", *_statuses()]
    for words, _ in found:
        lines += ["", f"## {' '.join(words)}", "", "```text", _help(words), "```"]
    return "\n".join(lines) + "\n"


def command_words() -> tuple[tuple[str, ...], ...]:
    """Returns the words of every command, e.g. `("subsets", "generate")`."""
    return tuple(words for words, _ in _commands(typer.main.get_command(app)))


# Typer carries its own copy of Click or uses an installed one, depending on its version, hence no types.
def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    children: dict[str, Any] = getattr(command, "commands", {})
    if not children:
        yield words, command.get_short_help_str(limit=200).rstrip(".")
    for name, child in children.items():
        yield from _commands(child, (*words, name))


def _help(words: tuple[str, ...]) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        typer.main.get_command(app).main(args=[*words, "--help"], prog_name=PROGRAM, terminal_width=_WIDTH)
    return said.getvalue().strip()


def _statuses() -> Iterator[str]:
    """Yields the table of exit statuses, from the exceptions that have them."""
    yield from ("| exit status | means |", "|---:|---|")
    yield "| 0 | done, whatever the verdict |"
    yield "| 1 | `check`: a threshold was missed |"
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.MetricBenchmarkError) and "exit_status" in vars(kind)
    ]
    told: set[int] = {OWN_FAULT}
    for kind in sorted(kinds, key=lambda kind: kind.exit_status):
        if kind.exit_status not in told:
            told.add(kind.exit_status)
            summary = (inspect.getdoc(kind) or "").splitlines()[0].partition(" (exit ")[0].rstrip(".")
            yield f"| {kind.exit_status} | {summary[:1].lower()}{summary[1:]} |"
    yield f"| {OWN_FAULT} | a fault of metric-benchmark itself |"
    yield f"| {INTERRUPTED} | interrupted; what has a verdict is kept |"
