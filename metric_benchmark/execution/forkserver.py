# SPDX-License-Identifier: Apache-2.0
"""A process that has Harbor imported and forks a child per variant, which saves each child the import (about 1.2 s).

`multiprocessing`'s own fork server would import the program's main module in every child, which for Dagster costs more
than is saved.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from metric_benchmark.errors import ExecutionError
from metric_benchmark.execution.spawned import harbor_environment

#: What every child would import by itself, in the order of need.
PRELOADED = (
    "harbor.job",
    "harbor.trial.trial",
    "metric_benchmark.execution.agents",
    "metric_benchmark.execution.sandbox",
    "metric_benchmark.mutants.agent",
    "dirhash",
    "multiprocessing.pool",
)

#: What a child that calls models would import besides: 6 to 10 s of work, done once when the first such child is asked
#: for. It starts no threads, which a fork would lose.
PRELOADED_FOR_MODELS = ("litellm",)

_PID = struct.Struct("!q")
_PLAIN, _WITH_MODEL = b"+", b"m"
#: Standard input, output and error, and what else a child is to hold.
_MAX_DESCRIPTORS = 4


@dataclass
class ForkedChild:
    """A child of the fork server: not ours to `waitpid`, so it is watched through a pidfd."""

    pid: int
    _pidfd: int | None = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._pidfd = None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the child's end; tells whether it ended in time."""
        if self._pidfd is None:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to this very child, never to another process that got its number."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        """Stops watching."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


class ForkServer:
    """The parent's side: starts the server and asks it for children; it ends when this end is closed or dies."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._environment = harbor_environment()
        with theirs:
            self._process = _launch(theirs, self._environment)

    @property
    def is_usable(self) -> bool:
        """Whether the server lives and belongs to this process, not to one it was forked from."""
        return self._owner == os.getpid() and self._process.poll() is None

    def changed_environment(self) -> dict[str, str]:
        """Returns the variables that were set, or set anew, since the server was started: its children lack them.

        A program that lives long, such as a notebook, may set a model's key after its first run.
        """
        return {key: value for key, value in harbor_environment().items() if self._environment.get(key) != value}

    def start(
        self, stdin: int, stdout: int, stderr: int, held: int | None = None, *, uses_model: bool = False
    ) -> ForkedChild:
        """Forks a child that serves jobs on these file descriptors; the caller keeps and closes its own copies.

        Args:
            stdin: where jobs come from; its end tells the child to stop.
            stdout: where events go.
            stderr: where everything else it says goes.
            held: a descriptor the child keeps open until it ends, and does nothing with: that of a lock.
            uses_model: whether its jobs call a model, so that what does so is worth having loaded before.

        Raises:
            ExecutionError: the server is gone.
        """
        message = _WITH_MODEL if uses_model else _PLAIN
        try:
            socket.send_fds(self._socket, [message], [stdin, stdout, stderr, *([] if held is None else [held])])
            reply = self._socket.recv(_PID.size, socket.MSG_WAITALL)
        except OSError:
            reply = b""
        if len(reply) != _PID.size:
            raise ExecutionError("the process that starts Harbor jobs has died; run the same command again")
        return ForkedChild(_PID.unpack(reply)[0])

    def close(self) -> None:
        """Ends the server; children that still run are told by the end of their input."""
        self._socket.close()
        if self._owner == os.getpid():
            # It has nothing to lose, and may be in the middle of an import nobody waits for any more.
            self._process.kill()
            self._process.wait()


def _launch(theirs: socket.socket, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "metric_benchmark.execution.forkserver", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env=environment,
        # An interrupt at the terminal is the parent's to handle; children are then told to stop.
        start_new_session=True,
    )


_shared: ForkServer | None = None


def shared_server() -> ForkServer:
    """Returns this process's fork server; started at the first use, ended with the process."""
    global _shared
    if _shared is None or not _shared.is_usable:
        _shared = ForkServer()
        atexit.register(_shared.close)
    return _shared


def serve(connection: socket.socket) -> None:
    """The server's side: forks a child per request until the other end is closed."""
    from metric_benchmark.execution import worker

    for module in PRELOADED:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps; nobody here asks for a child's status.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1, _MAX_DESCRIPTORS)
        if not message:
            return
        if message == _WITH_MODEL:
            for module in PRELOADED_FOR_MODELS:
                # A child that cannot import it either says so where its user sees it.
                with contextlib.suppress(Exception):
                    importlib.import_module(module)
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become_worker(descriptors, worker.main)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(_PID.pack(pid))


def _become_worker(descriptors: list[int], main: Callable[[], int]) -> None:
    """Runs the worker in a forked child; never returns."""
    status = 70
    try:
        os.setsid()
        for target, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, target)
            os.close(descriptor)
        for descriptor in descriptors[3:]:
            # Its own children must not keep it: they may outlive it.
            os.set_inheritable(descriptor, False)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = main()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - a forked child must not run the server's code after its own
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
