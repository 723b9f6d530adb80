# SPDX-License-Identifier: Apache-2.0
"""When two agents are declared alike, and what of a foreign configuration is a deviation; folders are of any form."""

from __future__ import annotations

import json

import pytest

from metric_benchmark.execution.environments import Environment
from metric_benchmark.execution.importing import assess_job, find_jobs
from metric_benchmark.execution.task_digests import TaskDigests
from metric_benchmark.execution.variant import Task, Variant

BUNDLE = {
    "import_path": "metric_benchmark.execution.agents:BundleAgent",
    "kwargs": {"bundle_dir": "/here/agent", "bundle_sha256": "b" * 64, "entry": "a:A", "agent_kwargs": {"n": 1}},
    "model_name": None,
    "env": {"KEY": "${KEY}"},
}
MUTANT = {
    "import_path": "metric_benchmark.mutants.agent:MutantAgent",
    "kwargs": {"label": "cut", "operator": {"name": "action_budget", "params": {}, "seed": 0}, "agent": BUNDLE},
    "model_name": None,
    "env": {"KEY": "${KEY}"},
}
TASKS = {"one": TaskDigests("one", "folder", "sha256:" + "1" * 64, "c" * 64)}


def variant(agent, tmp_path) -> Variant:
    return Variant(
        case_id="desk", variant_id="v", role="mutant", attempts=1, operator=None, agent=agent,
        tasks=(Task("one", tmp_path / "one", "p" * 64),), trial_keys={"one": "k" * 64}, config_hash="h" * 64,
        environment=Environment("docker", {"type": "docker", "kwargs": {}, "env": {}}, {"type": "docker"}),
    )  # fmt: skip


def write_job(folder, agent, *, lock=None, **config):
    """Writes a job with one trial, as Harbor would."""
    trial = folder / "job" / "one__aaa"
    (trial / "verifier").mkdir(parents=True)
    own = {
        "task": {"path": "/elsewhere/one"}, "trial_name": "one__aaa", "agent": agent,
        "environment": {"type": "docker", "kwargs": {}}, **config,
    }  # fmt: skip
    result = {
        "started_at": "2025-01-01T00:00:00Z", "finished_at": "2025-01-01T00:01:00Z", "task_checksum": "c" * 64,
        "config": own, "verifier_result": {"rewards": {"reward": 1.0}}, "exception_info": None, "reward_valid": True,
    }  # fmt: skip
    (trial / "config.json").write_text(json.dumps(own))
    trial_lock = {"task": {"digest": TASKS["one"].content}}
    (trial / "lock.json").write_text(json.dumps(trial_lock))
    (trial / "result.json").write_text(json.dumps(result))
    job = folder / "job"
    (job / "config.json").write_text(json.dumps({"agents": [agent]}))
    (job / "lock.json").write_text(
        json.dumps({"harbor": {"version": "0.26.0"}, "trials": [trial_lock]} if lock is None else lock)
    )
    (job / "result.json").write_text(json.dumps({"finished_at": "2025-01-01T00:01:00Z"}))
    return job


@pytest.mark.parametrize("agent", [BUNDLE, MUTANT], ids=["a bundle", "a mutant of it"])
def test_where_a_bundle_lies_and_what_a_mutant_is_called_do_not_matter(tmp_path, agent):
    theirs = json.loads(json.dumps(agent).replace("/here/agent", "/there").replace('"cut"', '"renamed"'))
    found = assess_job(write_job(tmp_path, theirs), variant(agent, tmp_path), TASKS, "reward")
    assert [task for task, _ in found.trials] == ["one"]
    assert found.deviations == []


