# SPDX-License-Identifier: Apache-2.0
"""Commands that judge finished experiments: `check` and `compare`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metric_benchmark.cli.console import say, say_json
from metric_benchmark.cli.options import JsonOption
from metric_benchmark.cli.working import working

if TYPE_CHECKING:
    from metric_benchmark.reporting.data import ReportData


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Gate for CI: exit status 1 when a threshold is missed.",
        epilog="Example: metric-benchmark check runs/mine --junit check.xml",
    )(check)
    app.command(
        short_help="Compare two finished experiments, paired.",
        epilog="Example: metric-benchmark compare runs/old runs/new\n\n"
        "Two metrics of one experiment: metric-benchmark compare runs/mine runs/mine --metric tool_calls=tool_bigrams",
    )(compare)


def _folder(what: str, name: str = "DIR") -> typer.models.ArgumentInfo:
    return typer.Argument(metavar=name, help=what, show_default=False, file_okay=False)


def _file(what: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="FILE", help=what, show_default=False, dir_okay=False)


def check(
    folder: Annotated[Path, _folder("The evidence root of a finished experiment.")],
    junit: Annotated[Path | None, _file("Write the checks as JUnit XML.")] = None,
    markdown: Annotated[Path | None, _file("Write a summary for a pull request.")] = None,
    badge: Annotated[Path | None, _file("Write a badge as SVG.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Checks a finished experiment against the `gates` of its analysis.yaml; exit status 1 when one is missed.

    Without gates, every registered hypothesis must be supported.
    """
    from metric_benchmark.evidence.writes import write_bytes
    from metric_benchmark.reporting.gate import check_gates
    from metric_benchmark.reporting.gate_output import to_badge, to_junit, to_markdown

    data = _load(folder)
    result = check_gates(data)
    for path, content in (
        (junit, lambda: to_junit(result)),
        (markdown, lambda: to_markdown(result, data).encode()),
        (badge, lambda: to_badge(result).encode()),
    ):
        if path is not None:
            write_bytes(path.absolute(), content())
    if as_json:
        say_json({"passed": not result.failed, "checks": [asdict(found) for found in result.checks]})
    else:
        for found in result.checks:
            mark = typer.style("FAILED", fg="red") if found.outcome == "failed" else typer.style("passed", fg="green")
            say(f"{mark}  {found.case or result.experiment}: {found.message}")
        say(f"{len(result.checks) - len(result.failed)} of {len(result.checks)} checks passed")
    raise typer.Exit(result.exit_status)


def compare(
    old: Annotated[Path, _folder("The evidence root of the one experiment.", "A")],
    new: Annotated[Path, _folder("The evidence root of the other.", "B")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="Compare metric OLD of A with metric NEW of B; repeatable (default: every metric with itself).",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    markdown: Annotated[Path | None, _file("Write the comparison as Markdown.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compares two finished experiments case by case: mutant scores, coverage, associations, with intervals."""
    import numpy as np

    from metric_benchmark.evidence.writes import write_bytes
    from metric_benchmark.reporting.compare import compare as compare_reports
    from metric_benchmark.reporting.compare_output import comparison_markdown, comparison_rows, render_comparison

    pairs = _pairs(metric)
    with working("comparing"):
        found = compare_reports(_load(old), _load(new), np.random.default_rng(seed), metrics=pairs)
    if markdown is not None:
        write_bytes(markdown.absolute(), comparison_markdown(found).encode())
    if as_json:
        say_json({"a": found.name_a, "b": found.name_b, "rows": comparison_rows(found)})
        return
    from rich.console import Console

    Console().print(render_comparison(found))


def _pairs(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    pairs = [pair.partition("=") for pair in given]
    wrong = [pair for pair, (old, _, new) in zip(given, pairs, strict=True) if not old or not new]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r}: write OLD=NEW, e.g. tool_calls=tool_bigrams", param_hint="--metric")
    return {old: new for old, _, new in pairs}


def _load(folder: Path) -> ReportData:
    from metric_benchmark.pipeline.saved import saved_root
    from metric_benchmark.reporting.data import load_report

    return load_report(saved_root(folder))
