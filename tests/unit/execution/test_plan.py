# SPDX-License-Identifier: Apache-2.0
"""Which trials are missing, how they go into jobs, and which trials count: never by looking at rewards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metric_benchmark.execution.outcomes import Outcome
from metric_benchmark.execution.plan import (
    FoundTrial,
    JobPlan,
    archive_trials,
    choose_trials,
    missing_attempts,
    plan_jobs,
)

KEYS = {"one": "key-1", "two": "key-2"}


def found(
    task="one", status="valid", reward: float | None = 1.0, start=0, run="run-1", key=None, name="x"
) -> FoundTrial:
    outcome = Outcome(
        trial=f"{task}__{name}", task_path=f"/tasks/{task}", status=status, reason=None,
        reward=reward if status in ("valid", "agent_error") else None, native_reward=reward,
        started_at=f"2025-01-01T00:00:{start:02d}Z", duration_s=1.0, cost_usd=None, n_input_tokens=None,
        n_output_tokens=None, exception=None, flags=(), task_checksum=None, result_sha256="r", trajectory_sha256=None,
        files_sha256={},
    )  # fmt: skip
    return FoundTrial(task, key or KEYS[task], "f" * 16, run, outcome)


def test_nothing_found_means_everything_is_missing():
    assert missing_attempts(KEYS, 3, []) == {"one": 3, "two": 3}


def test_trials_that_count_are_kept_whatever_they_scored():
    trials = [found(reward=0.0), found(status="agent_error", reward=0.0), found("two")]
    assert missing_attempts(KEYS, 3, trials) == {"one": 1, "two": 2}


@pytest.mark.parametrize("status", ["infrastructure", "no_verdict", "cancelled"])
def test_trials_without_a_verdict_are_still_missing(status):
    assert missing_attempts(KEYS, 1, [found(status=status)]) == {"one": 1, "two": 1}


def test_trials_under_another_key_or_of_a_dropped_task_do_not_count():
    trials = [found(key="old"), found("two"), replace(found(), task="gone")]
    assert missing_attempts(KEYS, 1, trials) == {"one": 1, "two": 0}
    assert [trial.task for trial in choose_trials(KEYS, 1, trials)] == ["two"]


def test_more_than_were_asked_for_is_not_negative():
    assert missing_attempts(KEYS, 1, [found(start=1), found(start=2)]) == {"one": 0, "two": 1}


@pytest.mark.parametrize(
    ("missing", "budget", "jobs"),
    [
        ({}, None, ()),
        ({"a": 0, "b": 0}, None, ()),
        ({"a": 2, "b": 2}, None, (JobPlan(2, ("a", "b")),)),
        ({"a": 1, "b": 3, "c": 1}, None, (JobPlan(3, ("b",)), JobPlan(1, ("a", "c")))),
        ({"a": 2, "b": 2, "c": 1}, 3, (JobPlan(2, ("a",)), JobPlan(1, ("c",)))),
        ({"a": 2, "b": 2}, 4, (JobPlan(2, ("a", "b")),)),
        ({"a": 1}, 0, ()),
    ],
)
def test_jobs_are_uniform_in_attempts_and_fit_the_budget(missing, budget, jobs):
    assert plan_jobs(missing, max_trials=budget) == jobs


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(0, 5), max_size=8),
    st.none() | st.integers(0, 30),
)
def test_jobs_run_each_missing_trial_once_or_what_the_budget_allows(missing, budget):
    jobs = plan_jobs(missing, max_trials=budget)
    planned = {task: job.attempts for job in jobs for task in job.tasks}
    assert sum(job.n_trials for job in jobs) == sum(planned.values())
    if budget is None:
        assert planned == {task: count for task, count in missing.items() if count}
    else:
        assert sum(planned.values()) <= budget
        assert all(missing[task] == count for task, count in planned.items())


def test_attempts_are_ranked_by_start_whatever_the_order_on_disk():
    trials = [found(start=9, name="c"), found(start=1, name="a", run="run-2"), found(start=5, name="b")]
    chosen = choose_trials({"one": "key-1"}, 3, trials)
    assert [(trial.attempt, trial.trial, trial.run) for trial in chosen] == [
        (1, "one__a", "run-2"),
        (2, "one__b", "run-1"),
        (3, "one__c", "run-1"),
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 59), st.sampled_from([0.0, 1.0])), min_size=1, max_size=8, unique_by=lambda t: t[0]
    )
)
def test_the_choice_does_not_depend_on_rewards(trials):
    real = [found(start=start, reward=reward, name=str(start)) for start, reward in trials]
    turned = [found(start=start, reward=1 - reward, name=str(start)) for start, reward in trials]
    names = [[trial.trial for trial in choose_trials({"one": "key-1"}, 3, some)] for some in (real, turned)]
    assert names[0] == names[1] == [f"one__{start}" for start in sorted(start for start, _ in trials)[:3]]


def test_ranks_without_a_verdict_say_what_became_of_them():
    trials = [
        found(status="infrastructure", start=1, name="a"),
        found(status="no_verdict", start=2, name="b"),
        found(start=3, name="c"),
        found(status="cancelled", start=4, name="d"),
    ]
    chosen = choose_trials({"one": "key-1"}, 3, trials)
    assert [(t.attempt, t.trial, t.status, t.reward) for t in chosen] == [
        (1, "one__c", "valid", 1.0),
        (2, "one__b", "no_verdict", None),
        (3, "one__d", "cancelled", None),
    ]


def test_a_rank_nobody_tried_is_absent():
    assert [trial.attempt for trial in choose_trials(KEYS, 3, [found()])] == [1]


def test_records_keep_what_the_folder_said():
    (trial,) = choose_trials({"one": "key-1"}, 1, [found(reward=0.5, run="run-7")])
    assert (trial.trial_key, trial.folder, trial.run, trial.reward) == ("key-1", "f" * 16, "run-7", 0.5)
    assert (trial.result_sha256, trial.duration_s) == ("r", 1.0)


def test_trials_that_were_run_again_are_listed_and_those_that_stand_for_an_attempt_are_not():
    trials = [
        found(status="infrastructure", start=3, name="late"),
        found(status="cancelled", start=1, name="early"),
        found(start=5, name="counts"),
        found("two", status="no_verdict", start=2, name="first"),
        found("two", status="no_verdict", start=4, name="last"),
        found(status="cancelled", key="old", name="old"),
    ]
    chosen = choose_trials(KEYS, 1, trials)
    assert [trial.trial for trial in chosen] == ["one__counts", "two__last"]
    archived = archive_trials(KEYS, trials, chosen)
    assert [(trial.trial, trial.status) for trial in archived] == [
        ("one__early", "cancelled"), ("two__first", "no_verdict"), ("one__late", "infrastructure")
    ]  # fmt: skip
