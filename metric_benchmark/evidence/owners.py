# SPDX-License-Identifier: Apache-2.0
"""Who holds a lock: written into its file as one line per holder, and asked whether that process still lives."""

from __future__ import annotations

import functools
import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

_TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class Owner:
    """A process that took a lock.

    Attributes:
        start: when it took it.
        ticks: when the process itself started, in ticks since the machine did; a later process of its number differs.
        place: the boot of a machine and the process namespace in it, where `pid` means something.
    """

    pid: int
    host: str
    start: str
    ticks: int
    place: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}, started {self.start}"

    def to_json(self) -> str:
        """Returns what `parse_owner` reads."""
        return json.dumps(asdict(self))

    @property
    def machine(self) -> str:
        """The boot of the machine: the same for all process namespaces, and so all containers, on it."""
        return self.place.partition("/")[0]

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended; nothing is known of other machines."""
        return self.place == _place() and process_ticks(self.pid) != self.ticks


def me() -> Owner:
    """Returns this process, as the owner of what it takes now."""
    pid = os.getpid()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Owner(pid, socket.gethostname(), now, process_ticks(pid) or 0, _place())


def process_ticks(pid: int) -> int | None:
    """Returns when a process started, in ticks since the machine did; None when there is none, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def add_owner(path: Path, *, is_alone: bool) -> None:
    """Writes this process into a lock's file; where it is alone, in place of all who held it before."""
    # Others that share the lock append theirs at the same time.
    with path.open("wb" if is_alone else "ab", buffering=0) as stream:
        stream.write(me().to_json().encode() + b"\n")


def read_owners(handle: int) -> list[Owner]:
    """Returns who wrote into a lock's file, the latest last; lines that are not whole are left out."""
    start = max(0, os.fstat(handle).st_size - _TAIL_BYTES)
    owners = [parse_owner(line) for line in os.pread(handle, _TAIL_BYTES, start).splitlines()]
    return [owner for owner in owners if owner is not None]


def parse_owner(text: bytes | str) -> Owner | None:
    """Reads an owner; None where it is none."""
    try:
        return Owner(**json.loads(text))
    except (ValueError, TypeError):
        return None


@functools.cache
def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()
