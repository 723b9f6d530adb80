# SPDX-License-Identifier: Apache-2.0
"""What the bundled mutants break, rehearsed without Harbor: enough different kills, each for the reason it was made.

The agent and the tasks use relative paths, a shell and coreutils only, so that a folder can stand for the container.
The same matrix comes out of real trials (tests/integration and tests/e2e); here it takes seconds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
import yaml

from metric_benchmark.mutants.sentences import split_sentences


@dataclass(frozen=True)
class Matrix:
    """Kill sets per mutant, and what the baseline did in each task."""

    baseline: dict
    kills: dict
    n_sentences: dict


@pytest.fixture(scope="module")
def matrix_of(examples, clerk, rehearse, tmp_path_factory):
    async def everything(case_id):
        folder = examples / "bundled/cases" / case_id
        case = yaml.safe_load((folder / "case.yaml").read_text())
        tasks = {task["id"]: folder / task["path"] for task in case["tasks"]}
        variants = {"baseline": None} | {m["id"]: m["operator"] for m in case["mutants"]}
        root = tmp_path_factory.mktemp(case_id)
        gate = asyncio.Semaphore(2)

        async def one(variant, task):
            async with gate:
                return await rehearse(clerk, tasks[task], root / variant / task, variants[variant])

        cells = [(variant, task) for variant in variants for task in tasks]
        done = dict(zip(cells, await asyncio.gather(*(one(*cell) for cell in cells)), strict=True))
        return Matrix(
            {t: done["baseline", t] for t in tasks},
            {v: frozenset(t for t in tasks if not done[v, t].passed) for v in variants if v != "baseline"},
            {t: len(split_sentences((path / "instruction.md").read_text())) for t, path in tasks.items()},
        )

    return lambda case_id: asyncio.run(everything(case_id))


@pytest.fixture(scope="module")
def desk(matrix_of):
    return matrix_of("desk")


@pytest.fixture(scope="module")
def depot(matrix_of):
    return matrix_of("depot")


@pytest.fixture(params=["desk", "depot"])
def matrix(request):
    return request.getfixturevalue(request.param)


def columns(matrix):
    return {kills for kills in matrix.kills.values() if kills}


def test_baseline_passes_every_task_within_ten_actions(matrix):
    assert [task for task, run in matrix.baseline.items() if not run.passed] == []
    assert max(len(run.observations) for run in matrix.baseline.values()) <= 10


def test_no_mutant_is_trivial(matrix):
    assert all(len(kills) < len(matrix.baseline) for kills in matrix.kills.values())


def test_first_case_has_enough_distinct_columns_and_dominators(desk):
    assert len(columns(desk)) >= 6
    dominators = [c for c in columns(desk) if not any(other < c for other in columns(desk))]
    assert len(dominators) >= 5


def test_first_case_has_a_mutant_hard_to_kill_and_one_never_killed(desk):
    # Only one instruction asks for the end of a file, and that file is too long to be paged through.
    assert desk.kills["no-tail"] == {"cash-balance"}
    # The agent lists with `find` instead.
    assert desk.kills["no-ls"] == frozenset()


def test_action_budget_kills_the_tasks_that_need_more_actions(desk):
    assert desk.kills["five-actions"] == {t for t, run in desk.baseline.items() if len(run.observations) > 5}


@pytest.mark.parametrize("number", [2, 5])
def test_dropped_sentence_kills_only_where_there_is_one(desk, number):
    kills = desk.kills[f"skips-sentence-{number}"]
    assert kills <= {t for t, n in desk.n_sentences.items() if n >= number}
    assert kills


def test_giving_up_kills_the_tasks_with_that_many_failures(desk):
    def failures(run):
        return sum(code != 0 for _, code in run.observations)

    assert desk.kills["gives-up"] == {t for t, run in desk.baseline.items() if failures(run) >= 2}


def test_stopping_at_the_first_failure_kills_every_task_that_needs_a_second_try(depot):
    failed = {t for t, run in depot.baseline.items() if any(code != 0 for _, code in run.observations)}
    assert depot.kills["no-second-try"] == failed


def test_short_sight_kills_only_where_something_longer_was_looked_at(desk):
    long = {t for t, run in desk.baseline.items() if any(len(text) > 400 for text, _ in run.observations)}
    assert desk.kills["short-sighted"] <= long
    assert desk.kills["short-sighted"]


def test_different_tasks_call_different_tools_in_different_ways(matrix):
    def shapes(run):
        calls = (call for step in run.trajectory["steps"] for call in step.get("tool_calls", []))
        return frozenset((c["function_name"], *sorted(c["arguments"])) for c in calls)

    found = {shapes(run) for run in matrix.baseline.values()}
    assert len(found) >= len(matrix.baseline) / 2
    assert len({tool for shape in found for tool, *_ in shape}) == 8
