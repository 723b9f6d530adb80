# SPDX-License-Identifier: Apache-2.0
"""Jobs are made as large as what is left of a budget, down to a part of one task's attempts."""

from __future__ import annotations

import pytest

from metric_benchmark.execution.plan import JobPlan
from metric_benchmark.execution.runner import next_job


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
