# SPDX-License-Identifier: Apache-2.0
# No pathlib in here: it would double the time the interpreter takes to start.
# ruff: noqa: PTH123, PTH208
"""Runs a command or a copy, reports its end, and on cancellation kills all it started; then waits for the next.

It adopts orphans, so a command's descendants stay its own however often they fork or start a session. When a command
ends by itself and leaves something running, the supervisor serves no further request: so what belongs to a request is
always what descends from its supervisor. In the end what was left passes to PID 1 and lives on, as in a container.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any, NoReturn

from . import kernel
from .command import CannotStart, limit_resources, start_command
from .copying import CopyError, run_copy

_KILL_SECONDS = 4.0


def supervise(control: socket.socket, private_network: int | None, max_processes: int) -> NoReturn:
    """Serve requests that come through ``control`` until the host hangs up."""
    try:
        wake, wake_w = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_w, False)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        kernel.set_name("mb-exec")
        kernel.adopt_orphans()
        limit_resources(max_processes)
        while True:
            request, fds = _receive(control)
            if request["op"] != "exec":
                _reply(control, _copy(request, fds[0], control) | {"status": 0, "idle": True})
                os.close(fds[0])
                continue
            if request["network"] == "none" and private_network is not None:
                os.setns(private_network, kernel.CLONE_NEWNET)
            if not _run(request, fds, control, wake):
                break
    except EOFError:
        pass  # the host has hung up
    except BaseException as error:  # noqa: BLE001 - this process ends here, whatever happened
        _reply(control, {"error": kernel.describe(error)})
    os._exit(0)


def _run(request: dict[str, Any], fds: list[int], control: socket.socket, wake: int) -> bool:
    """Run one command; whether this process may serve another."""
    writer, reader = fds
    status: int | None
    try:
        child = start_command(request, writer)
    except CannotStart as error:
        os.write(writer, f"sandbox: {error}\n".encode(errors="replace"))
        os.close(writer)
        status = error.status
    else:
        os.close(writer)
        status = _wait(child, control, wake)
    if status is None:
        _kill_descendants()
        _reply(control, {"killed": True})
        return False
    left = _reap()
    _reply(control, {"status": status, "idle": not left})
    if left:
        _drain(control, reader, wake)
        return False
    os.close(reader)
    return True


def _ignore(number: int, frame: object) -> None:
    """A handler, so that the signal is not discarded and wakes the poll."""


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, fds = kernel.receive_with_descriptors(control, 8, 2)
    header += _exactly(control, 8 - len(header)) if header else b""
    if not header:
        raise EOFError
    return json.loads(_exactly(control, int.from_bytes(header, "big"))), fds


def _exactly(control: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = control.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _reply(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the host withdrew the request
        control.sendall(json.dumps(message).encode() + b"\n")


def _copy(request: dict[str, Any], fd: int, control: socket.socket) -> dict[str, Any]:
    try:
        return run_copy(request, fd, lambda: bool(select.select([control], [], [], 0)[0]))
    except CopyError as error:
        return {"error": str(error), "kind": error.kind}
    except OSError as error:
        kind = "missing" if isinstance(error, FileNotFoundError) else "failed"
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes | str) else request["path"]
        return {"error": f"{name}: {error.strerror}", "kind": kind}


def _wait(child: int, control: socket.socket, wake: int) -> int | None:
    """The status of ``child`` when it has ended; None when the host withdraws before."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if control.fileno() in ready:
            return None
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)  # `child` is left, so there is one to wait for
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if ended == 0:
                break


def _drain(control: socket.socket, output: int, wake: int) -> None:
    """While something the command left running may write, read and drop it; else its next write would kill it."""
    while control.recv(4096):
        pass  # the host reads first, until it hangs up
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            _reap()
        if output in ready and not _drop(output):
            return


def _drop(output: int) -> bool:
    try:
        return bool(os.read(output, 1 << 20))
    except BlockingIOError:
        return True


def _reap() -> bool:
    """Collect ended children; whether others still run."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _kill_descendants() -> None:
    """Stop every descendant (so that none forks meanwhile), then kill; repeat until no child is left."""
    signal.set_wakeup_fd(-1)
    until = time.monotonic() + _KILL_SECONDS
    while True:
        stopped: set[int] = set()
        while fresh := _descendants() - stopped:
            for pid in fresh:
                _signal(pid, signal.SIGSTOP)
            stopped |= fresh
        for pid in stopped:
            _signal(pid, signal.SIGKILL)
        if not _reap():
            return
        if time.monotonic() > until:
            kernel.kill_all_others()  # rather the whole sandbox than a process that got away
            return
        time.sleep(0.001)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # ended meanwhile
        os.kill(pid, number)


def _descendants() -> set[int]:
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as handle:
                    fields = handle.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                parents.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    queue = [os.getpid()]
    while queue:
        for child in parents.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return found
