# SPDX-License-Identifier: Apache-2.0
"""Harbor's own viewer opens the job folders we leave behind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline import run_raw_results

pytestmark = [pytest.mark.harbor, pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port: int, path: str, process: subprocess.Popen[bytes]) -> Any:
    deadline = time.monotonic() + 90
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                return json.load(reply)
        except OSError:
            assert process.poll() is None, "harbor view ended"
            assert time.monotonic() < deadline, "harbor view did not answer"
            time.sleep(0.3)


def test_harbor_view_lists_our_jobs_and_their_trials(tiny, tmp_path):
    run = open_run(tiny.path, tmp_path / "out")
    done = run_raw_results(run, "tiny", "baseline", lambda _: None)
    jobs = run.root.config("tiny", "baseline", done.results.config_hash) / "jobs"
    port = free_port()
    harbor = Path(sys.executable).with_name("harbor")
    process = subprocess.Popen(
        [harbor, "view", str(jobs), "--jobs", "--no-build", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        (job,) = get(port, "/api/jobs", process)["items"]
        assert (job["name"], job["n_total_trials"], job["n_errored_trials"]) == ("run-1", 2, 0)
        trials = get(port, "/api/jobs/run-1/trials", process)["items"]
        assert {trial["task_name"]: trial["reward"] for trial in trials} == {"one": 1.0, "two": 1.0}
    finally:
        process.terminate()
        process.wait(20)
