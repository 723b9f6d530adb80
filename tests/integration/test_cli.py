# SPDX-License-Identifier: Apache-2.0
"""The command line with real trials: from `init` to a report, again for nothing, interrupted and continued."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metric_benchmark.cli.app import main
from metric_benchmark.execution.sandbox import running_sandboxes
from metric_benchmark.records.base import comparable

pytestmark = pytest.mark.harbor

COMMAND = [sys.executable, "-m", "metric_benchmark"]


def call(*words: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=240)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """`init` and one whole run, as a newcomer would do it: the folder, and what the run printed."""
    here = tmp_path_factory.mktemp("newcomer")
    call("init", here / "exp")
    started = time.monotonic()
    done = call("run-experiment", here / "exp", "--output", here / "out")
    return here, done, time.monotonic() - started


def test_the_experiment_of_init_runs_to_a_report(first):
    here, done, seconds = first
    assert "54 trials run, 0 kept" in done.stdout
    assert "tool_bigrams" in done.stdout
    assert f"report:    {here / 'out' / 'report.html'}" in done.stdout
    assert "[8/9] errands|skips-first-sentence: 6 trials run, mean reward 0.00" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    # 40 s on an idle machine; tests share theirs.
    assert seconds < 120


def test_each_of_its_mutants_is_killed_by_the_tasks_its_fault_concerns(first):
    here, _, _ = first
    scores = json.loads((here / "out/analysis/errands/mutant-scores.json").read_text())
    killed = {name: found["killed_by"] for name, found in scores["mutants"].items()}
    everything = ["read-value", "search-notes", "follow-link", "run-report", "long-log", "two-values"]
    assert {name: sorted(tasks) for name, tasks in killed.items()} == {
        "no-grep": ["search-notes"],
        "two-actions": ["follow-link", "two-values"],
        "short-sight": ["long-log"],
        "forgetful": ["two-values"],
        "skips-first-sentence": sorted(everything),
    }
    assert scores["eligible_tasks"] == everything
    assert {found["status"] for found in scores["controls"].values()} == {"survived"}


def test_a_second_run_pays_for_nothing_and_changes_nothing(first):
    here, _, _ = first
    before = {
        name: (here / "out" / name).read_bytes() for name in ("experiment.json", "execution.json", "ledger.jsonl")
    }
    again = json.loads(call("run-experiment", here / "exp", "--output", here / "out", "--json").stdout)
    assert (again["n_run"], again["n_kept"], again["is_complete"]) == (0, 54, True)
    assert {name: (here / "out" / name).read_bytes() for name in before} == before
    plan = json.loads(call("plan", here / "exp", "--output", here / "out", "--json").stdout)
    assert (plan["n_trials"], plan["n_to_run"]) == (54, 0)
    status = json.loads(call("status", here / "exp", "--output", here / "out", "--json").stdout)
    assert {found["state"] for found in status["partitions"]} == {"fresh"}


def test_saved_evidence_is_analysed_with_tasks_and_agent_gone(first):
    here, _, _ = first
    for name in ("tasks", "agent"):
        (here / "exp" / name).rename(here / f"away-{name}")
    try:
        call("run-experiment", here / "exp", "--results", here / "out", "--output", here / "again", "--replay")
    finally:
        for name in ("tasks", "agent"):
            (here / f"away-{name}").rename(here / "exp" / name)
    for name in ("mutant-scores", "coverage", "correlation"):
        records = [json.loads((here / f / f"analysis/errands/{name}.json").read_text()) for f in ("out", "again")]
        assert comparable(records[0]) == comparable(records[1])


def test_changed_inputs_are_refused_with_what_would_be_paid_for_again(first):
    here, _, _ = first
    case = here / "exp/case.yaml"
    before = case.read_text()
    case.write_text(before.replace("max_actions: 2", "max_actions: 3"))
    call("sign", here / "exp")
    try:
        done = call("run-evals", here / "exp", "--output", here / "out", status=2)
        assert "errands|two-actions: the operator or its parameters changed" in done.stderr
        assert "--accept-changes" in done.stderr
        plan = call("plan", here / "exp", "--output", here / "out")
        assert "54 trials in all, 6 of them still to run" in plan.stdout
        assert "warning: errands|two-actions: the operator or its parameters" in plan.stderr
    finally:
        case.write_text(before)
        call("sign", here / "exp")


def test_claims_are_registered_before_the_data_and_a_later_change_is_named(first, capsys):
    here, _, _ = first
    (entry,) = [e for e in map(json.loads, (here / "out/ledger.jsonl").read_text().splitlines()) if "parts" in e]
    assert entry["hypotheses"] == [
        {"metric": "tool_bigrams", "direction": "greater", "minimum_effect": 0.1, "alpha": 0.05}
    ]
    assert "Registered before the data." in (here / "out/report.html").read_text()
    settings = here / "exp/analysis.yaml"
    before = settings.read_text()
    gates = before + "gates: {accept: [inconclusive], require_registration: true}\n"
    changed = gates.replace("minimum_effect: 0.1", "minimum_effect: 0.3")
    changed = changed.replace("replicates: 2000", "replicates: 200").replace("seed: 1", "resample_attempts: true")
    try:
        for text, status, found in (
            (gates, 0, "passed  errands: hypotheses registered: found before the data"),
            (changed, 1, "FAILED  errands: hypotheses registered: found changed after the data"),
        ):
            settings.write_text(text)
            out = here / f"registered-{status}"
            assert main(["run-experiment", str(here / "exp"), "--results", str(here / "out"), "-o", str(out)]) == 0
            capsys.readouterr()
            assert main(["check", str(out)]) == status
            assert found in capsys.readouterr().out
        report = (here / "registered-1/report.html").read_text()
        assert "Changed after the data: exploratory." in report
        assert "Other than registered: the hypotheses, the correlation settings." in report
        record = json.loads((here / "registered-1/analysis/errands/correlation.json").read_text())
        assert record["metrics"]["tool_bigrams"]["interval"]["resampled"] == "tasks_mutants_and_attempts"
    finally:
        settings.write_text(before)


def children(pid: int) -> set[int]:
    """Returns the processes below a process, near and far."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = set[int](), [pid]
    while todo:
        new = parents.get(todo.pop(), [])
        found.update(new)
        todo += new
    return found


