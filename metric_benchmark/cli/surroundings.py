# SPDX-License-Identifier: Apache-2.0
"""The command about this machine: `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from metric_benchmark.cli.console import plural, say, say_json
from metric_benchmark.cli.options import JsonOption

if TYPE_CHECKING:
    from metric_benchmark.doctor import Cleaned

_MARKS = {"works": ("ok", "green"), "absent": ("--", "yellow"), "broken": ("!!", "red")}


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Say what works on this machine; clean up.",
        epilog="Example: metric-benchmark doctor\n\nAfter a crash: metric-benchmark doctor --clean",
    )(doctor)


def doctor(
    clean: Annotated[
        bool, typer.Option("--clean", help="End sandboxes and remove containers whose run is gone.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Says what works on this machine, and what to do about what does not. Prints no secret."""
    from metric_benchmark.doctor import can_run_trials, examine, remove_leftovers

    cleaned = remove_leftovers() if clean else None
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
                **({} if cleaned is None else _cleaned_json(cleaned)),
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
    if cleaned is not None:
        n_docker = cleaned.docker.n_all
        ended = f"{plural(len(cleaned.sandboxes), 'left-over sandbox')} ended"
        say(ended if cleaned.sandboxes else "no left-over sandboxes")
        say(f"{plural(n_docker, 'left-over thing')} removed from Docker" if n_docker else "nothing left over in Docker")
    say(
        "trials can be run here" if is_able else "trials cannot be run here: neither the local sandbox nor Docker works"
    )


def _cleaned_json(cleaned: Cleaned) -> dict[str, object]:
    return {
        "ended_sandboxes": list(cleaned.sandboxes),
        "removed_containers": list(cleaned.docker.containers),
        "removed_networks": list(cleaned.docker.networks),
        "removed_volumes": list(cleaned.docker.volumes),
    }
