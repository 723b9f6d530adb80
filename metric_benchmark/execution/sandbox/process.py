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
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from metric_benchmark.execution.sandbox.conversation import (
    Conversation,
    OnOutput,
    Output,
    collect_until_reply,
    readable,
)
from metric_benchmark.execution.sandbox.launcher import request_sandbox, send_with_descriptors

Network = Literal["host", "none", "both"]


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
        pid_max: whether the kernel is to keep that bound, where it can; a test may do without.
        folders: made at start, writable by everybody.
        hostname: what the sandbox is called inside.
    """

    base: str = "host"
    disk_mb: int = 1024
    network: Network = "none"
    max_processes: int = 1024
    pid_max: bool = True
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

    def __init__(self, channel: socket.socket, pid: int, pidfd: int, *, both_networks: bool) -> None:
        self._channel = channel
        # Supervisors that wait for another request. One that left the host's network for a command cannot go back.
        self._idle: dict[str, list[Conversation]] = {"host": [], "none": []}
        self._both_networks = both_networks
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
            return cls(ours, facts["pid"], os.pidfd_open(facts["pid"]), both_networks=spec.network == "both")
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
        for conversation in self._idle["host"] + self._idle["none"]:
            conversation.close()
        try:
            if not await readable(pidfd, self.kill_seconds):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                await readable(pidfd, self.kill_seconds)
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
            async with asyncio.timeout(timeout):
                try:
                    conversation = await self._ask(request, writer, reader)
                finally:
                    os.close(writer)
                output = Output(reader, max_output, on_output)
                reply = await self._unless_withdrawn(conversation, collect_until_reply(conversation, output))
        finally:
            os.close(reader)
        if "status" in reply:
            self._part(conversation, request, reply)
            return Ended(reply["status"], output.content())
        conversation.close()
        if "error" in reply or await self._ended(within=0.2):
            raise SandboxError(reply.get("error", "the sandbox ended while the command ran"))
        # The command killed its own supervisor; what it is and what it started is known no more, so everything goes.
        self._kill_everything()
        return Ended(128 + signal.SIGKILL, output.content())

    async def copy(self, operation: str, path: str, fd: int, **details: object) -> list[str]:
        """Copy between ``path`` inside and the host's file or folder ``fd``; see :mod:`.guest.copying`.

        Returns:
            What was left out, each with the reason.

        Raises:
            TransferError: it failed.
            SandboxError: the sandbox is gone.
        """
        request: dict[str, Any] = {"op": operation, "path": path, **details}
        conversation = await self._ask(request, fd)
        reply = await self._unless_withdrawn(conversation, conversation.reply())
        self._part(conversation, request, reply)
        if "done" in reply:
            return list(reply["skipped"])
        if "kind" in reply:
            raise TransferError(reply["error"], missing=reply["kind"] == "missing")
        raise SandboxError(reply.get("error", "the sandbox ended while files were copied"))

    async def _ask(self, request: dict[str, Any], *fds: int) -> Conversation:
        """Send ``request`` to a supervisor that waits for one, or to a new one."""
        if self._pidfd < 0:
            raise SandboxError("the sandbox is not running")
        idle = self._idle[self._kind(request)]
        while idle:
            conversation = idle.pop()
            with contextlib.suppress(ConnectionError):  # it was killed meanwhile
                await conversation.ask(request, *fds)
                return conversation
        try:
            conversation = await self._new_conversation()
            await conversation.ask(request, *fds)
        except OSError as error:
            raise SandboxError("the sandbox is not running") from error
        return conversation

    def _kind(self, request: dict[str, Any]) -> str:
        return request.get("network", "host") if self._both_networks else "host"

    def _part(self, conversation: Conversation, request: dict[str, Any], reply: dict[str, Any]) -> None:
        """Keep a supervisor that can serve again, hang up on any other."""
        if reply.get("idle") and self._pidfd >= 0:
            self._idle[self._kind(request)].append(conversation)
        else:
            conversation.close()

    async def _unless_withdrawn(
        self, conversation: Conversation, answer: Coroutine[Any, Any, dict[str, Any]]
    ) -> dict[str, Any]:
        """The answer; when waiting for it ends early, everything the request started is killed first."""
        try:
            return await answer
        except BaseException:
            if not await conversation.withdraw(self.kill_seconds):
                self._kill_everything()
            raise

    def _kill_everything(self) -> None:
        """Have PID 1 end all other processes; files stay."""
        with contextlib.suppress(OSError):
            self._channel.send(b"kill")

    async def _ended(self, within: float) -> bool:
        return self._pidfd < 0 or await readable(self._pidfd, within)

    async def _new_conversation(self) -> Conversation:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                while not self._try_send(theirs.fileno()):
                    await asyncio.sleep(0.005)
            except BaseException:
                ours.close()
                raise
        return Conversation(ours)

    def _try_send(self, fd: int) -> bool:
        try:
            send_with_descriptors(self._channel, b"1", fd)
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
        "pid_max": spec.pid_max,
        "root": os.geteuid() == 0,
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
