# SPDX-License-Identifier: Apache-2.0
"""Stage 1 on real Harbor trials: what is run, what is kept, what a changed input costs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.errors import ConfigError, EvidenceError, ExecutionError, LockedError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.evidence.reader import read_index, read_raw_results
from metric_benchmark.execution.runner import Progress
from metric_benchmark.execution.sandbox import running_sandboxes
from metric_benchmark.records.execution import RawResults

pytestmark = pytest.mark.harbor


def evals(files, output: Path, **options) -> tuple[coordinator.EvalsDone, list[Progress]]:
    events: list[Progress] = []
    run = coordinator.open_run(files.path, output)
    return coordinator.run_evals(run, on_progress=events.append, **options), events


def raw(output: Path, variant: str) -> RawResults:
    root = EvidenceRoot(output)
    return read_raw_results(root, read_index(root, "tiny"), variant)


def ran(events: list[Progress]) -> list[tuple[str, str | None]]:
    return sorted((e.key.partition("|")[2], e.task) for e in events if e.kind == "trial_end")


def test_every_variant_runs_and_scores_what_its_agent_does(tiny, tmp_path):
    done, events = evals(tiny, tmp_path / "out")

    assert (done.n_run, done.n_kept) == (10, 0)
    assert raw(tmp_path / "out", "baseline").rewards() == {"one": [1.0], "two": [1.0]}
    assert raw(tmp_path / "out", "control-1").rewards() == {"one": [1.0], "two": [1.0]}
    assert raw(tmp_path / "out", "idle").rewards() == {"one": [0.0], "two": [0.0]}
    assert raw(tmp_path / "out", "no-actions").rewards() == {"one": [0.0], "two": [0.0]}
    assert {e.n_total for e in events} == {2}
    assert running_sandboxes() == []

    again, _ = evals(tiny, tmp_path / "out")
    assert (again.n_run, again.n_kept) == (0, 10)


def test_an_image_mapped_to_this_machine_runs_in_the_sandbox(tiny, tmp_path):
    task = tiny.folder / "tasks" / "one" / "task.toml"
    task.write_text(task.read_text().replace("debian:bookworm-slim", "mine:1"))
    tiny.sign()
    with pytest.raises(ConfigError, match="base image 'mine:1' is not mapped"):
        evals(tiny, tmp_path / "out")
    mapped = {"type": "local", "kwargs": {"base_images": {"mine:1": "host", "debian:bookworm-slim": "host"}}}
    tiny.edit("execution.yaml", lambda execution: execution.update(environment=mapped))
    done, _ = evals(tiny, tmp_path / "out")
    assert done.n_run == 10
    assert raw(tmp_path / "out", "baseline").rewards() == {"one": [1.0], "two": [1.0]}


def test_native_job_folders_are_left_as_harbor_wrote_them(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    (trial,) = [t for t in raw(tmp_path / "out", "baseline").trials if t.task == "one"]
    folder = EvidenceRoot(tmp_path / "out").trial("tiny", "baseline", trial.folder, trial.run, trial.trial)
    assert {"config.json", "lock.json", "result.json", "trial.log"} <= {p.name for p in folder.iterdir()}
    assert {"config.json", "lock.json", "result.json", "job.log"} <= {p.name for p in folder.parent.iterdir()}


def test_raising_attempts_runs_only_the_missing_trials(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    tiny.edit("execution.yaml", lambda e: e["roles"]["mutant"].update(attempts=2))
    done, events = evals(tiny, tmp_path / "out")
    assert ran(events) == [("idle", "one"), ("idle", "two"), ("no-actions", "one"), ("no-actions", "two")]
    assert (done.n_run, done.n_kept) == (4, 10)
    trials = raw(tmp_path / "out", "idle").trials
    assert [(t.task, t.attempt) for t in trials] == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
    # The first attempts are still those of the first run, in their own folder.
    assert len({t.folder for t in trials}) == 2


def test_adding_a_task_runs_only_its_trials(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    tiny.add_task("three")
    tiny.sign()
    done, events = evals(tiny, tmp_path / "out")
    assert {task for _, task in ran(events)} == {"three"}
    assert (done.n_run, done.n_kept) == (5, 10)


def test_a_changed_task_is_refused_until_the_change_is_accepted(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    (tiny.folder / "tasks" / "one" / "instruction.md").write_text("Write one, please.\n")
    tiny.sign()
    before = sorted(p.relative_to(tmp_path) for p in (tmp_path / "out" / "execution").rglob("*"))
    with pytest.raises(ConfigError) as refused:
        evals(tiny, tmp_path / "out")
    assert "tiny|baseline: task changed: one; its trials of one would" in str(refused.value)
    assert "--accept-changes" in str(refused.value)
    assert sorted(p.relative_to(tmp_path) for p in (tmp_path / "out" / "execution").rglob("*")) == before

    done, events = evals(tiny, tmp_path / "out", accept_changes=True)
    assert {task for _, task in ran(events)} == {"one"}
    assert (done.n_run, done.n_kept) == (5, 5)


def test_a_new_mutant_is_the_only_thing_run(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    new = {"id": "also-idle", "operator": "external/does-nothing", "agent": {"name": "nop"}}
    tiny.edit("case.yaml", lambda case: case["mutants"].append(new))
    tiny.sign()
    _, events = evals(tiny, tmp_path / "out")
    assert {variant for variant, _ in ran(events)} == {"also-idle"}


def test_trials_without_a_verdict_are_run_again_and_stay_on_disk(tiny, tmp_path):
    """A verifier that writes no reward gives no verdict, so its trial is run again, as often as configured."""
    test = tiny.folder / "tasks" / "one" / "tests" / "test.sh"
    test.write_text("#!/bin/bash\nexit 0\n")
    tiny.edit("execution.yaml", lambda e: e.update(infrastructure_retries=1))
    tiny.sign()
    with pytest.raises(ExecutionError) as stopped:
        evals(tiny, tmp_path / "out")
    assert stopped.value.exit_status == 4
    assert (
        "tiny|baseline: 1 trials have no verdict after 1 retries (2 times: tests/test.sh wrote no "
        "/logs/verifier/reward.txt (or reward.json)); have tests/test.sh of task one write a reward"
    ) in str(stopped.value)
    (lacking,) = [t for t in raw(tmp_path / "out", "baseline").trials if t.task == "one"]
    assert (lacking.status, lacking.reward) == ("no_verdict", None)
    assert "RewardFileNotFoundError" in (lacking.reason or "")
    config = next(p for p in (tmp_path / "out/execution/tiny/baseline").iterdir() if p.is_dir())
    assert sorted(p.name for p in (config / "jobs").iterdir()) == ["run-1", "run-2"]
    assert not (tmp_path / "out" / "execution.json").exists()


@pytest.mark.parametrize("interleave", [False, True])
def test_a_reward_key_nobody_writes_stops_after_one_round_of_the_baseline(tiny, tmp_path, interleave):
    tiny.edit("execution.yaml", lambda e: e.update(reward_key="score", infrastructure_retries=2, interleave=interleave))
    run = coordinator.open_run(tiny.path, tmp_path / "out")
    events: list[Progress] = []
    with pytest.raises(ExecutionError) as stopped:
        coordinator.run_evals(run, on_progress=events.append)
    assert ran(events) == [("baseline", "one"), ("baseline", "two")]
    said = str(stopped.value)
    assert "2 times: no finite reward under key 'score'; rewards found: reward" in said
    assert "no other variant was run" in said


def test_a_variant_whose_trial_was_deleted_is_run_again_once_its_folder_is_removed(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    folder = tmp_path / "out/execution/tiny/idle"
    (trial, _) = sorted(p for p in folder.glob("*/jobs/run-1/*") if p.is_dir())
    shutil.rmtree(trial)
    with pytest.raises(EvidenceError) as refused:
        evals(tiny, tmp_path / "out")
    assert "execution/tiny/idle: without a backup: remove this folder" in str(refused.value)
    shutil.rmtree(folder)
    done, events = evals(tiny, tmp_path / "out")
    assert ran(events) == [("idle", "one"), ("idle", "two")]
    assert (done.n_run, done.n_kept) == (2, 8)


def test_trials_nobody_planned_are_named_and_refused(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    (job,) = (tmp_path / "out/execution/tiny/idle").glob("*/jobs/run-1")
    shutil.copytree(job, job.with_name("best-of"))
    with pytest.raises(EvidenceError, match="best-of: no plan asked for this job"):
        evals(tiny, tmp_path / "out")


def test_the_budget_leaves_a_state_that_can_be_continued(tiny, tmp_path):
    tiny.edit("execution.yaml", lambda e: e.update(budget={"max_trials": 5}))
    with pytest.raises(ExecutionError, match="the budget is reached"):
        evals(tiny, tmp_path / "out")
    settled = sum(e["n_trials"] for e in read_ledger(EvidenceRoot(tmp_path / "out")) if e["kind"] == "settle")
    assert settled == 5
    tiny.edit("execution.yaml", lambda e: e.update(budget={"max_trials": 10}))
    done, _ = evals(tiny, tmp_path / "out")
    assert (done.n_run, done.n_kept) == (5, 5)


def test_a_second_run_on_one_output_stops_at_once(tiny, tmp_path):
    root = EvidenceRoot(tmp_path / "out")
    with (
        lock_root(root, "exclusive"),
        pytest.raises(LockedError, match=r"in use by another run: pid \d+ on .+, started "),
    ):
        evals(tiny, tmp_path / "out")


def test_another_run_id_is_refused_and_nothing_is_written(tiny, tmp_path):
    evals(tiny, tmp_path / "out")
    with pytest.raises(EvidenceError, match="holds evidence of run 'tiny'; expected 'other'"):
        coordinator.open_run(tiny.path, tmp_path / "out", run_id="other")


def test_a_variable_set_after_the_first_run_reaches_the_agent(tiny, tmp_path, monkeypatch):
    evals(tiny, tmp_path / "out")
    monkeypatch.setenv("MB_TEST_SET_LATE", "1")
    tiny.edit("case.yaml", lambda c: c["mutants"][0]["agent"].update(env={"LATE": "${MB_TEST_SET_LATE}"}))
    tiny.sign()
    done, events = evals(tiny, tmp_path / "out", accept_changes=True)
    assert ran(events) == [("idle", "one"), ("idle", "two")]
    assert (done.n_run, done.n_kept) == (2, 8)


def test_an_unset_secret_is_named_before_anything_runs(tiny, tmp_path):
    tiny.edit("case.yaml", lambda c: c["baseline"]["agent"].update(env={"SOME_TOKEN": "${MB_TEST_UNSET}"}))
    tiny.sign()
    with pytest.raises(ConfigError, match="MB_TEST_UNSET"):
        evals(tiny, tmp_path / "out")
    assert not list((tmp_path / "out").glob("execution/tiny/*/*/jobs"))