@pytest.mark.parametrize(
    ("old", "new", "differing"),
    [
        ('"n": 1', '"n": 2', "kwargs.agent.kwargs.agent_kwargs.n"),
        ("b" * 64, "d" * 64, "kwargs.agent.kwargs.bundle_sha256"),
        ('"seed": 0', '"seed": 1', "kwargs.operator.seed"),
        ('"model_name": null', '"model_name": "m"', "model_name, kwargs.agent.model_name"),
    ],
)
def test_what_an_agent_does_matters(tmp_path, old, new, differing):
    theirs = json.loads(json.dumps(MUTANT).replace(old, new))
    found = assess_job(write_job(tmp_path, theirs), variant(MUTANT, tmp_path), TASKS, "reward")
    assert (found.trials, found.left_out) == ([], [f"one__aaa: its agent is declared otherwise: {differing}"])


@pytest.mark.parametrize(
    ("config", "deviation"),
    [
        ({"environment": {"type": "modal"}}, "ran in environment modal; this experiment uses docker"),
        ({"environment": {"type": "docker", "override_cpus": 4}}, "its environment is set otherwise: override_cpus"),
        ({"environment": {"type": "docker", "env": {"A": "1"}}}, "other variables were set in its environment"),
        ({"timeout_multiplier": 3.0}, "timeout_multiplier was 3.0; a run of this experiment has 1.0"),
        ({"verifier": {"disable": False, "max_timeout_sec": 5}}, "its verifier is set otherwise: max_timeout_sec"),
    ],
)
def test_what_differs_is_listed(tmp_path, config, deviation):
    found = assess_job(write_job(tmp_path, BUNDLE, **config), variant(BUNDLE, tmp_path), TASKS, "reward")
    assert found.deviations == [deviation]


def test_code_that_is_not_on_record_is_listed(tmp_path):
    agent = {"import_path": "pkg.mod:Agent", "kwargs": {}, "model_name": None, "env": {}}
    found = assess_job(write_job(tmp_path, agent), variant(agent, tmp_path), TASKS, "reward")
    assert found.deviations == ["what the agent's code was is not on record; it is taken to be today's"]


@pytest.mark.parametrize("lock", [{}, {"harbor": "0.26.0", "trials": "none"}, {"trials": ["x"]}])
def test_a_lock_of_another_form_is_no_fault_of_ours(tmp_path, lock):
    found = assess_job(write_job(tmp_path, BUNDLE, lock=lock), variant(BUNDLE, tmp_path), TASKS, "reward")
    assert found.deviations == ["Harbor was of an unknown version; this is 0.26.0"]


def write(job, name, value):
    (job / name).write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("lock.json", "", "the lock.json of its job is missing or damaged"),
        ("lock.json", {"trials": []}, "lock.json is not among the trials of job/lock.json"),
        (
            "one__aaa/verifier/reward.txt", "0\n",
            "verifier/reward.txt says reward=0.0, but result.json says reward=1.0; restore them from a backup",
        ),
        ("config.json", {"agents": [{"name": "nop"}]}, "its agent is not the job's"),
        ("one__aaa/result.json", {"config": {}}, "result.json the configuration in it is not that of config.json"),
    ],
    ids=["no lock", "not locked", "another reward", "another agent", "another configuration"],
)  # fmt: skip
def test_a_trial_the_evidence_would_be_refused_with_is_left_out(tmp_path, name, value, reason):
    job = write_job(tmp_path, BUNDLE)
    write(job, name, {**json.loads((job / name).read_text()), **value} if "config" in value else value)
    found = assess_job(job, variant(BUNDLE, tmp_path), TASKS, "reward")
    assert (found.trials, found.left_out) == ([], [f"one__aaa: {reason}"])


def test_two_tasks_of_one_content_are_nobodys(tmp_path):
    """Nobody could tell whose a trial is."""
    tasks = {**TASKS, "two": TaskDigests("two", "folder", TASKS["one"].content, "c" * 64)}
    found = assess_job(write_job(tmp_path, BUNDLE), variant(BUNDLE, tmp_path), tasks, "reward")
    assert found.left_out == [
        "one__aaa: its task /elsewhere/one has digest 1111111111111111..., which no task of the case has"
    ]


def test_a_folder_of_jobs_and_a_job_alone(tmp_path):
    job = write_job(tmp_path, BUNDLE)
    assert find_jobs(job) == find_jobs(tmp_path) == [job]