def alive(pids: set[int]) -> set[int]:
    """Returns those that still run; one that has ended and waits to be reaped by init runs no more."""
    found: set[int] = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.add(pid)
    return found


def sandboxes_of(owners: set[int]) -> list[int]:
    """Returns the sandboxes that one of these processes started; other tests may run some of their own."""
    found: list[int] = []
    for pid in running_sandboxes():
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if int(title.rstrip("\0").rpartition("owner=")[2] or 0) in owners:
            found.append(pid)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process_and_continues(tiny, tmp_path, number):
    slow = tiny.folder / "tasks/two/solution/solve.sh"
    slow.write_text("#!/bin/bash\nsleep 25\n")
    tiny.sign()
    out = tmp_path / "out"
    words = [*COMMAND, "run-evals", str(tiny.path), "--output", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        # The first task is done and the second is in mid-trial.
        while not list(out.glob("execution/tiny/baseline/*/jobs/run-1/one__*/result.json")):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        below = children(process.pid)
        assert sandboxes_of(below)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert f"{number.name}: stopping; trials that have a verdict are kept" in said
    assert "Traceback" not in said
    assert alive(below) == set()
    assert sandboxes_of(below) == []

    # What had a verdict is kept, what was cut short stays on disk; nothing was indexed, so no change is refused.
    slow.write_text("#!/bin/bash\nmkdir -p /app\necho two > /app/out.txt\n")
    tiny.sign()
    (cut,) = out.glob("execution/tiny/baseline/*/jobs/run-1/two__*")
    done = json.loads(call("run-evals", tiny.path, "--output", out, "--json").stdout)
    assert (done["n_run"], done["n_kept"]) == (9, 1)
    assert cut.is_dir()
