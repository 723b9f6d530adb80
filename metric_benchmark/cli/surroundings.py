# SPDX-License-Identifier: Apache-2.0
"""The command about this machine: `doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from metric_benchmark.cli.console import plural, say, say_json
from metric_benchmark.cli.options import JsonOption

_MARKS = {"works": ("ok", "green"), "absent": ("--", "yellow"), "broken": ("!!", "red")}


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Say what works on this machine; clean up.",
        epilog="Example: metric-benchmark doctor\n\nAfter a crash: metric-benchmark doctor --clean",
    )(doctor)


def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="End sandboxes whose owner is gone.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Says what works on this machine, and what to do about what does not. Prints no secret."""
    from metric_benchmark.doctor import can_run_trials, examine, remove_leftovers

    ended = remove_leftovers() if clean else []
    findings = examine()
    is_able = can_run_trials(findings)
    if as_json:
        say_json(
            {
                "can_run_trials": is_able,
                "checks": {
                    f.name: {"state": f.state, "found": f.found, **({"remedy": f.remedy} if f.remedy else {})}
                    for f in findings
                },
                **({"ended_sandboxes": ended} if clean else {}),
            }
        )
        return
    width = max(len(f.name) for f in findings)
    for finding in findings:
        mark, color = _MARKS[finding.state]
        say(f"{typer.style(mark, fg=color)}  {finding.name.ljust(width)}  {finding.found}")
        if finding.remedy:
            say(f"    {' ' * width}  -> {finding.remedy}")
    say()
    if clean:
        say(f"{plural(len(ended), 'left-over sandbox')} ended" if ended else "no left-over sandboxes")
    say(
        "trials can be run here" if is_able else "trials cannot be run here: neither the local sandbox nor Docker works"
    )
