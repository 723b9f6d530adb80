# SPDX-License-Identifier: Apache-2.0
"""Copies between host paths and a running sandbox, by descriptors and without following links on the host's side."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from metric_benchmark.execution.sandbox.process import SandboxError, SandboxProcess, TransferError
from metric_benchmark.execution.storage import SANDBOX_FULL, SandboxFullError

_MAX_ENTRIES = 200_000
_MAX_UPLOAD_BYTES = 1 << 40  # the sandbox's own disk is the bound


async def upload(
    process: SandboxProcess,
    source: Path,
    target: str,
    *,
    folder: bool,
    chown: str | None = None,
    chmod: str | None = None,
) -> None:
    """Copy a host file, or the contents of a host folder, to ``target`` inside; owned by root unless ``chown`` says.

    Raises:
        FileNotFoundError: ``source`` does not exist.
        SandboxFullError: there is no room left inside.
        RuntimeError: the copy failed.
    """
    fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECTORY if folder else os.O_NONBLOCK))
    details = {"name": source.name, "chown": chown, "chmod": chmod, "max_bytes": _MAX_UPLOAD_BYTES}
    try:
        operation = "put_dir" if folder else "put_file"
        await process.copy(operation, target, fd, max_entries=_MAX_ENTRIES, **details)
    except (TransferError, SandboxError) as error:
        # An upload only writes inside: the disk that is full is the one the agent has filled.
        if str(error).endswith(f": {os.strerror(errno.ENOSPC)}"):
            raise SandboxFullError(f"{SANDBOX_FULL}; upload of {source} to {target} failed: {error}") from error
        raise RuntimeError(f"upload of {source} to {target} failed: {error}") from error
    finally:
        os.close(fd)


async def download(process: SandboxProcess, source: str, target: Path, *, folder: bool, max_bytes: int) -> list[str]:
    """Copy a file, or the contents of a folder, from inside to the host; files there are replaced.

    Returns:
        What was left out: devices, pipes, and links that leave the folder.

    Raises:
        FileNotFoundError: ``source`` does not exist inside.
        RuntimeError: the copy failed, or there is more than ``max_bytes``.
    """
    into = target if folder else target.parent
    into.mkdir(parents=True, exist_ok=True)
    fd = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        operation = "get_dir" if folder else "get_file"
        return await process.copy(
            operation, source, fd, name=target.name, max_bytes=max_bytes, max_entries=_MAX_ENTRIES
        )
    except TransferError as error:
        kind = FileNotFoundError if error.missing else RuntimeError
        raise kind(f"download of {source} failed: {error}") from error
    except SandboxError as error:
        raise RuntimeError(f"download of {source} failed: {error}") from error
    finally:
        os.close(fd)
