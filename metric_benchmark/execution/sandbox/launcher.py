# SPDX-License-Identifier: Apache-2.0
"""The host's side of the launcher process: one per Python process, started when the first sandbox is."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

_CODE = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from guest.launch import main; main()"


def send_with_descriptors(channel: socket.socket, data: bytes, *fds: int) -> None:
    """Send one message and descriptors with it; Python's ``socket.send_fds`` ignores its flags."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))
    channel.sendmsg([data], [rights], socket.MSG_NOSIGNAL)


class Launcher:
    """A running launcher process and the socket it takes requests on."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
            (os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1, 2)
        ]
        actions.append((os.POSIX_SPAWN_DUP2, theirs.fileno(), 3))
        # An empty environment: no key of the host may be in a process that becomes a sandbox.
        self._pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", _CODE],
            {"LC_ALL": "C.UTF-8"},
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM),
        )
        theirs.close()
        self.owner = os.getpid()

    def request(self, spec: Mapping[str, object], channel: socket.socket) -> None:
        """Ask for a sandbox whose end of the conversation is ``channel``.

        Raises:
            OSError: the launcher is gone.
        """
        send_with_descriptors(self._socket, json.dumps(spec).encode(), channel.fileno())

    def close(self) -> None:
        """End the launcher, and with it nothing else: sandboxes end with their own channels."""
        self._socket.close()
        if self.owner == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)


_lock = threading.Lock()
_current: Launcher | None = None


def request_sandbox(spec: Mapping[str, object], channel: socket.socket) -> None:
    """Ask this process's launcher for a sandbox, starting the launcher where there is none (any more).

    Raises:
        OSError: the launcher cannot be started.
    """
    global _current
    with _lock:
        if _current is not None and _current.owner == os.getpid():
            try:
                _current.request(spec, channel)
                return
            except (BrokenPipeError, ConnectionResetError):
                _current.close()
        _current = Launcher()
        _current.request(spec, channel)


@atexit.register
def close_launcher() -> None:
    """End this process's launcher; the next sandbox starts a new one."""
    global _current
    with _lock:
        if _current is not None and _current.owner == os.getpid():
            _current.close()
        _current = None
