# SPDX-License-Identifier: Apache-2.0
"""Tells a full disk, the host's or a sandbox's own, from everything else that can go wrong in a job or a trial."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

#: How the message of a `SandboxFullError` starts.
SANDBOX_FULL = "the sandbox's own disk is full"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
#: How Python words such an error; only its type, message and traceback are left of one that ended a trial.
_MESSAGE = re.compile(rf"\[Errno (?:{'|'.join(str(number) for number in _FULL)})\] (?P<why>[^:]+)(?:: '(?P<file>.*)')?")


class SandboxFullError(RuntimeError):
    """What the agent wrote has filled the sandbox: its own doing, unlike a full disk of the host."""


def is_sandbox_full(traceback: str) -> bool:
    """Tells by its traceback whether a trial ended because the agent left no room in its sandbox.

    Harbor wraps the error, so that only the traceback names what the sandbox raised.
    """
    return f"{SandboxFullError.__name__}: {SANDBOX_FULL}" in traceback


def full_disk(error: BaseException) -> tuple[str | None, str] | None:
    """Looks for a full disk in an error, in what it came from and in the group it may be.

    Returns:
        The file, where the error says it, and the reason; None when nothing of the kind is in it.
    """
    for item in _all(error, set()):
        if isinstance(item, OSError) and item.errno in _FULL:
            return item.filename and str(item.filename), item.strerror or "the disk is full"
    return None


def full_disk_message(exception_type: str, message: str) -> tuple[str | None, str] | None:
    """Tells by type and message whether a trial ended because the host's disk is full; see `full_disk`.

    A command that finds the disk of its own environment full ends with a status, never with such an exception.
    """
    found = _MESSAGE.match(message) if exception_type == "OSError" else None
    return (found["file"], found["why"]) if found else None


def _all(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    inner: list[BaseException | None] = [error.__cause__, error.__context__]
    if isinstance(error, BaseExceptionGroup):
        inner += error.exceptions  # pyright: ignore[reportUnknownMemberType]
    for item in inner:
        if item is not None:
            yield from _all(item, seen)
