# SPDX-License-Identifier: Apache-2.0
"""Which native trials are a variant's: those a plan asked for, once each, as they were recorded; others are named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.execution.inventory import find_trials, next_run
from metric_benchmark.execution.plan import choose_trials, missing_attempts
from metric_benchmark.execution.recorded import other_digests
from metric_benchmark.hashing import digest_bytes
from metric_benchmark.records.execution import PlannedTask, RawResults, RunPlan

CONFIG = "c" * 64
KEYS = {"one": "1" * 64, "two": "2" * 64}
REMEDY = "execution/desk/short: without a backup: remove this folder, and the whole variant is run again"
ADVICE = "trials nobody planned are never counted; move them out of the evidence"
AGENT = {"name": "nop", "import_path": None, "model_name": None, "kwargs": {}}


@dataclass
class Evidence:
    """A variant's folders, written as Harbor writes them."""

    root: EvidenceRoot

    @property
    def config(self) -> Path:
        return self.root.config("desk", "short", CONFIG)

    def plan(self, run="run-1", attempts=1, **changes) -> Path:
        values = {
            "run_id": "mine", "case": "desk", "variant": "short", "role": "mutant", "config_hash": CONFIG, "run": run,
            "attempts": attempts, "created_at": "now",
            "tasks": tuple(PlannedTask(task=t, trial_key=k, path=f"/tasks/{t}") for t, k in KEYS.items()),
        }  # fmt: skip
        path = self.config / f"{run}.plan.json"
        write_record(path, RunPlan.model_validate({**values, **changes}))
        return path

    def job(self, run="run-1", job_id="job-1") -> Path:
        job = self.config / "jobs" / run
        job.mkdir(parents=True)
        (job / "config.json").write_text(json.dumps({"agents": [AGENT]}))
        (job / "lock.json").write_text(json.dumps({"trials": []}))
        (job / "result.json").write_text(json.dumps({"id": job_id, "finished_at": "2025-01-01T00:01:00Z"}))
        return job

    def trial(self, name="one__aaa", run="run-1", reward=1.0, second=0, exception=None, **changes) -> Path:
        folder = self.config / "jobs" / run / name
        (folder / "verifier").mkdir(parents=True)
        task = name.partition("__")[0]
        config = {"task": {"path": f"/tasks/{task}"}, "trial_name": name, "job_id": "job-1", "agent": AGENT, **changes}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "lock.json").write_text(json.dumps({"task": {"digest": f"sha256:{task}"}}))
        (folder / "verifier/reward.txt").write_text(f"{reward}\n")
        info = {"exception_type": exception, "exception_message": "m", "exception_traceback": ""} if exception else None
        result = {
            "started_at": f"2025-01-01T00:00:{second:02}Z", "finished_at": "2025-01-01T00:01:00Z",
            "task_checksum": task,
            "verifier_result": {"rewards": {"reward": reward}}, "exception_info": info, "reward_valid": True,
            "agent_execution": {"started_at": "2025-01-01T00:00:01Z"},
        }  # fmt: skip
        (folder / "result.json").write_text(json.dumps(result))
        return folder

    def find(self):
        return find_trials(self.root, "desk", "short", "reward")

    def refused(self) -> list[str]:
        with pytest.raises(EvidenceError) as error:
            self.find()
        assert error.value.exit_status == 3
        return [str(problem) for problem in error.value.problems]

    def record(self, attempts=1) -> RawResults:
        found = self.find()
        chosen = choose_trials(KEYS, attempts, found)
        results = RawResults(
            run_id="mine", case="desk", variant="short", role="mutant", config_hash=CONFIG, attempts=attempts,
            tasks=tuple(KEYS), environment={}, trials=chosen,
            evidence=other_digests(self.root.variant("desk", "short"), KEYS, found, chosen),
        )  # fmt: skip
        write_record(self.config / "raw-results.json", results)
        return results


@pytest.fixture
def evidence(tmp_path) -> Evidence:
    """One run with one trial of each task."""
    found = Evidence(EvidenceRoot(tmp_path))
    found.plan()
    found.job()
    found.trial("one__aaa")
    found.trial("two__bbb", reward=0.0)
    return found


JOBS = f"execution/desk/short/{'c' * 16}/jobs"


def test_planned_trials_are_found(evidence):
    found = evidence.find()
    assert [(t.task, t.trial_key, t.folder, t.run, t.outcome.reward) for t in found] == [
        ("one", KEYS["one"], "c" * 16, "run-1", 1.0),
        ("two", KEYS["two"], "c" * 16, "run-1", 0.0),
    ]
    assert [t.outcome.task_digest for t in found] == ["sha256:one", "sha256:two"]


def test_a_variant_that_never_ran_has_none(tmp_path):
    assert Evidence(EvidenceRoot(tmp_path)).find() == []


def test_a_plan_whose_job_never_started_is_no_problem(evidence):
    evidence.plan("run-2")
    assert len(evidence.find()) == 2
    assert next_run(evidence.config) == "run-3"


