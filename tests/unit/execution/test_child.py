# SPDX-License-Identifier: Apache-2.0
"""The process that runs Harbor jobs: what it holds, how it ends, and what is left when it, or its parent, dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metric_benchmark.errors import LockedError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_variant
from metric_benchmark.evidence.owners import process_ticks
from metric_benchmark.execution.child import ChildDiedError, HarborChild
from metric_benchmark.execution.worker import JobRequest

REQUEST = JobRequest(job={"jobs_dir": "/nowhere", "job_name": "run-1"}, reward_key="reward")


def pid_of(child: HarborChild) -> int:
    return child._process.pid


def ended(pid: int, within_s: float = 20.0) -> bool:
    until = time.monotonic() + within_s
    while process_ticks(pid) is not None and time.monotonic() < until:
        time.sleep(0.01)
    return process_ticks(pid) is None


def test_it_ends_when_it_is_closed():
    with HarborChild() as child:
        pid = pid_of(child)
        assert process_ticks(pid) is not None
    assert process_ticks(pid) is None
    assert not child.was_killed


def test_it_holds_the_lock_until_it_ends(tmp_path):
    root = EvidenceRoot(tmp_path)
    with lock_variant(root, "desk", "short") as held:
        child = HarborChild(held)
    try:
        # The parent has let go; only the child holds it now, and it names its parent, which lives.
        with pytest.raises(LockedError, match=f"pid {os.getpid()} on "):
            lock_variant(root, "desk", "short").__enter__()
    finally:
        child.close()
    with lock_variant(root, "desk", "short"):
        pass


def test_one_that_is_killed_is_reported_and_noticed():
    with HarborChild() as child:
        os.kill(pid_of(child), signal.SIGKILL)
        assert ended(pid_of(child))
        with pytest.raises(ChildDiedError, match="the Harbor process died; the end of its log:"):
            child.run_job(REQUEST, lambda _: None)
        assert child.was_killed


def test_a_job_that_is_none_is_reported_and_the_next_one_still_runs():
    """Whatever goes wrong in one job must not take the process with it silently."""
    with HarborChild() as child:
        for _ in range(2):
            with pytest.raises(Exception, match=r"Harbor could not run the job|the Harbor process died"):
                child.run_job(REQUEST, lambda _: None)
            if child.was_killed:
                break


_PARENT = """
import os, sys, time
from pathlib import Path
from metric_benchmark.execution.child import HarborChild
from metric_benchmark.execution.forkserver import shared_server
child = HarborChild()
print(child._process.pid, shared_server()._process.pid, flush=True)
time.sleep(60)
"""


def test_when_the_parent_is_killed_child_and_fork_server_end():
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child, server = (int(word) for word in parent.stdout.readline().split())
        parent.kill()
    assert ended(child)
    assert ended(server)


_BLOCKED = """
import sys, threading, time
from metric_benchmark.execution import worker
worker.STOP_GRACE_S = 0.2
threading.Thread(target=worker._end_after_parent, daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


def test_a_child_whose_agent_blocks_it_ends_some_time_after_its_parent():
    program = subprocess.Popen(
        [sys.executable, "-c", _BLOCKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    with program:
        assert program.stdin
        assert program.stdout
        assert program.stderr
        assert program.stdout.readline() == b"ready\n"
        assert program.poll() is None
        program.stdin.close()
        assert program.wait(20) == -signal.SIGKILL
        assert program.stderr.read() == b"the parent is gone and the job does not stop: ending\n"


def test_what_models_need_is_loaded_once_for_all_children(tmp_path):
    """A stand-in for LiteLLM, which takes seconds; children that call no model do not wait for it."""
    (tmp_path / "litellm.py").write_text(
        "import os, pathlib\npathlib.Path(os.environ['MB_SEEN']).open('a').write('x')\n"
    )
    seen = tmp_path / "seen"
    script = (
        "from metric_benchmark.execution.child import HarborChild\n"
        "for uses_model in (False, True, True):\n"
        "    HarborChild(uses_model=uses_model).close()\n"
        "    print(pathlib.Path(os.environ['MB_SEEN']).exists(), flush=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "MB_SEEN": str(seen)}
    done = subprocess.run(
        [sys.executable, "-c", "import os, pathlib\n" + script], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "True", "True"], done.stderr
    assert seen.read_text() == "x"
