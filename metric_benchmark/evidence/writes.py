# SPDX-License-Identifier: Apache-2.0
"""Durable writes: a file is either the old one or the new one, whatever dies in between."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from metric_benchmark import faults
from metric_benchmark.errors import StorageError
from metric_benchmark.evidence.stamps import stamped
from metric_benchmark.hashing import digest_bytes
from metric_benchmark.records.base import Record

_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
_NO_PLACE = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG}
_TEMPORARY = ".tmp"


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Turns a full or read-only disk into a `StorageError` that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE_ERRORS:
            raise
        raise cannot_be_written(path, error.strerror or type(error).__name__) from error


def cannot_be_written(path: Path | str, why: str) -> StorageError:
    """Returns the error that says so of a file or folder; nothing of ours is ever half-written."""
    return StorageError(
        f"{path}: cannot be written: {why}; what was there before is intact. Make room or rights, then run the same "
        "command again"
    )


def write_bytes(path: Path, data: bytes) -> str:
    """Replaces a file atomically and durably: temporary file, fsync, rename, fsync of the folder.

    Returns:
        The SHA-256 of what was written.

    Raises:
        StorageError: the disk is full or not writable; the old file is intact.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")
    faults.point("write.before")
    with storage_errors(path):
        make_folder(path.parent)
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            faults.point("write.temporary")
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        faults.point("write.renamed")
        sync_folder(path.parent)
    return digest_bytes(data)


def remove_temporaries(folder: Path) -> None:
    """Removes what writers left in a folder when they were killed; the caller excludes that one still writes there."""
    if folder.is_dir():
        for path in folder.glob(f".*{_TEMPORARY}"):
            path.unlink(missing_ok=True)


def write_record(path: Path, record: Record) -> str:
    """Writes a record as canonical JSON that carries its own digest; see `write_bytes`."""
    return write_bytes(path, encode_record(record))


def encode_record(record: Record) -> bytes:
    """Returns the bytes a record has on disk."""
    return stamped(record.to_json())


def append_line(path: Path, data: bytes) -> None:
    """Appends one line durably; a line that was cut short by a crash is replaced.

    The caller excludes others that append.

    Raises:
        StorageError: the disk is full or not writable; the lines before are intact.
    """
    with storage_errors(path):
        make_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            end = _end_of_lines(handle)
            try:
                _write_at(handle, data + b"\n", end)
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, end)
                raise
            # Only beyond the new line, so that dying before this loses nothing.
            os.ftruncate(handle, end + len(data) + 1)
        finally:
            os.close(handle)
        if end == 0:
            sync_folder(path.parent)
    faults.point("append.after")


def _end_of_lines(handle: int) -> int:
    """Returns where the last complete line ends, looking from the end of the file."""
    end = os.fstat(handle).st_size
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(handle, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_at(handle: int, data: bytes, offset: int) -> None:
    half = len(data) // 2
    for part in (data[:half], data[half:]):
        while part:
            written = os.pwrite(handle, part, offset)
            part, offset = part[written:], offset + written
        faults.point("append.within")


def rename(source: Path, target: Path) -> None:
    """Renames durably."""
    with storage_errors(target):
        source.rename(target)
        faults.point("rename.after")
        sync_folder(target.parent)


def is_writable(folder: Path) -> bool:
    """Whether this process may write into a folder: its rights, and a file system that is not read-only."""
    return os.access(folder, os.W_OK)


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents, durably.

    Raises:
        StorageError: the place is none for a folder, such as `/proc/x` or a path through a file.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise cannot_be_written(folder, error.strerror or type(error).__name__) from error
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Makes the entries of a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file_system(path: Path) -> None:
    """Makes everything durable that was written so far to the file system a path is on; what others wrote, too.

    Harbor syncs nothing, and a file at a time would cost more.

    Raises:
        StorageError: it could not be written.
    """
    with storage_errors(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(handle)
