# SPDX-License-Identifier: Apache-2.0
"""Says whether sandboxes work on this machine, and finds those that run."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from metric_benchmark.execution.sandbox.launcher import request_sandbox
from metric_benchmark.execution.sandbox.process import (
    SandboxError,
    SandboxSpec,
    encode_spec,
    read_start_message,
)

_PROBE_SECONDS = 10.0
# Kernel settings that forbid user namespaces: the value that does, what to set, whether root is free of it.
_SWITCHES = {
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=10000", False),
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1", True),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0", True),
}


def check_sandbox() -> list[str]:
    """Why sandboxes do not work for this user on this machine; an empty list when they do.

    Starts one and ends it again (some 50 ms the first time). Does not import Harbor.
    """
    if sys.platform != "linux":
        return [f"the local sandbox needs Linux, this is {sys.platform}: use the docker environment"]
    if not Path("/bin/bash").exists():
        return ["/bin/bash is missing, which every command in a sandbox is run by: install bash"]
    try:
        _probe()
    except (SandboxError, OSError) as error:
        return [f"{error or type(error).__name__}{_advice()}"]
    return []


def _probe() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            request_sandbox(encode_spec(SandboxSpec(disk_mb=16, network="both")), theirs)
        ours.settimeout(_PROBE_SECONDS)
        while "ready" not in read_start_message(ours.recv(65536)):
            pass


def _advice() -> str:
    for path, (bad, remedy, root_is_free) in _SWITCHES.items():
        try:
            forbids = Path("/proc/sys", path).read_text(encoding="ascii").strip() == bad
        except OSError:
            continue  # this kernel has no such setting
        if forbids and not (root_is_free and os.geteuid() == 0):
            return f" (allow user namespaces with `sysctl -w {remedy}`, or use the docker environment)"
    return " (in a container, user namespaces and mounts must be allowed; or use the docker environment)"


def running_sandboxes() -> list[int]:
    """Process ids of the PID 1 of every sandbox that runs on this machine, whoever owns it."""
    return sorted(pid for pid, _ in _sandboxes())


def clean_leftovers() -> list[int]:
    """End sandboxes whose owner is gone; they end by themselves, so this is for the case that one did not.

    Returns:
        The process ids that were ended.
    """
    ended: list[int] = []
    for pid, owner in _sandboxes():
        if not Path(f"/proc/{owner}").exists():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # ended meanwhile, or another user's
            ended.append(pid)
    return ended


def _sandboxes() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            title = Path(entry.path, "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
            if not title.startswith("mb-sandbox "):
                continue
            status = Path(entry.path, "status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        ids = [word for line in status.splitlines() if line.startswith("NSpid:") for word in line.split()[1:]]
        if len(ids) > 1 and ids[-1] == "1":
            found.append((int(entry.name), int(title.rpartition("owner=")[2] or 0)))
    return found
