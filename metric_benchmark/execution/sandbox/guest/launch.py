# SPDX-License-Identifier: Apache-2.0
# No pathlib in here: it would double the time the interpreter takes to start.
# ruff: noqa: PTH123
"""The launcher: a small process outside every sandbox that forks one PID 1 per sandbox asked for.

It exists so that a sandbox costs a fork and not the start of an interpreter, and so that the (large, threaded) process
that drives Harbor never forks itself. It ends when the other end of its socket does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
from typing import Any, NoReturn

from . import kernel
from .init import run_init

_NAMESPACES = (
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
)
_MAX_ID = 65536


def main() -> None:
    """Serve requests on descriptor 3: one packet with a JSON description and the sandbox's end of a socket pair."""
    os.closerange(4, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 65536)
    kernel.set_name("mb-launcher")
    kernel.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps ended sandboxes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a handler would let a sandbox interrupt its own PID 1
    gc.disable()
    gc.freeze()
    requests = socket.socket(fileno=3)
    requests.set_inheritable(False)
    while True:
        data, fds = kernel.receive_with_descriptors(requests, 65536, 1)
        if not data:
            break
        if fds:
            _start(json.loads(data), socket.socket(fileno=fds[0]), requests)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)  # with SIGCHLD ignored this waits for all children


def _start(spec: dict[str, Any], channel: socket.socket, requests: socket.socket) -> None:
    """Fork the process that makes the namespaces, and give it the id maps only a process outside can write."""
    with channel:
        unshared_r, unshared_w = os.pipe()
        mapped_r, mapped_w = os.pipe()
        try:
            child = os.fork()
        except OSError as error:
            _send(channel, {"error": f"fork: {error}"})
            child = -1
        if child == 0:
            requests.close()
            os.close(unshared_r)
            os.close(mapped_w)
            _enter_namespaces(spec, channel, unshared_w, mapped_r)
        os.close(unshared_w)
        os.close(mapped_r)
        try:
            if child > 0 and os.read(unshared_r, 1):
                _write_maps(child)
                os.write(mapped_w, b"1")
        except OSError as error:
            _send(channel, {"error": f"user id map: {error.strerror}"})
        finally:
            os.close(unshared_r)
            os.close(mapped_w)


def _write_maps(child: int) -> None:
    """As root map every id this process has below 65536 to itself; else the caller alone, to root."""
    proc = f"/proc/{child}"
    if os.geteuid() == 0:
        for kind in ("uid_map", "gid_map"):
            with open(f"/proc/self/{kind}", encoding="ascii") as handle:
                ranges = [tuple(map(int, line.split())) for line in handle]
            lines = [
                f"{start} {start} {min(count, _MAX_ID - start)}\n" for start, _, count in ranges if start < _MAX_ID
            ]
            _write(f"{proc}/{kind}", "".join(lines))
    else:
        _write(f"{proc}/setgroups", "deny")
        _write(f"{proc}/uid_map", f"0 {os.geteuid()} 1\n")
        _write(f"{proc}/gid_map", f"0 {os.getegid()} 1\n")


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _enter_namespaces(spec: dict[str, Any], channel: socket.socket, unshared: int, mapped: int) -> NoReturn:
    """Runs in the forked child: unshare, wait for the maps, fork PID 1, leave."""
    try:
        os.setsid()
        flags = _NAMESPACES | (kernel.CLONE_NEWNET if spec["network"] == "none" else 0)
        try:
            os.unshare(flags)
        except OSError as error:
            raise OSError(error.errno, f"unshare: {error.strerror}") from error
        os.write(unshared, b"1")
        os.close(unshared)
        if os.read(mapped, 1):
            os.close(mapped)
            first = os.fork()
            if first == 0:
                run_init(spec, channel)
            _send(channel, {"pid": first})
    except BaseException as error:  # noqa: BLE001 - this process ends here, whatever happened
        _send(channel, {"error": kernel.describe(error)})
    os._exit(0)


def _send(channel: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody is left to tell
        channel.send(json.dumps(message).encode())
