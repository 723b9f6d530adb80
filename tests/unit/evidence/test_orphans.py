# SPDX-License-Identifier: Apache-2.0
"""A lock may outlive its owner in a process of its: who runs the variant next waits for that, and not for ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from metric_benchmark.errors import LockedError
from metric_benchmark.evidence.locks import lock_root, lock_variant
from metric_benchmark.evidence.owners import Owner, add_owner, me, parse_owner, process_ticks, read_owners

#: Takes a variant's lock, hands it to a child that sleeps, says the child's number, and waits for being killed.
_OWNER = """
import subprocess, sys, time
from pathlib import Path
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_variant
with lock_variant(EvidenceRoot(Path(sys.argv[1])), "desk", "short") as held:
    child = subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[held.fd], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def orphan(root) -> Iterator:
    """Leaves a process that holds the lock of desk|short, and whose parent was killed; returns the parent's number."""
    left: list[int] = []

    def leave(seconds: float) -> int:
        owner = subprocess.Popen(
            [sys.executable, "-c", _OWNER, str(root.path), str(seconds)], stdout=subprocess.PIPE, text=True
        )
        with owner:
            assert owner.stdout
            left.append(int(owner.stdout.readline()))
            owner.kill()
        return owner.pid

    yield leave
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_the_next_run_waits_for_what_is_left_of_a_dead_one(root, orphan):
    started = time.monotonic()
    orphan(2.0)
    with lock_variant(root, "desk", "short"):
        assert time.monotonic() - started >= 2.0


def test_it_does_not_wait_for_ever(root, orphan):
    pid = orphan(30.0)
    with pytest.raises(LockedError) as refused, lock_variant(root, "desk", "short", orphan_wait_s=0.5):
        pass
    assert re.fullmatch(
        rf"variant desk\|short in {root.path} is still held by the Harbor process of a run that died \(pid {pid} on "
        r"\S+, started \S+\); after 0\.5 s it has not stopped its trials\. Run again when it has, or kill it",
        str(refused.value),
    )


def test_another_variant_need_not_wait(root, orphan):
    orphan(30.0)
    with lock_variant(root, "desk", "blind"):
        pass


def test_who_only_puts_right_what_a_dead_run_left_is_waited_for(root, orphan):
    """Else the partition that is about to run would fail because its neighbour tidies up."""
    orphan(0.1)

    def run():
        with lock_variant(root, "desk", "short"):
            return "ran"

    with ThreadPoolExecutor() as pool:
        with lock_variant(root, "desk", "short", is_momentary=True):
            waiting = pool.submit(run)
            time.sleep(0.3)
            assert not waiting.done()
        assert waiting.result() == "ran"


def test_nobody_waits_for_a_run_that_lives(root):
    with lock_variant(root, "desk", "short"):
        started = time.monotonic()
        with (
            pytest.raises(LockedError, match=rf"in use by another run: pid {os.getpid()} on "),
            lock_variant(root, "desk", "short", orphan_wait_s=30.0),
        ):
            pass
        assert time.monotonic() - started < 5.0


def test_of_many_who_share_a_living_one_is_named(root):
    script = (
        "import os, sys; from pathlib import Path; from metric_benchmark.evidence.layout import EvidenceRoot; "
        "from metric_benchmark.evidence.locks import lock_root\n"
        "with lock_root(EvidenceRoot(Path(sys.argv[1])), 'shared'): os._exit(0)"
    )
    with lock_root(root, "shared"):
        subprocess.run([sys.executable, "-c", script, root.path], check=True)
        with pytest.raises(LockedError, match=f"pid {os.getpid()} on "), lock_root(root, "exclusive"):
            pass


def test_an_exclusive_owner_forgets_those_before_it(root):
    for _ in range(3):
        with lock_root(root, "shared"):
            pass
    with lock_root(root, "exclusive"):
        assert len((root.locks / "root.lock").read_bytes().splitlines()) == 1


def test_a_process_is_told_from_a_later_one_with_its_number():
    assert not me().is_gone
    assert replace(me(), ticks=me().ticks - 1).is_gone
    assert replace(me(), pid=2**22 + 1).is_gone
    assert not replace(me(), pid=2**22 + 1, place="another machine").is_gone
    assert process_ticks(2**22 + 1) is None


def test_a_process_that_ended_but_was_not_asked_for_its_status_is_gone():
    child = subprocess.Popen(["true"])
    until = time.monotonic() + 10
    while process_ticks(child.pid) is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert process_ticks(child.pid) is None
    child.wait()


def test_lines_that_are_not_whole_are_left_out(tmp_path):
    path = tmp_path / "a.lock"
    add_owner(path, is_alone=True)
    with path.open("ab") as stream:
        stream.write(b'{"pid": 1')
    with path.open("rb") as stream:
        assert [owner.pid for owner in read_owners(stream.fileno())] == [os.getpid()]
    assert parse_owner("[]") is None
    assert parse_owner(me().to_json()) == Owner(**vars(me()))


def test_whoever_holds_the_root_alone_removes_what_killed_writers_left(root):
    left = [root.path / ".ledger.jsonl.ab.tmp", root.path / "execution/desk/short/c/.raw-results.json.ab.tmp"]
    native = root.path / "execution/desk/short/c/jobs/run-1/one__x/agent/.mine.tmp"
    for path in (*left, native):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    with lock_root(root, "shared"):
        assert all(path.exists() for path in left)
    with lock_root(root, "exclusive"):
        assert not any(path.exists() for path in left)
    assert native.exists()
