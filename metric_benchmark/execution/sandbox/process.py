# SPDX-License-Identifier: Apache-2.0
"""One running sandbox as the host sees it: start it, run commands, copy files, end it. Knows nothing of Harbor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from metric_benchmark.execution.sandbox.launcher import request_sandbox, send_with_descriptors

Network = Literal["host", "none", "both"]
OnOutput = Callable[[bytes], Awaitable[None]]

_CHUNK = 1 << 18
# How long output may still arrive after the command ended, when something it started holds the pipe open.
_DRAIN_SECONDS = 0.5


class SandboxError(Exception):
    """The sandbox could not be started, or ended by itself."""


class TransferError(Exception):
    """A copy failed; ``missing`` when what was to be copied does not exist."""

    def __init__(self, message: str, *, missing: bool) -> None:
        super().__init__(message)
        self.missing = missing


@dataclass(frozen=True)
class SandboxSpec:
    """What a sandbox is made of.

    Attributes:
        base: ``host``, or the absolute path of an unpacked root file system.
        disk_mb: room for everything written inside, in MiB.
        network: the host's, none, or both to choose from at each command.
        max_processes: bound on processes (and threads) alive at a time.
        folders: made at start, writable by everybody.
        hostname: what the sandbox is called inside.
    """

    base: str = "host"
    disk_mb: int = 1024
    network: Network = "none"
    max_processes: int = 1024
    folders: tuple[str, ...] = ()
    hostname: str = "sandbox"


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote (standard output and error in one stream)."""

    status: int
    output: bytes


class SandboxProcess:
    """A running sandbox. Make one with :meth:`start`; always :meth:`stop` it.

    Attributes:
        pid: the process id of its PID 1 on the host.
        kill_seconds: how long to wait for processes to be gone before stronger means are used.
    """

    kill_seconds = 6.0

    def __init__(self, channel: socket.socket, pid: int, pidfd: int) -> None:
        self._channel = channel
        self._pidfd = pidfd
        self.pid = pid

    @classmethod
    async def start(cls, spec: SandboxSpec) -> SandboxProcess:
        """Start a sandbox.

        Raises:
            SandboxError: it cannot be set up here; the message says at which step.
        """
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                request_sandbox(encode_spec(spec), theirs)
            ours.setblocking(False)
            facts: dict[str, Any] = {}
            while not ("pid" in facts and "ready" in facts):
                facts |= read_start_message(await loop.sock_recv(ours, 65536))
            return cls(ours, facts["pid"], os.pidfd_open(facts["pid"]))
        except OSError as error:
            ours.close()
            raise SandboxError(str(error)) from error
        except BaseException:
            ours.close()  # PID 1 sees it and ends
            raise

    async def stop(self) -> None:
        """End every process of the sandbox and wait until they are gone, and with them all it wrote."""
        if self._pidfd < 0:
            return
        pidfd, self._pidfd = self._pidfd, -1
        self._channel.close()
        try:
            if not await _readable(pidfd, self.kill_seconds):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                await _readable(pidfd, self.kill_seconds)
        finally:
            os.close(pidfd)

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        network: Literal["host", "none"] = "none",
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        max_output: int = 64 << 20,
    ) -> Ended:
        """Run one command to its end.

        Args:
            argv: the program's absolute path inside, and its arguments.
            cwd: the folder it starts in.
            env: added to PATH, HOME and HOSTNAME.
            user: name or number, with an optional ``:group``.
            network: which network it has, in a sandbox that has both.
            timeout: seconds; then everything the command started is killed.
            on_output: called with each piece of output as it comes.
            max_output: bytes kept; the rest is read and dropped, and a line says so.

        Raises:
            TimeoutError: ``timeout`` passed.
            SandboxError: the sandbox is gone or cannot start a process.
        """
        request = {
            "op": "exec",
            "argv": list(argv),
            "cwd": cwd,
            "env": dict(env or {}),
            "user": user,
            "network": network,
        }
        reader, writer = os.pipe()
        try:
            os.set_blocking(reader, False)
            control = await self._send(writer, reader)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        output = _Output(reader, max_output, on_output)
        try:
            async with asyncio.timeout(timeout):
                reply = await _converse(control, request, output)
        except BaseException:
            await self._withdraw(control)
            raise
        finally:
            control.close()
            os.close(reader)
        if "status" in reply:
            return Ended(reply["status"], output.text())
        if "error" in reply or await self._ended(within=0.2):
            raise SandboxError(reply.get("error", "the sandbox ended while the command ran"))
        return Ended(128 + signal.SIGKILL, output.text())  # it killed its own supervisor, and died with it

    async def copy(self, operation: str, path: str, fd: int, **details: object) -> list[str]:
        """Copy between ``path`` inside and the host's file or folder ``fd``; see :mod:`.guest.copying`.

        Returns:
            What was left out, each with the reason.

        Raises:
            TransferError: it failed.
            SandboxError: the sandbox is gone.
        """
        control = await self._send(fd)
        try:
            reply = await _converse(control, {"op": operation, "path": path, **details}, None)
        except BaseException:
            await self._withdraw(control)
            raise
        finally:
            control.close()
        if "done" in reply:
            return list(reply["skipped"])
        if "kind" in reply:
            raise TransferError(reply["error"], missing=reply["kind"] == "missing")
        raise SandboxError(reply.get("error", "the sandbox ended while files were copied"))

    async def _ended(self, within: float) -> bool:
        return self._pidfd < 0 or await _readable(self._pidfd, within)

    async def _withdraw(self, control: socket.socket) -> None:
        """Have the supervisor kill everything it started; where it does not answer, have PID 1 kill everything."""
        with contextlib.suppress(OSError):
            control.shutdown(socket.SHUT_WR)
            try:
                async with asyncio.timeout(self.kill_seconds):
                    await _read_reply(control)
            except TimeoutError:
                self._channel.send(b"kill")

    async def _send(self, *fds: int) -> socket.socket:
        """Open a conversation with a new supervisor that gets ``fds``."""
        if self._pidfd < 0:
            raise SandboxError("the sandbox is not running")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                while not self._try_send([theirs.fileno(), *fds]):
                    await asyncio.sleep(0.005)
            except OSError as error:
                ours.close()
                raise SandboxError("the sandbox is not running") from error
        return ours

    def _try_send(self, fds: list[int]) -> bool:
        try:
            send_with_descriptors(self._channel, b"1", *fds)
        except BlockingIOError:
            return False  # more requests wait than the socket holds
        return True


