# SPDX-License-Identifier: Apache-2.0
"""A process that has everything imported and forks one program per request, so that a killed run costs no imports.

It adopts the orphans of what it ran (it is their subreaper), so that whatever a run leaves behind is its descendant.
Requests are JSON lines on standard input, answers JSON lines on standard output.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

#: What a program imports only where it is needed, and every run needs: SciPy alone would take it a second.
_LATE = (
    "scipy.stats", "metric_benchmark.pipeline.planning", "metric_benchmark.reporting.html",
    "metric_benchmark.reporting.details", "metric_benchmark.coverage.metrics.suite_size",
    "metric_benchmark.cli.progress",
)  # fmt: skip
_SUBREAPER = 36
_PRIVATE = 1 << 14 | 1 << 18  # MS_REC | MS_PRIVATE


def main() -> None:
    os.environ.update(OPENBLAS_NUM_THREADS="1", LITELLM_LOCAL_MODEL_COST_MAP="True", HARBOR_TELEMETRY="0")
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    if "--private-mounts" in sys.argv:
        _keep_mounts_private()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for module in [word for word in sys.argv[1:] if not word.startswith("-")]:
        importlib.import_module(module)
    from metric_benchmark.execution import forkserver

    for module in (*forkserver.PRELOADED, *_LATE):
        importlib.import_module(module)
    forkserver._launch = _fork_server  # type: ignore[assignment]
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"left": _descendants()} if request["op"] == "left" else _run(request)
        print(json.dumps(answer), file=answers)


def _keep_mounts_private() -> None:
    """Leaves the machine's mounts, so that what is mounted here is the doing of what runs here; only root may."""
    try:
        os.unshare(os.CLONE_NEWNS)
    except PermissionError:
        return
    if ctypes.CDLL(None).mount(b"none", b"/", None, _PRIVATE, None) != 0:
        raise OSError("mounts cannot be made private")


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """Forks a program, kills it as asked, and waits for its end."""
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _become(request)
    kill_after, is_killed = request.get("kill_after"), False
    while True:
        ended = _reap(pid)
        seconds = time.monotonic() - started
        if ended is not None:
            return {"status": ended, "seconds": seconds, "was_killed": is_killed or ended == -signal.SIGKILL}
        if kill_after is not None and not is_killed and seconds >= kill_after:
            is_killed = True
            _kill(pid, request["signal"], whole_tree=request["whole_tree"])
        time.sleep(0.002)


def _become(request: dict[str, Any]) -> None:
    status = 70
    try:
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 256)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        os.environ.update(request["env"])
        if request.get("trace"):
            _trace_points(Path(request["trace"]))
        module, _, function = request["call"].partition(":")
        status = getattr(importlib.import_module(module), function)(*request["arguments"])
        # What `sys.exit` would do, but for the destructors of modules shared with the parent.
        _shut_down()
    except BaseException:  # noqa: BLE001 - a forked child must not run its parent's code after its own
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _shut_down() -> None:
    from metric_benchmark.execution import forkserver

    if forkserver._shared is not None:
        forkserver._shared.close()


def _trace_points(path: Path) -> None:
    """Notes each pass of a kill point, in this process and in all it forks."""
    from metric_benchmark import faults

    def note(name: str) -> None:
        with path.open("a") as stream:
            stream.write(name + "\n")

    faults.point = note


def _fork_server(theirs: socket.socket, environment: dict[str, str]) -> _Forked:
    """Stands for the start of a fork server's interpreter: forks one; the processes are the same."""
    from metric_benchmark.execution import forkserver

    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.environ.update(environment)
            number = os.dup2(theirs.detach(), 3)
            os.closerange(4, 256)
            for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(name, signal.SIG_DFL)
            forkserver.serve(socket.socket(fileno=number))
        finally:
            os._exit(0)
    return _Forked(pid)


class _Forked:
    """As much of a `Popen` as the fork server needs."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:
                self._status = 0
            else:
                self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.002)
        return self._status or 0


def _reap(pid: int) -> int | None:
    found = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if ended == 0:
            return found
        if ended == pid:
            found = os.waitstatus_to_exitcode(status)


def _kill(pid: int, number: int, *, whole_tree: bool) -> None:
    targets = {pid}
    if whole_tree:
        # Stopped first, so that none starts another meanwhile.
        while fresh := {item[0] for item in _descendants()} - targets | targets:
            for item in fresh:
                _signal(item, signal.SIGSTOP)
            if fresh == targets:
                break
            targets = fresh
    for item in targets:
        _signal(item, number)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _descendants() -> list[tuple[int, str]]:
    """Processes below this one that live, and what they are."""
    _reap(0)
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                data = (entry / "stat").read_bytes()
                title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            fields = data.rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
                names[int(entry.name)] = title.strip() or data.partition(b"(")[2].partition(b")")[0].decode()
    found: list[tuple[int, str]] = []
    queue = [os.getpid()]
    while queue:
        for child in parents.get(queue.pop(), ()):
            found.append((child, names[child]))
            queue.append(child)
    return found


if __name__ == "__main__":
    main()
