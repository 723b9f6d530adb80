# SPDX-License-Identifier: Apache-2.0
"""Locks on an evidence root by `flock`: who holds one is in its file, for the message only."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from metric_benchmark.errors import LockedError, StorageError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.writes import storage_errors

type Mode = Literal["shared", "exclusive"]
_FLAGS = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX}


@contextmanager
def lock_root(root: EvidenceRoot, mode: Mode) -> Generator[None]:
    """Holds the root: shared to work on one partition, exclusive for a whole experiment or for sealing.

    Raises:
        LockedError: another process holds it in a mode that excludes this one.
        StorageError: the file system has no working locks.
    """
    with _lock(root.locks / "root.lock", mode, f"the evidence in {root.path}", wait=False):
        yield


@contextmanager
def lock_variant(root: EvidenceRoot, case_id: str, variant_id: str) -> Generator[None]:
    """Holds one variant's runs exclusively.

    Raises:
        LockedError: another process runs this variant.
    """
    name = f"variant.{case_id}.{variant_id}.lock"
    with _lock(root.locks / name, "exclusive", f"variant {case_id}|{variant_id} in {root.path}", wait=False):
        yield


@contextmanager
def lock_case(root: EvidenceRoot, case_id: str) -> Generator[None]:
    """Holds one case's index for the moment of an update; waits for its turn."""
    with _lock(root.locks / f"case.{case_id}.lock", "exclusive", f"the index of case {case_id}", wait=True):
        yield


@contextmanager
def lock_ledger(root: EvidenceRoot) -> Generator[None]:
    """Holds the ledger for the moment of an update; waits for its turn."""
    with _lock(root.locks / "ledger.lock", "exclusive", "the ledger", wait=True):
        yield


@contextmanager
def _lock(path: Path, mode: Mode, what: str, *, wait: bool) -> Generator[None]:
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, _FLAGS[mode] | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            if error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL):
                raise _no_locks(path) from error
            raise LockedError(f"{what} is in use by another run: {_owner(handle)}. Wait for it, or stop it") from None
        _check_works(path, handle)
        _say_owner(handle)
        yield
    finally:
        os.close(handle)


def _check_works(path: Path, handle: int) -> None:
    """Some network file systems accept every lock; a second handle of ours must be refused."""
    second = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    finally:
        os.close(second)
    raise _no_locks(path)


def _no_locks(path: Path) -> StorageError:
    return StorageError(f"{path}: this file system has no working locks (flock); put the output on a local disk")


def _say_owner(handle: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner).encode(), 0)


def _owner(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return f"pid {owner['pid']} on {owner['host']}, started {owner['start']}"
    except (ValueError, KeyError, TypeError, OSError):
        return "its owner did not say who it is"
