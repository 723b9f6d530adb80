# SPDX-License-Identifier: Apache-2.0
"""Durable writes: a file is either the old one or the new one, whatever dies in between."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from metric_benchmark.errors import StorageError
from metric_benchmark.hashing import canonical_json, digest_bytes
from metric_benchmark.records.base import Record

_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Turns a full or read-only disk into a `StorageError` that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE_ERRORS:
            raise
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}; what was there before is intact. Make room or rights, then "
            "run the same command again"
        ) from error


def write_bytes(path: Path, data: bytes) -> str:
    """Replaces a file atomically and durably: temporary file, fsync, rename, fsync of the folder.

    Returns:
        The SHA-256 of what was written.

    Raises:
        StorageError: the disk is full or not writable; the old file is intact.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with storage_errors(path):
        make_folder(path.parent)
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    return digest_bytes(data)


def write_record(path: Path, record: Record) -> str:
    """Writes a record as canonical JSON; see `write_bytes`."""
    return write_bytes(path, encode_record(record))


def encode_record(record: Record) -> bytes:
    """Returns the bytes a record has on disk."""
    return canonical_json(record.to_json()) + b"\n"


def append_line(path: Path, data: bytes) -> None:
    """Appends one line durably.

    Raises:
        StorageError: the disk is full or not writable.
    """
    with storage_errors(path):
        make_folder(path.parent)
        with path.open("ab") as stream:
            stream.write(data + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


def rename(source: Path, target: Path) -> None:
    """Renames durably."""
    with storage_errors(target):
        source.rename(target)
        sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Makes the entries of a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
