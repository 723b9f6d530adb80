# SPDX-License-Identifier: Apache-2.0
"""Who may work beside whom on one evidence root, and what the one who may not is told."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys

import pytest

from metric_benchmark.errors import LockedError, StorageError
from metric_benchmark.evidence.locks import lock_case, lock_ledger, lock_root, lock_variant, watch_root


def test_many_may_share_a_root(root):
    with lock_root(root, "shared"), lock_root(root, "shared"):
        pass


@pytest.mark.parametrize(
    ("held", "wanted"), [("exclusive", "shared"), ("shared", "exclusive"), ("exclusive", "exclusive")]
)
def test_an_exclusive_lock_excludes_and_names_its_owner(root, held, wanted):
    with lock_root(root, held), pytest.raises(LockedError) as refused, lock_root(root, wanted):
        pass
    assert refused.value.exit_status == 5
    assert re.fullmatch(
        rf"the evidence in {root.path} is in use by another run: pid {os.getpid()} on \S+, started "
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\. Wait for it, or stop it",
        str(refused.value),
    )
    with lock_root(root, wanted):
        pass


@pytest.mark.parametrize("what", ["the evidence", r"variant desk\.short"])
def test_who_only_reads_notices_who_writes(root, what):
    with lock_root(root, "shared"):
        pass
    writer = lock_root(root, "exclusive") if what == "the evidence" else lock_variant(root, "desk", "short")
    with (
        writer,
        pytest.raises(LockedError, match=rf"{what} in {root.path} is in use by another run: pid {os.getpid()}"),
    ):
        watch_root(root).__enter__()
    before = {path: path.read_bytes() for path in root.locks.iterdir()}
    with watch_root(root), pytest.raises(LockedError):
        lock_root(root, "exclusive").__enter__()
    with watch_root(root):
        pass
    assert {path: path.read_bytes() for path in root.locks.iterdir()} == before


def test_who_begins_to_work_on_a_variant_meanwhile_is_noticed_at_the_end(root):
    with lock_root(root, "shared"), lock_variant(root, "desk", "short"):
        pass
    watched = watch_root(root)
    watched.__enter__()
    with (
        lock_root(root, "shared"),
        lock_variant(root, "desk", "short"),
        pytest.raises(LockedError, match=r"variant desk\.short"),
    ):
        watched.__exit__(None, None, None)


def test_who_only_reads_needs_no_lock(root, monkeypatch):
    with watch_root(root):
        pass
    assert not root.locks.exists()
    with lock_root(root, "exclusive"):
        pass

    def unsupported(*_):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with watch_root(root):
        pass


def test_two_variants_of_a_case_run_side_by_side_but_one_only_once(root):
    with lock_variant(root, "desk", "short"), lock_variant(root, "desk", "blind"):
        with pytest.raises(LockedError, match=rf"variant desk\|short in {root.path} is in use by another run: pid"):
            lock_variant(root, "desk", "short").__enter__()
        with lock_case(root, "desk"), lock_ledger(root):
            pass


def test_a_dead_owner_holds_nothing(root):
    """The file stays, the lock does not: there is no stale lock to remove by hand."""
    script = (
        "import os, sys; from pathlib import Path; from metric_benchmark.evidence.layout import EvidenceRoot; "
        "from metric_benchmark.evidence.locks import lock_root\n"
        "with lock_root(EvidenceRoot(Path(sys.argv[1])), 'exclusive'): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, root.path]).returncode == -9
    assert (root.locks / "root.lock").exists()
    with lock_root(root, "exclusive"):
        pass


def test_an_owner_that_says_nothing_is_reported_as_such(root):
    with lock_root(root, "exclusive"):
        (root.locks / "root.lock").write_text("not json")
        with pytest.raises(LockedError, match="its owner did not say who it is"), lock_root(root, "shared"):
            pass


def test_file_systems_without_locks_are_refused(root, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(
        StorageError, match=r"this file system has no working locks \(flock\); put the output on a local"
    ):
        lock_root(root, "exclusive").__enter__()


def test_file_systems_that_grant_every_lock_are_refused(root, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(StorageError, match="no working locks"):
        lock_root(root, "exclusive").__enter__()


def test_a_folder_that_may_not_be_written_is_a_storage_error(root, monkeypatch):
    def denied(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StorageError, match=r"root\.lock: cannot be written: Permission denied"):
        lock_root(root, "exclusive").__enter__()
