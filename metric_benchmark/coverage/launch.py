# SPDX-License-Identifier: Apache-2.0
"""Runs somebody else's program on a folder: bounded in time and output, and kept away from evidence where it works.

Where Linux namespaces are to be had, the program gets a process tree and a mount table of its own in which the given
folders are empty, and no network unless it asked for it. Elsewhere it merely is not told where anything is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
#: Covers the hidden folders, then gives up every right it would take to uncover them. The program must not be the
#: first process of its tree: that one is immune to its own signals.
_COVER = """
set -e
while [ "$1" != -- ]; do mount -t tmpfs -o size=4k,mode=555 tmpfs "$1"; shift; done
shift
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs -- sh -c '"$@"; exit $?' sh "$@"
"""
_TOOLS = ("unshare", "setpriv", "mount", "sh")
_PASSED_ON = ("LANG", "LC_ALL", "PATH", "PYTHONPATH", "SSL_CERT_FILE", "TZ")
_MAX_STDERR_BYTES = 256 * 1024
_POLL_S = 0.05


@dataclass(frozen=True)
class Finished:
    """How a program ended.

    Args:
        ended: by itself, or why it was killed.
        returncode: its exit status; negative for a signal.
        stdout: at most as much as was allowed.
        stderr: the last 256 KiB.
    """

    ended: Literal["exit", "timeout", "too_much_output"]
    returncode: int
    stdout: bytes
    stderr: bytes


@functools.cache
def can_isolate() -> bool:
    """Tells whether programs can be given namespaces of their own on this machine. About 30 ms, once."""
    if not all(map(shutil.which, _TOOLS)):
        return False
    try:
        with tempfile.TemporaryDirectory() as folder:
            tried = subprocess.run(
                [*_UNSHARE, "--net", "--", "sh", "-c", _COVER, "sh", folder, "--", "true"],
                capture_output=True,
                timeout=10,
                check=False,
            )
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 0


def _to_hide(folders: Iterable[Path], cwd: Path) -> list[str]:
    """Returns the folders that can be hidden: not those the program itself lives or works in."""
    package = Path(__file__).resolve().parents[2]
    needed = [cwd.resolve(), Path(sys.prefix), Path(sys.base_prefix), package]
    hidden: list[Path] = []
    for folder in sorted({folder.resolve() for folder in folders}):
        is_below = any(folder.is_relative_to(outer) for outer in hidden)
        if folder.is_dir() and not is_below and not any(path.is_relative_to(folder) for path in needed):
            hidden.append(folder)
    return [str(folder) for folder in hidden]


def minimal_environment(home: Path, names: Iterable[str] = ()) -> dict[str, str]:
    """Returns the environment of a program: what any program needs, and the variables asked for by name."""
    wanted = {*_PASSED_ON, *names}
    kept = {name: value for name, value in os.environ.items() if name in wanted}
    return {**kept, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}


def launch(
    argv: Sequence[str],
    *,
    cwd: Path,
    stdin: bytes,
    environment: Mapping[str, str],
    timeout_s: float,
    max_stdout_bytes: int,
    hide: Iterable[Path] = (),
    network: bool = False,
) -> Finished:
    """Runs a program to its end, or kills it and everything it started.

    Args:
        argv: program and arguments.
        cwd: its folder.
        stdin: what it reads.
        environment: all of its environment.
        timeout_s: seconds it may take.
        max_stdout_bytes: what it may write to stdout.
        hide: folders that are empty for it, where that can be had.
        network: whether it may use the network; only an isolated program can be kept from it.

    Raises:
        OSError: it cannot be started.
    """
    command = list(argv)
    is_isolated = can_isolate()
    if is_isolated:
        net = () if network else ("--net",)
        command = [*_UNSHARE, *net, "--", "sh", "-c", _COVER, "sh", *_to_hide(hide, cwd), "--", *argv]
        # The shell would answer a missing program with its own message and status 127.
        if shutil.which(argv[0], path=environment.get("PATH")) is None and not (cwd / argv[0]).is_file():
            raise FileNotFoundError(2, "no such program", argv[0])
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    with process:
        try:
            found = _collect(process, time.monotonic() + timeout_s, max_stdout_bytes)
        finally:
            _kill(process)
    # The shell in between reports a signal as 128 + its number.
    by_signal = is_isolated and found.returncode > 128
    return replace(found, returncode=128 - found.returncode) if by_signal else found


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the whole session: it may have left children behind that hold the pipes open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _collect(process: subprocess.Popen[bytes], deadline: float, max_stdout_bytes: int) -> Finished:
    assert process.stdout
    assert process.stderr
    stdout, stderr = bytearray(), bytearray()
    ended: Literal["exit", "timeout", "too_much_output"] = "exit"
    is_killed = False
    with selectors.DefaultSelector() as selector:
        pipes: dict[IO[bytes], bytearray] = {process.stdout: stdout, process.stderr: stderr}
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(_POLL_S):
                pipe: IO[bytes] = key.fileobj  # pyright: ignore[reportAssignmentType]
                chunk = os.read(pipe.fileno(), 65536)
                if not chunk:
                    selector.unregister(pipe)
                pipes[pipe] += chunk
            del stderr[:-_MAX_STDERR_BYTES]
            if is_killed:
                continue
            if len(stdout) > max_stdout_bytes:
                ended, is_killed = "too_much_output", True
            elif time.monotonic() > deadline:
                ended, is_killed = "timeout", True
            elif process.poll() is not None:
                is_killed = True
            if is_killed:
                _kill(process)
            if ended == "too_much_output":
                break
    return Finished(ended, process.wait(), bytes(stdout), bytes(stderr))
