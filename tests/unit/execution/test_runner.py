# SPDX-License-Identifier: Apache-2.0
"""Jobs are made as large as what is left of a budget, down to a part of one task's attempts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from metric_benchmark.execution.plan import JobPlan
from metric_benchmark.execution.runner import next_job
from metric_benchmark.execution.stopping import Lacking, describe_stop


@pytest.mark.parametrize(
    ("todo", "left", "job"),
    [
        ({"a": 2, "b": 2}, None, JobPlan(2, ("a", "b"))),
        ({"a": 2, "b": 2}, 3, JobPlan(2, ("a",))),
        ({"a": 3, "b": 1}, 2, JobPlan(1, ("b",))),
        ({"a": 3, "b": 3}, 2, JobPlan(2, ("a",))),
        ({"a": 3}, 0, None),
        ({"a": 0}, 5, None),
        ({}, None, None),
    ],
)
def test_the_next_job_fits_into_what_is_left(todo, left, job):
    assert next_job(todo, left) == job


def test_one_job_after_another_uses_a_budget_up():
    todo, left, n_run = {"a": 3, "b": 3, "c": 1}, 6, 0
    while (job := next_job(todo, left)) is not None:
        for task in job.tasks:
            todo[task] -= job.attempts
        left -= job.n_trials
        n_run += job.n_trials
    assert (n_run, left, sum(todo.values())) == (6, 0, 1)


def outcome(reason, exception=None, *, lacks_key=False, task="a"):
    found = SimpleNamespace(reason=reason, exception=exception, status="no_verdict", lacks_reward_key=lacks_key)
    return Lacking(task, found, Path("t"))


def test_the_most_frequent_reasons_are_named_each_kind_once():
    stopped = [
        outcome("Slow: a", "Slow"),
        outcome("Lost: /b/1", "Lost"),
        outcome("Lost: /b/2", "Lost"),
        outcome("Odd: x", "Odd"),
        outcome("Odd: x", "Odd"),
        outcome("Odd: x", "Odd"),
        outcome("Rare: y", "Rare"),
    ]
    said = describe_stop(4, SimpleNamespace(infrastructure_retries=2), stopped)
    assert said == (
        "4 trials have no verdict after 2 retries (3 times: Odd: x; 2 times: Lost: /b/2; 1 times: Slow: a); run again "
        "to retry them"
    )


def test_a_reward_nobody_writes_is_said_to_be_a_matter_of_the_files():
    said = describe_stop(2, SimpleNamespace(infrastructure_retries=2), [outcome("no key", lacks_key=True)] * 2)
    assert said.startswith("2 trials have no verdict (2 times: no key); they are not retried")
    assert "set `reward_key` in the execution file" in said


def test_tests_that_write_no_reward_are_to_be_corrected_not_run_again():
    silent = [outcome("x", "RewardFileNotFoundError", task=task) for task in ("a", "b", "b")]
    said = describe_stop(2, SimpleNamespace(infrastructure_retries=2), silent)
    assert said.startswith(
        "2 trials have no verdict after 2 retries (3 times: tests/test.sh wrote no /logs/verifier/reward.txt (or "
        "reward.json)); have tests/test.sh of task a write a reward"
    )
    assert "have tests/test.sh of task b write" in said
    assert "t/exception.txt" in said
    assert "run again" not in said
    mixed = describe_stop(3, SimpleNamespace(infrastructure_retries=2), [*silent, outcome("Slow: a", "Slow")])
    assert mixed.endswith("; run again to retry the others")
