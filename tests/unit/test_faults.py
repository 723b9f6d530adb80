# SPDX-License-Identifier: Apache-2.0
"""Kill points do nothing unless a test asked for one at the start of the process, and then exactly what it asked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = "from metric_benchmark.faults import point\nfor n in range(3):\n    print(n, flush=True)\n    point('here')"


def run(kill_at: str | None) -> tuple[int, list[str]]:
    env = {key: value for key, value in os.environ.items() if key != "METRIC_BENCHMARK_KILL_AT"}
    if kill_at is not None:
        env["METRIC_BENCHMARK_KILL_AT"] = kill_at
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=env, capture_output=True, text=True)
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize("kill_at", [None, "", "elsewhere:1", "here:4"])
def test_a_point_nobody_asked_for_does_nothing(kill_at):
    assert run(kill_at) == (0, ["0", "1", "2"])


def test_the_process_dies_at_the_pass_that_was_asked_for():
    assert run("here:2") == (-9, ["0", "1"])
    assert run("here") == (-9, ["0"])