def test_a_job_nobody_planned(evidence):
    evidence.job("best-of")
    assert evidence.refused() == [f"{JOBS}/best-of: no plan asked for this job", ADVICE]


def test_a_task_the_plan_does_not_have(evidence):
    evidence.trial("three__ccc")
    assert evidence.refused() == [f"{JOBS}/run-1/three__ccc: its task /tasks/three is not in the plan of run-1", ADVICE]


def test_more_trials_than_planned_are_never_averaged_nor_picked_from(evidence):
    evidence.trial("one__ddd", reward=0.0)
    assert evidence.refused() == [f"{JOBS}/run-1: 2 trials of task one, but the plan asked for 1", ADVICE]


def test_a_copy_under_another_name_in_the_place_of_one_that_was_asked_for(evidence):
    evidence.plan(attempts=2)
    folder = evidence.trial("one__aaa-again", trial_name="one__aaa")
    assert evidence.refused() == [f"{JOBS}/run-1/{folder.name}: is the trial one__aaa under another name", ADVICE]


def test_a_trial_of_another_job(evidence):
    evidence.plan(attempts=2)
    evidence.trial("one__eee", job_id="job-9")
    assert evidence.refused() == [f"{JOBS}/run-1/one__eee: is a trial of job job-9, not of this job, job-1", ADVICE]


def test_a_trial_of_another_agent(evidence):
    evidence.plan(attempts=2)
    evidence.trial("one__eee", agent={**AGENT, "name": "oracle"})
    assert evidence.refused() == [f"{JOBS}/run-1/one__eee: its agent is not the job's", ADVICE]


def test_a_plan_of_another_variant(evidence):
    evidence.plan(variant="other")
    assert evidence.refused() == [
        f"execution/desk/short/{'c' * 16}/run-1.plan.json: is the plan of desk/other/{'c' * 16}/run-1, not of this "
        "folder",
        ADVICE,
    ]


def test_links_are_not_followed(evidence, tmp_path):
    (evidence.config / "jobs/run-1/one__aaa").rename(tmp_path / "elsewhere")
    (evidence.config / "jobs/run-1/one__aaa").symlink_to(tmp_path / "elsewhere")
    assert evidence.refused() == [f"{JOBS}/run-1/one__aaa: a link; put the trial's folder itself there", REMEDY]


def test_everything_that_is_wrong_is_named_at_once(evidence):
    evidence.job("best-of")
    evidence.trial("three__ccc")
    evidence.trial("one__ddd")
    assert len(evidence.refused()) == 4


def test_a_reward_file_without_a_finished_result_is_not_a_result(evidence):
    (evidence.config / "jobs/run-1/one__aaa/result.json").unlink()
    found = evidence.find()
    assert [t.outcome.status for t in found] == ["cancelled", "valid"]
    assert missing_attempts(KEYS, 1, found) == {"one": 1, "two": 0}


def test_an_agent_that_timed_out_with_a_reward_is_kept_with_it(evidence):
    evidence.plan("run-2")
    evidence.job("run-2")
    evidence.trial("one__fff", run="run-2", reward=0.8, exception="AgentTimeoutError", second=1)
    found = [trial.outcome for trial in evidence.find() if trial.run == "run-2"]
    assert [(o.status, o.reward, o.reason, o.exception) for o in found] == [
        ("valid", 0.8, "AgentTimeoutError", "AgentTimeoutError")
    ]


def test_valid_trials_are_chosen_by_their_start_whatever_they_scored(evidence):
    """Of three attempts the first two are taken, though the third scored more."""
    for number, reward in ((2, 0.0), (3, 1.0)):
        evidence.plan(f"run-{number}")
        evidence.job(f"run-{number}")
        evidence.trial(f"two__r{number}", run=f"run-{number}", reward=reward, second=number)
    chosen = [t for t in choose_trials(KEYS, 2, evidence.find()) if t.task == "two"]
    assert [(t.attempt, t.trial, t.reward) for t in chosen] == [(1, "two__bbb", 0.0), (2, "two__r2", 0.0)]


def test_both_reward_files_of_a_step_are_flagged(evidence):
    folder = evidence.config / "jobs/run-1/one__aaa/steps/first/verifier"
    folder.mkdir(parents=True)
    (folder / "reward.txt").write_text("1")
    assert evidence.find()[0].outcome.flags == ()
    (folder / "reward.json").write_text('{"reward": 1}')
    assert evidence.find()[0].outcome.flags == ("two_reward_files",)


def test_several_reward_keys_without_a_configured_one_are_refused(project):
    from metric_benchmark.config import load_experiment

    project.edit("execution.yaml", ("reward_key: reward\n", ""))
    with pytest.raises(ConfigError, match=r"execution\.yaml:\d+: key `reward_key` is missing"):
        load_experiment(project.folder)


