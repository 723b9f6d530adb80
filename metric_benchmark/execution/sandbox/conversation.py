# SPDX-License-Identifier: Apache-2.0
"""The host's side of a talk with one supervisor in a sandbox, and the pipe its command writes to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from metric_benchmark.execution.sandbox.launcher import send_with_descriptors

OnOutput = Callable[[bytes], Awaitable[None]]

_CHUNK = 1 << 18
# How long output may still arrive after the command ended, when something it started holds the pipe open.
_DRAIN_SECONDS = 0.5


class Conversation:
    """One supervisor on the line: one request at a time, one reply to each."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    async def ask(self, request: dict[str, Any], *fds: int) -> None:
        """Send a request and the descriptors it works on.

        Raises:
            ConnectionError: the supervisor is gone.
        """
        body = json.dumps(request).encode()
        try:
            send_with_descriptors(self._control, len(body).to_bytes(8, "big"), *fds)
            await asyncio.get_running_loop().sock_sendall(self._control, body)
        except BaseException:
            self.close()
            raise

    async def reply(self) -> dict[str, Any]:
        """What the supervisor says about its request; empty when it ended without a word."""
        loop = asyncio.get_running_loop()
        data = bytearray()
        with contextlib.suppress(ConnectionError):
            while not data.endswith(b"\n") and (part := await loop.sock_recv(self._control, 65536)):
                data += part
        return json.loads(data) if data else {}

    async def withdraw(self, seconds: float) -> bool:
        """Have everything the request started killed; whether that was confirmed in time."""
        try:
            self._control.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(seconds):
                await self.reply()
        except TimeoutError:
            return False
        except OSError:
            return True  # it is gone already
        finally:
            self.close()
        return True

    def close(self) -> None:
        """Hang up: the supervisor ends, and what it still runs with it, when it has not reported an end."""
        self._control.close()


async def collect_until_reply(conversation: Conversation, output: Output) -> dict[str, Any]:
    """Collect ``output`` while waiting for the reply, and what comes shortly after.

    Raises:
        Exception: whatever the caller's own output callback raised.
    """
    collecting = asyncio.ensure_future(output.collect())
    replying = asyncio.ensure_future(conversation.reply())
    try:
        await asyncio.wait({replying, collecting}, return_when=asyncio.FIRST_COMPLETED)
        if collecting.done():
            collecting.result()
        reply = await replying
        await asyncio.wait({collecting}, timeout=_DRAIN_SECONDS)
        if collecting.done():
            collecting.result()
        return reply
    finally:
        collecting.cancel()
        replying.cancel()
        await asyncio.wait({collecting, replying})


class Output:
    """Collects what comes through a pipe, up to a bound."""

    def __init__(self, fd: int, limit: int, on_output: OnOutput | None) -> None:
        self._fd = fd
        self._limit = limit
        self._on_output = on_output
        self._parts: list[bytes] = []
        self._size = 0

    async def collect(self) -> None:
        """Read until the pipe is closed."""
        while await readable(self._fd, None):
            if not await self._read_available():
                return

    async def _read_available(self) -> bool:
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

    def content(self) -> bytes:
        """What was kept, and a line about what was not."""
        dropped = self._size - self._limit
        note = f"\n[sandbox: {dropped} more bytes of output dropped]\n".encode() if dropped > 0 else b""
        return b"".join(self._parts) + note


async def readable(fd: int, timeout: float | None) -> bool:
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
