# SPDX-License-Identifier: Apache-2.0
"""Containers and networks that a killed run left are found and removed, by the next run or by hand; nobody else's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from metric_benchmark.evidence.owners import me
from metric_benchmark.execution.docker_leftovers import EVIDENCE, OWNER, VARIANT, remove_of_variant

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

PATIENCE_S = 120.0


def docker(*words: str) -> list[str]:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout.split()


def containers() -> set[str]:
    return set(docker("ps", "-aq", "--no-trunc"))


def networks() -> set[str]:
    return set(docker("network", "ls", "-q", "--no-trunc"))


def killed_run(experiment: Path, output: Path) -> None:
    """Runs the evals until both containers of the first job run, then kills everything at one instant."""
    n_before = len(docker("ps", "-q"))
    program = subprocess.Popen(
        [sys.executable, "-m", "metric_benchmark", "run-evals", experiment, "--output", output],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with program:
        end = time.monotonic() + PATIENCE_S
        while len(docker("ps", "-q")) < n_before + 2:
            assert time.monotonic() < end, "no containers were started"
            assert program.poll() is None, "the run ended before it could be killed"
        tree = [program.pid]
        for pid in tree:
            os.kill(pid, signal.SIGSTOP)
            tree += [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in children(task)]
        for pid in tree:
            os.kill(pid, signal.SIGKILL)


def children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


@pytest.fixture
def bystanders() -> Iterator[tuple[set[str], set[str]]]:
    """Containers and networks that are nobody's to remove: a stranger's, and those of a run that lives elsewhere."""
    own = f"{OWNER}={me().to_json()}"
    made = docker("run", "-d", "--label", "mine=1", "debian:bookworm-slim", "sleep", "600")
    made += docker(
        "run", "-d", "--label", own, "--label", f"{EVIDENCE}=/elsewhere", "--label", f"{VARIANT}=tiny|baseline",
        "--label", "com.docker.compose.project=elsewhere", "debian:bookworm-slim", "sleep", "600",
    )  # fmt: skip
    network = docker("network", "create", "mb-test-bystander")
    yield set(made), set(network)
    docker("rm", "-f", *made)
    docker("network", "rm", *network)


@pytest.fixture
def left(harness, tmp_path, bystanders) -> Iterator[tuple[Path, Path]]:
    """An experiment and the output of a run of it that was killed in Docker."""
    before = containers(), networks()
    experiment = harness.build_experiment(tmp_path / "experiment", environment="docker", slow_s=5)
    killed_run(experiment, tmp_path / "out")
    assert len(containers() - before[0]) == 2
    assert len(networks() - before[1]) == 2
    yield experiment, tmp_path / "out"
    assert (containers(), networks()) == before


def test_the_next_run_removes_what_a_killed_one_left(left, harness):
    experiment, output = left
    words = [sys.executable, "-m", "metric_benchmark", "run-evals", experiment, "--output", output, "--json"]
    again = subprocess.run(words, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["n_run"] == 4
    assert harness.problems_of(output, harness.read_records(output)) == []


def test_doctor_removes_what_any_dead_run_left(left):
    words = [sys.executable, "-m", "metric_benchmark", "doctor", "--clean", "--json"]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert len(found["removed_containers"]) == 2
    assert len(found["removed_networks"]) == 2
    again = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert (again["removed_containers"], again["removed_networks"]) == ([], [])


def test_a_worker_that_is_killed_leaves_nothing_to_the_run_it_was_of(harness, tmp_path, bystanders):
    """It dies at the end of its first trial, when another one's container still runs; the run goes on without it."""
    before = containers(), networks()
    experiment = harness.build_experiment(tmp_path / "experiment", environment="docker", slow_s=1)
    done = subprocess.run(
        [sys.executable, "-m", "metric_benchmark", "run-evals", experiment, "--output", tmp_path / "out", "--json"],
        env=os.environ | {"METRIC_BENCHMARK_KILL_AT": "worker.trial_end:1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert harness.problems_of(tmp_path / "out", harness.read_records(tmp_path / "out")) == []
    assert (containers(), networks()) == before


def test_a_separate_verifier_is_found_by_the_name_of_its_trial(tmp_path):
    """Harbor gives its Compose project no overlay, so that it has no label of ours."""
    files = "com.docker.compose.project.config_files=/x/harbor/environments/docker/docker-compose-prebuilt.yaml"

    def start(project: str) -> str:
        labels = ("--label", files, "--label", f"com.docker.compose.project={project}")
        return docker("run", "-d", *labels, "debian:bookworm-slim", "sleep", "600")[0]

    ours, other = start("one__abc1234__verifier__trial"), start("one__abc9999__verifier__trial")
    try:
        removed = remove_of_variant(tmp_path, "tiny|baseline", ["one__aBc1234"])
        assert [ours.startswith(name) for name in removed.containers] == [True]
        assert other in containers()
    finally:
        docker("rm", "-f", ours, other)