def test_several_reward_keys_and_not_the_configured_one(evidence):
    path = evidence.config / "jobs/run-1/one__aaa/result.json"
    value = json.loads(path.read_bytes())
    value["verifier_result"]["rewards"] = {"speed": 1.0, "quality": 0.5}
    path.write_text(json.dumps(value))
    outcome = evidence.find()[0].outcome
    assert (outcome.status, outcome.reward) == ("no_verdict", None)
    assert outcome.reason == "no finite reward under key 'reward'; rewards found: quality, speed"


def test_a_result_of_another_form_is_named(evidence):
    path = evidence.config / "jobs/run-1/one__aaa/result.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "started_at": "yesterday"}))
    message, remedy = evidence.refused()
    assert remedy == REMEDY
    assert message.startswith(
        f"{path}: not of the form Harbor writes (ValueError: Invalid isoformat string: 'yesterday');"
    )


def test_what_died_before_a_file_was_whole_is_no_trial(evidence):
    folder = evidence.config / "jobs/run-1/one__half"
    folder.mkdir()
    (folder / "config.json").write_text('{"task": {"pa')
    assert len(evidence.find()) == 2


# What was recorded must still be there.


def test_records_and_folders_that_agree(evidence):
    evidence.record()
    assert len(evidence.find()) == 2


@pytest.mark.parametrize(
    "name", ["result.json", "config.json", "lock.json", "verifier/reward.txt", "agent/trajectory.json"]
)
def test_a_file_of_a_recorded_trial_that_changed(evidence, name):
    folder = evidence.config / "jobs/run-1/one__aaa"
    (folder / "agent").mkdir()
    (folder / "agent/trajectory.json").write_text("{}")
    evidence.record()
    path = folder / name
    old = path.read_bytes()
    path.write_bytes(old + b" ")
    assert evidence.refused() == [
        f"{JOBS}/run-1/one__aaa/{name}: damaged or exchanged: its SHA-256 is {digest_bytes(old + b' ')[:16]}..., "
        f"recorded {digest_bytes(old)[:16]}...; restore it from a backup",
        REMEDY,
    ]
    path.write_bytes(old)
    evidence.find()


def test_a_recorded_trial_that_is_gone(evidence):
    evidence.record()
    folder = evidence.config / "jobs/run-1/one__aaa"
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    assert evidence.refused() == [
        f"{JOBS}/run-1/one__aaa: missing, but recorded as attempt 1 of task one; restore it from a backup",
        REMEDY,
    ]


def test_a_second_reward_file_that_appeared(evidence):
    evidence.record()
    (evidence.config / "jobs/run-1/one__aaa/verifier/reward.json").write_text('{"reward": 0}')
    assert evidence.refused() == [
        f"{JOBS}/run-1/one__aaa/verifier/reward.json: was not there when the trial was recorded; move it out of the "
        "evidence",
        REMEDY,
    ]


@pytest.mark.parametrize("name", ["jobs/run-1/config.json", "jobs/run-1/lock.json"])
def test_a_file_of_a_recorded_job_that_changed(evidence, name):
    evidence.record()
    path = evidence.config / name
    path.write_bytes(path.read_bytes() + b" ")
    message, remedy = evidence.refused()
    assert remedy == REMEDY
    assert message.startswith(f"execution/desk/short/{'c' * 16}/{name}: damaged or exchanged: its SHA-256 is ")


def test_trials_without_a_verdict_may_change(evidence):
    """The process of a run that was killed may still write its last files; they are run again anyway."""
    path = evidence.config / "jobs/run-1/one__aaa/result.json"
    finished = path.read_bytes()
    path.unlink()
    assert [trial.status for trial in evidence.record().trials] == ["cancelled", "valid"]
    path.write_bytes(finished)
    assert len(evidence.find()) == 2


def test_trials_that_were_not_chosen_are_covered_too(evidence):
    evidence.plan("run-2")
    evidence.job("run-2")
    evidence.trial("one__spare", run="run-2", second=5)
    digests = evidence.record().evidence
    spare = {name.rpartition("one__spare/")[2] for name in digests if "one__spare" in name}
    assert spare == {"config.json", "lock.json", "result.json", "verifier/reward.txt"}
    others = {name.removeprefix("c" * 16 + "/") for name in digests if "one__spare" not in name}
    assert others == {
        f"{name}" for run in ("run-1", "run-2") for name in (
            f"{run}.plan.json", f"jobs/{run}/config.json", f"jobs/{run}/lock.json", f"jobs/{run}/result.json",
        )
    }  # fmt: skip


def test_runs_of_other_keys_are_no_part_of_a_record(evidence):
    """Nothing current rests on them, and the record of an old configuration stays what it was when others follow."""
    tasks = (PlannedTask(task="one", trial_key="9" * 64, path="/tasks/one"),)
    evidence.plan("run-2", tasks=tasks)
    evidence.job("run-2")
    assert not [name for name in evidence.record().evidence if "run-2" in name]
