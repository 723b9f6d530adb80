# SPDX-License-Identifier: Apache-2.0
# No pathlib in here: it would double the time the interpreter takes to start.
# ruff: noqa: PTH123, PTH208
"""PID 1 of a sandbox: sets the place up, then forks one supervisor per request until its owner is gone."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import socket
import time
from typing import Any, NoReturn

from . import kernel
from .root import RootSpec, enter_root
from .supervisor import supervise

# Docker's default set by number: chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw
# sys_chroot mknod audit_write setfcap. Without sys_admin sandbox root cannot undo the mounts that protect /proc.
KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
# How often processes are counted, where the kernel does not bound them.
_WATCH_MS = 100


def run_init(spec: dict[str, Any], channel: socket.socket) -> NoReturn:
    """Become the sandbox's PID 1; ends, and with it every process inside, when ``channel`` closes."""
    status = 1
    try:
        network, watched = _set_up(spec)
        channel.send(b'{"ready": true}')
        _serve(spec, channel, network, watched)
        status = 0
    except BaseException as error:  # noqa: BLE001 - PID 1 must not return into the launcher's code
        with contextlib.suppress(OSError):
            channel.send(json.dumps({"error": kernel.describe(error)}).encode())
    os._exit(status)


def _set_up(spec: dict[str, Any]) -> tuple[int | None, bool]:
    """Build the root, give up what programs inside must not get; return the private network and whether to watch."""
    kernel.set_title(f"mb-sandbox {spec['token']} owner={spec['owner']}")
    kernel.set_name("mb-sandbox")
    kernel.new_session_keyring()
    socket.sethostname(spec["hostname"])
    with open("/proc/self/oom_score_adj", "wb") as handle:
        handle.write(b"500")  # when memory runs out a sandbox goes before the host's own processes
    private = _make_private_network() if spec["network"] == "both" else None
    if spec["network"] == "none":
        kernel.raise_loopback()
    bounded = enter_root(
        RootSpec(
            base=spec["base"],
            disk_mb=spec["disk_mb"],
            max_processes=spec["max_processes"] if spec["pid_max"] else None,
            network=spec["network"] != "none",
            hostname=spec["hostname"],
            folders=tuple(spec["folders"]),
        )
    )
    # RLIMIT_NPROC binds everybody but the host's root.
    watched = not bounded and spec["root"]
    if watched:
        _come_first()
    kernel.limit_capabilities(KEPT_CAPABILITIES)
    kernel.forbid_inspection()
    os.umask(0o022)
    _leave_host_files()
    gc.freeze()
    return private, watched


def _leave_host_files() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard, inheritable=False)
    os.close(null)


def _make_private_network() -> int:
    """A network namespace with loopback alone, kept open for the phases that forbid the network."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            os.unshare(kernel.CLONE_NEWNET)
            kernel.raise_loopback()
            socket.send_fds(theirs, [b"1"], [os.open("/proc/self/ns/net", os.O_RDONLY)])
        finally:
            os._exit(0)
    theirs.close()
    _, fds = kernel.receive_with_descriptors(ours, 1, 1)
    ours.close()
    if not fds:
        raise OSError("a private network namespace could not be made")
    return fds[0]


def _serve(spec: dict[str, Any], channel: socket.socket, private: int | None, watched: bool) -> None:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while True:
        if not poll.poll(_WATCH_MS if watched else None):
            if sum(name.isdigit() for name in os.listdir("/proc")) > spec["max_processes"]:
                _kill_everything()
            continue
        data, fds = kernel.receive_with_descriptors(channel, 16, 1)
        if not data:
            return
        if not fds:  # the host gave up on a supervisor that does not answer
            _kill_everything()
            continue
        try:
            child = os.fork()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(fds[0], b'{"error": "no process can be started: %s"}\n' % str(error.strerror).encode())
            child = -1
        if child == 0:
            channel.close()
            supervise(socket.socket(fileno=fds[0]), private, spec["max_processes"])
        for fd in fds:
            os.close(fd)


def _come_first() -> None:
    """Runs this process, not its children, before all others; among ten thousand of a fork bomb it gets no turn."""
    with contextlib.suppress(OSError):  # A container's root may not; then it takes longer.
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _kill_everything() -> None:
    """Kill all other processes and see them gone; what the host asks for next does not meet them any more."""
    until = time.monotonic() + 2.0
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            kernel.kill_all_others()
            if os.waitpid(-1, os.WNOHANG)[0] == 0:  # all are children of PID 1 in the end, and reaped by the kernel
                time.sleep(0.001)
