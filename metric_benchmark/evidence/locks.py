# SPDX-License-Identifier: Apache-2.0
"""Locks on an evidence root by `flock`: who holds one is in its file, for the message only."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metric_benchmark.errors import LockedError, StorageError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.owners import add_owner, read_owners
from metric_benchmark.evidence.writes import make_folder, remove_temporaries, storage_errors

type Mode = Literal["shared", "exclusive"]
_FLAGS = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX}

#: How long to wait for the Harbor process of a run that died; it stops its trials and then ends, within 30 s.
ORPHAN_WAIT_S = 45.0
#: How long a lock may be held by somebody who has not yet written down who it is.
_INTRODUCTION_S = 0.2
_POLL_S = 0.05
#: Folders below a root that hold records; Harbor's own are not among them.
_RECORDS_IN = ("execution/*", "execution/*/*/*", "analysis/*", "analysis/*/mutants", "coverage-cache/*/*")


@dataclass(frozen=True)
class Held:
    """A lock that is held: by this process, and by every process that was given its descriptor."""

    fd: int


@contextmanager
def lock_root(root: EvidenceRoot, mode: Mode) -> Generator[Held]:
    """Holds the root: shared to work on one partition, exclusive for a whole experiment or for sealing.

    Whoever holds it exclusively is the only one who writes, so temporary files that are there then are nobody's: they
    are removed.

    Raises:
        LockedError: another process holds it in a mode that excludes this one.
        StorageError: the file system has no working locks.
    """
    with _lock(root.locks / "root.lock", mode, f"the evidence in {root.path}") as held:
        if mode == "exclusive":
            _remove_temporaries(root)
        yield held


def is_root_free(root: EvidenceRoot, mode: Mode) -> bool:
    """Tells whether the root could be held now. Nobody is refused because somebody asks.

    Raises:
        StorageError: the file system has no working locks.
    """
    try:
        with _lock(root.locks / "root.lock", mode, f"the evidence in {root.path}", is_introduced=False):
            return True
    except LockedError:
        return False


def _remove_temporaries(root: EvidenceRoot) -> None:
    with storage_errors(root.path):
        remove_temporaries(root.path)
        for pattern in _RECORDS_IN:
            for folder in root.path.glob(pattern):
                remove_temporaries(folder)


@contextmanager
def lock_variant(
    root: EvidenceRoot,
    case_id: str,
    variant_id: str,
    *,
    orphan_wait_s: float = ORPHAN_WAIT_S,
    is_momentary: bool = False,
) -> Generator[Held]:
    """Holds one variant's runs exclusively.

    Its holder hands the descriptor on to the process that runs Harbor. That process may outlive its parent for a
    moment, to stop its trials, and nobody must run the variant meanwhile; so this waits for it, but never for a run
    that lives.

    Args:
        root: the evidence.
        case_id: the case.
        variant_id: the variant.
        orphan_wait_s: how long to wait for what is left of a run that died.
        is_momentary: whether it is held only to put right what a dead run left; whoever wants to run the variant then
            takes it for what is left of that run, and waits.

    Raises:
        LockedError: another process runs this variant.
    """
    name = f"variant.{case_id}.{variant_id}.lock"
    what = f"variant {case_id}|{variant_id} in {root.path}"
    with _lock(
        root.locks / name, "exclusive", what, orphan_wait_s=orphan_wait_s, is_introduced=not is_momentary
    ) as held:
        yield held


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
def watch_root(root: EvidenceRoot) -> Generator[None]:
    """Keeps those who can write evidence from it while one who can only read it does; nothing is written.

    The root is held shared, which refuses whole experiments and seals; whoever works on a single variant is noticed
    before and after. What cannot be opened is passed over: evidence without locks never had a writer of ours, or it is
    not ours to read.

    Raises:
        LockedError: somebody writes there.
    """
    with ExitStack() as held:
        _share(root.locks / "root.lock", f"the evidence in {root.path}", held)
        _refuse_workers(root)
        yield
        _refuse_workers(root)


def _refuse_workers(root: EvidenceRoot) -> None:
    """Raises when a variant is being run; a lock each would be too many to hold for a whole check."""
    for path in sorted(root.locks.glob("variant.*.lock")):
        with ExitStack() as held:
            _share(path, f"{path.name.removesuffix('.lock').replace('.', ' ', 1)} in {root.path}", held)


def _share(path: Path, what: str, held: ExitStack) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    held.callback(os.close, handle)
    # Where locks do not work nobody writes: every writer of ours refuses to.
    with suppress(StorageError):
        _take(path, handle, fcntl.LOCK_SH | fcntl.LOCK_NB, what, 0.0)


@contextmanager
def _lock(
    path: Path,
    mode: Mode,
    what: str,
    *,
    wait: bool = False,
    orphan_wait_s: float = 0.0,
    is_introduced: bool = True,
) -> Generator[Held]:
    with storage_errors(path):
        make_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if wait:
            _flock(path, handle, _FLAGS[mode])
        else:
            _take(path, handle, _FLAGS[mode] | fcntl.LOCK_NB, what, orphan_wait_s)
        _check_works(path)
        if is_introduced and not wait:
            # Locks of a moment are waited for and never refused, so nobody asks who holds them.
            with storage_errors(path):
                add_owner(path, is_alone=mode == "exclusive")
        yield Held(handle)
    finally:
        os.close(handle)


def _take(path: Path, handle: int, flags: int, what: str, orphan_wait_s: float) -> None:
    """Takes a lock nobody living holds.

    Raises:
        LockedError: it is held.
    """
    until = time.monotonic() + max(orphan_wait_s, _INTRODUCTION_S)
    while not _flock(path, handle, flags):
        owners = read_owners(handle)
        living = [owner for owner in owners if not owner.is_gone]
        is_late = time.monotonic() > until
        if is_late and owners and not living and orphan_wait_s:
            raise LockedError(
                f"{what} is still held by the Harbor process of a run that died ({owners[-1]}); after "
                f"{orphan_wait_s:g} s it has not stopped its trials. Run again when it has, or kill it"
            )
        if living or is_late:
            who = living[0] if living else "its owner did not say who it is"
            raise LockedError(f"{what} is in use by another run: {who}. Wait for it, or stop it")
        time.sleep(_POLL_S)


def _flock(path: Path, handle: int, flags: int) -> bool:
    try:
        fcntl.flock(handle, flags)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL):
            raise _no_locks(path) from error
        if error.errno == errno.EACCES:
            return False
        raise
    return True


def _check_works(path: Path) -> None:
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