def encode_spec(spec: SandboxSpec) -> dict[str, object]:
    """The launcher's request for ``spec``."""
    return {
        "base": spec.base,
        "disk_mb": spec.disk_mb,
        "network": spec.network,
        "max_processes": spec.max_processes,
        "folders": list(spec.folders),
        "hostname": spec.hostname,
        "token": secrets.token_hex(4),
        "owner": os.getpid(),
    }


def read_start_message(data: bytes) -> dict[str, Any]:
    """One message of a starting sandbox.

    Raises:
        SandboxError: it says the start failed, or there is none because everything ended.
    """
    if not data:
        raise SandboxError("the sandbox ended while it was set up")
    message = json.loads(data)
    if "error" in message:
        raise SandboxError(message["error"])
    return message


class _Output:
    """Collects what comes through a pipe, up to a bound."""

    def __init__(self, fd: int, limit: int, on_output: OnOutput | None) -> None:
        self._fd = fd
        self._limit = limit
        self._on_output = on_output
        self._parts: list[bytes] = []
        self._size = 0

    async def collect(self) -> None:
        while await _readable(self._fd, None):
            if not await self.read_available():
                return

    async def read_available(self) -> bool:
        """Read what is there; whether more may come."""
        for _ in range(64):  # then let other trials have a turn
            try:
                chunk = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            room = self._limit - self._size
            self._size += len(chunk)
            if room > 0:
                self._parts.append(chunk[:room])
                if self._on_output is not None:
                    await self._on_output(chunk[:room])
        return True

    def text(self) -> bytes:
        dropped = self._size - self._limit
        note = f"\n[sandbox: {dropped} more bytes of output dropped]\n".encode() if dropped > 0 else b""
        return b"".join(self._parts) + note


async def _converse(control: socket.socket, request: dict[str, Any], output: _Output | None) -> dict[str, Any]:
    """Send ``request``, collect output, return what the supervisor said before it ended."""
    loop = asyncio.get_running_loop()
    body = json.dumps(request).encode()
    with contextlib.suppress(ConnectionError):  # the reply says why nobody listened
        await loop.sock_sendall(control, len(body).to_bytes(8, "big") + body)
    if output is None:
        return await _read_reply(control)
    collecting = asyncio.ensure_future(output.collect())
    try:
        reply = await _reply_unless_broken(control, collecting)
        await asyncio.wait({collecting}, timeout=_DRAIN_SECONDS)
        if collecting.done():
            collecting.result()
    finally:
        collecting.cancel()
        await asyncio.wait({collecting})
    return reply


async def _reply_unless_broken(control: socket.socket, collecting: asyncio.Future[None]) -> dict[str, Any]:
    """The reply, or at once the exception of the caller's output callback."""
    replying = asyncio.ensure_future(_read_reply(control))
    try:
        await asyncio.wait({replying, collecting}, return_when=asyncio.FIRST_COMPLETED)
        if collecting.done() and not replying.done():
            collecting.result()
        return await replying
    finally:
        replying.cancel()


async def _read_reply(control: socket.socket) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    data = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := await loop.sock_recv(control, 65536):
            data += part
    reply: dict[str, Any] = {}
    for line in data.splitlines():
        reply |= json.loads(line)
    return reply


async def _readable(fd: int, timeout: float | None) -> bool:
    """Wait until ``fd`` can be read (a process descriptor: until the process is gone)."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: None if future.done() else future.set_result(None))
    try:
        async with asyncio.timeout(timeout):
            await future
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(fd)
    return True
