# SPDX-License-Identifier: Apache-2.0
"""Runs that are interrupted, upgraded in between, changed in between, or that meet another one: real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import metric_benchmark
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger
from metric_benchmark.evidence.owners import process_ticks
from metric_benchmark.execution.sandbox import running_sandboxes
from metric_benchmark.pins import sign_experiment

pytestmark = [pytest.mark.harbor, pytest.mark.slow]

PATIENCE_S = 60.0


def command(
    *words: object, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "metric_benchmark", *(str(word) for word in words)],
        env=os.environ | (env or {}), cwd=cwd, capture_output=True, text=True,
    )  # fmt: skip


def until(condition, what: str):
    """Waits until a condition holds, and returns what it gave."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {PATIENCE_S} s: {what}")


def descendants(pid: int) -> dict[int, int | None]:
    """Returns all processes below one, with the ticks they started at."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        below = parents.get(queue.pop(), [])
        found += below
        queue += below
    return {item: process_ticks(item) for item in found}


@contextmanager
def running(experiment: Path, output: Path) -> Iterator[subprocess.Popen[str]]:
    """Starts `run-evals` and waits until its first trial runs an agent."""
    # Where the tests themselves run in a shell's background, interrupts are ignored, and that would be inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = subprocess.Popen(
        [sys.executable, "-m", "metric_benchmark", "run-evals", experiment, "--output", output],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with program:
        try:
            until(lambda: list(output.glob("execution/tiny/*/*/jobs/run-1/*/agent")), "a trial starts")
            until(running_sandboxes, "a sandbox starts")
            yield program
        finally:
            if program.poll() is None:
                program.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_and_is_continued(harness, tmp_path, number):
    experiment = harness.build_experiment(tmp_path / "experiment", slow_s=4)
    with running(experiment, tmp_path / "out") as program:
        started = descendants(program.pid)
        program.send_signal(number)
        _, said = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 130
    assert said.splitlines()[-1] == f"{number.name}: stopping; trials that have a verdict are kept"
    assert [pid for pid, ticks in started.items() if ticks is not None and process_ticks(pid) == ticks] == []
    assert running_sandboxes() == []
    assert not list((tmp_path / "out").rglob("results.json"))
    entries = [entry for entry in read_ledger(EvidenceRoot(tmp_path / "out")) if "n_trials" in entry]
    assert [(entry["kind"], entry["n_trials"]) for entry in entries] == [("reserve", 2), ("settle", 2)]

    again = command("run-evals", experiment, "--output", tmp_path / "out", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["n_run"] == 4
    assert harness.problems_of(tmp_path / "out", harness.read_records(tmp_path / "out")) == []


def test_a_second_run_stops_at_once_and_names_the_first(harness, tmp_path):
    experiment = harness.build_experiment(tmp_path / "experiment", slow_s=60)
    with running(experiment, tmp_path / "out") as program:
        before = sorted(path.relative_to(tmp_path) for path in (tmp_path / "out").rglob("*"))
        second = command("run-evals", experiment, "--output", tmp_path / "out")
        assert second.returncode == 5
        assert re.fullmatch(
            rf"error: the evidence in {tmp_path}/out is in use by another run: pid {program.pid} on \S+, started "
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\. Wait for it, or stop it\n",
            second.stderr,
        ), second.stderr
        assert program.poll() is None
        assert sorted(path.relative_to(tmp_path) for path in (tmp_path / "out").rglob("*")) == before
        # A second interrupt does not wait for the environments to be stopped in order.
        program.send_signal(signal.SIGINT)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 130
    until(lambda: not running_sandboxes(), "sandboxes end")


_PARTITION = """
import sys
from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline import run_raw_results
done = run_raw_results(open_run(sys.argv[1], sys.argv[2], level="execution"), "tiny", sys.argv[3], lambda _: None)
print(done.n_run, done.stopped)
"""


def test_two_partitions_of_a_case_run_side_by_side(harness, shell, tmp_path):
    words = [sys.executable, "-c", _PARTITION, shell.experiment, tmp_path / "out"]
    both = [
        subprocess.Popen([*words, variant], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for variant in harness.VARIANTS
    ]
    assert [program.communicate(timeout=120) for program in both] == [("2 None\n", ""), ("2 None\n", "")]
    rest = shell.run(shell.experiment, tmp_path / "out")
    assert rest.status == 0, rest.log
    assert "0 trials run, 4 kept" in rest.log
    assert harness.problems_of(tmp_path / "out", shell.records) == []


def test_the_same_partition_twice_at_a_time_runs_once(harness, tmp_path):
    experiment = harness.build_experiment(tmp_path / "experiment", slow_s=60)
    words = [sys.executable, "-c", _PARTITION, experiment, tmp_path / "out", "baseline"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as first:
        until(lambda: list((tmp_path / "out").glob("execution/tiny/baseline/*/jobs/*")), "a job starts")
        second = subprocess.run(words, capture_output=True, text=True)
        first.send_signal(signal.SIGINT)
    assert re.search(
        rf"LockedError: variant tiny\|baseline in {tmp_path}/out is in use by another run: pid {first.pid} on ",
        second.stderr,
    ), second.stderr


@pytest.mark.parametrize(
    ("budget", "started", "left"),
    [
        ({"max_trials": 3}, 3, 1),
        # An agent that does not say what it costs is counted at the bound.
        ({"max_cost_usd": 0.35, "cost_bound_per_trial_usd": 0.1}, 3, 1),
    ],
)
def test_a_budget_is_never_overdrawn_and_leaves_a_state_that_goes_on(harness, shell, tmp_path, budget, started, left):
    experiment = harness.build_experiment(tmp_path / "experiment")
    plain = yaml.safe_load((experiment.parent / "execution.yaml").read_text())
    (experiment.parent / "execution.yaml").write_text(yaml.safe_dump({**plain, "budget": budget}))
    sign_experiment(experiment)
    stopped = shell.zygote.command("run-evals", experiment, "--output", tmp_path / "out")
    assert stopped.status == 4, stopped.log
    assert (
        f"tiny|idle: the budget is reached with {left} trials to go; raise `budget` in the execution file and run again"
        in stopped.log
    )
    assert len(list((tmp_path / "out").glob("execution/tiny/*/*/jobs/run-1/*/result.json"))) == started

    (experiment.parent / "execution.yaml").write_text(yaml.safe_dump(plain))
    sign_experiment(experiment)
    again = shell.zygote.command("run-evals", experiment, "--output", tmp_path / "out")
    assert again.status == 0, again.log
    assert f"{left} trial run, {started} kept" in again.log


def test_a_run_goes_on_after_an_upgrade_that_leaves_the_trial_keys_alone(harness, shell, tmp_path):
    source = Path(metric_benchmark.__file__).parent
    package = tmp_path / "src" / "metric_benchmark"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    env = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    words = ("run-experiment", shell.experiment, "--output", tmp_path / "out")
    killed = command(*words, env={**env, "METRIC_BENCHMARK_KILL_AT": "run.trial_end:3"}, cwd=package.parent)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    for file in ("execution/runner.py", "execution/worker.py", "evidence/ledger.py", "scoring/kills.py", "cli/app.py"):
        with (package / file).open("a") as stream:
            stream.write("\n# An upgrade.\n")
    again = command(*words, "--json", env=env, cwd=package.parent)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["n_kept"] >= 2
    assert harness.problems_of(tmp_path / "out", shell.records) == []


def test_what_a_killed_run_paid_for_is_not_silently_set_aside(harness, shell, tmp_path):
    """No index names its trials yet."""
    experiment = harness.build_experiment(tmp_path / "experiment")
    killed = shell.zygote.command(
        "run-evals", experiment, "--output", tmp_path / "out", kill=harness.Kill(at="run.ended:1")
    )
    assert killed.was_killed, killed.log
    (experiment.parent / "tasks" / "one" / "instruction.md").write_text("Write one, please.\n")
    sign_experiment(experiment)
    refused = shell.zygote.command("run-evals", experiment, "--output", tmp_path / "out")
    assert refused.status == 2
    assert refused.log == (
        "error: tiny|baseline: agent, operator, task, environment or timeouts changed; its trials of one would be run "
        "again\n"
        "error: nothing was run. Restore the inputs, or repeat with --accept-changes; old trials stay on disk\n"
    )
    accepted = shell.zygote.command("run-evals", experiment, "--output", tmp_path / "out", "--accept-changes")
    assert accepted.status == 0, accepted.log
    assert "3 trials run, 1 kept" in accepted.log
