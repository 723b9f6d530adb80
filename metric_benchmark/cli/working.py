# SPDX-License-Identifier: Apache-2.0
"""Shows on a terminal what a command is busy with and for how long; elsewhere a plain line, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from metric_benchmark.cli.console import note


@contextmanager
def working(text: str | None = None, *, is_terminal: bool | None = None) -> Generator[Callable[[str], None]]:
    """Gives a function that is told what is going on now.

    Args:
        text: what it starts with; elsewhere than on a terminal it is not said, as it is all there is to say.
        is_terminal: whether a line can be kept up to date (default: whether standard error is a terminal).
    """
    if not (sys.stderr.isatty() if is_terminal is None else is_terminal):
        yield note
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        line = progress.add_task(text or "working", total=None)
        yield lambda now: progress.update(line, description=now)
