# SPDX-License-Identifier: Apache-2.0
"""Finds what a process started, down to its sandboxes, so that a test can tell whether any of it was left behind."""

from __future__ import annotations

import time
from pathlib import Path

from metric_benchmark.execution.sandbox import running_sandboxes

#: A process: its id, and when it started, since ids are used again.
Process = tuple[int, str]


def _table() -> dict[int, tuple[int, str]]:
    """Parent and start time of every process that is not a zombie."""
    found: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found[int(entry.name)] = (int(fields[1]), fields[19])
    return found


def started_by(pid: int) -> set[Process]:
    """The process, all its descendants, and the sandboxes they own."""
    table = _table()
    family = {pid}
    while grown := {child for child, (parent, _) in table.items() if parent in family} - family:
        family |= grown
    owned = {sandbox for sandbox in running_sandboxes() if _owner(sandbox) in family}
    return {(member, table[member][1]) for member in family | owned if member in table}


def sandboxes_of(pid: int) -> set[int]:
    """The sandboxes that a process or one of its descendants owns."""
    family = {member for member, _ in started_by(pid)}
    return {sandbox for sandbox in running_sandboxes() if sandbox in family}


def is_running(pid: int, start: str) -> bool:
    """Whether this very process still runs."""
    return _table().get(pid, (0, ""))[1] == start


def left_of(processes: set[Process], *, within_s: float = 15.0) -> list[str]:
    """Those that still run after a while, by command line."""
    deadline = time.monotonic() + within_s
    while left := [pid for pid, start in processes if _table().get(pid, (0, ""))[1] == start]:
        if time.monotonic() > deadline:
            return [f"{pid}: {command(pid)}" for pid in left]
        time.sleep(0.2)
    return []


def _owner(pid: int) -> int:
    return int(command(pid).rpartition("owner=")[2].split(" ")[0] or 0)


def command(pid: int) -> str:
    """The command line of a process; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
