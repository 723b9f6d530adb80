# SPDX-License-Identifier: Apache-2.0
"""Puts the commands together and turns what they raise into messages and exit statuses."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from metric_benchmark.cli import (
    backfilling,
    evidence,
    executing,
    inputs,
    judging,
    matrix,
    mutating,
    scaffolding,
    stages,
    surroundings,
    validating,
)
from metric_benchmark.cli.console import fail, note
from metric_benchmark.errors import ConfigError, MetricBenchmarkError, StorageError

OWN_FAULT = 70
INTERRUPTED = 130

app = typer.Typer(
    name="metric-benchmark",
    help="Does a coverage metric over an agent-eval suite predict how good the suite is at catching faulty agents?",
    epilog="Start with: metric-benchmark init my-experiment",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help: it takes a third of the time, and never holds colour codes that a log would show.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for group in (
    scaffolding, inputs, mutating, executing, stages, evidence, validating, judging, matrix, backfilling, surroundings,
):  # fmt: skip
    group.add_commands(app)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Does a coverage metric over an agent-eval suite predict how good the suite is at catching faulty agents?"""
    # Both were taken out by `main`, so that they may stand anywhere on the line.
    del version, debug


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        argv: the words after the program's name (default: those of this process).

    Returns:
        The exit status (1-domain, "Commands").
    """
    words = list(sys.argv[1:] if argv is None else argv)
    is_debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words[:1] == ["--version"]:
        from importlib.metadata import version

        typer.echo(f"metric-benchmark {version('metric-benchmark')}")
        return 0
    with _stopping():
        try:
            app(args=words, prog_name="metric-benchmark")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:  # noqa: BLE001 - whatever it is, a user is told in one line
            if is_debug:
                traceback.print_exc()
            return _explain(error)
    return 0


def _explain(error: Exception) -> int:
    """Prints what went wrong and returns the exit status that says so."""
    if isinstance(error, MetricBenchmarkError):
        for problem in error.problems:
            fail(str(problem))
        return error.exit_status
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        fail(f"{error.filename or 'a file'}: cannot be written: {error.strerror}; what was there before is intact")
        return StorageError.exit_status
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        path = Path(os.fsdecode(error.filename or ""))
        longest = max(path.parts, key=len, default="")
        sizes = f"a name of {len(os.fsencode(longest))} bytes in a path of {len(os.fsencode(path))}"
        fail(f"{longest[:40]}...: {sizes} is more than a file may have; give a shorter one")
        return ConfigError.exit_status
    message = " ".join(str(error).split()) or "no message"
    fail(f"a fault of metric-benchmark itself: {type(error).__name__}: {message}; --debug shows where")
    return OWN_FAULT


@contextmanager
def _stopping() -> Generator[None]:
    """Makes the signals that ask a program to stop raise, so that children and locks are let go of in order."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        note(f"{signal.Signals(number).name}: stopping; trials that have a verdict are kept")
        raise KeyboardInterrupt

    before: dict[int, object] = {}
    is_main = threading.current_thread() is threading.main_thread()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_main else ():
        # A signal that was ignored from the start (nohup, a shell's background job) stays so.
        if signal.getsignal(name) != signal.SIG_IGN:
            before[name] = signal.signal(name, stop)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)  # pyright: ignore[reportArgumentType]
