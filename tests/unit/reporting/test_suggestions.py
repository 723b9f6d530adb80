# SPDX-License-Identifier: Apache-2.0
"""Suggestions, on a kill matrix small enough to check by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metric_benchmark.reporting.data import CaseReport, load_report
from metric_benchmark.reporting.suggestions import suggest, value_tasks


@pytest.fixture
def case(finished) -> CaseReport:
    """Tasks a, b, c, d; mutants killed by: m1 {a, b}, m2 {a}, m3 {b, c}, m4 {}; d kills nothing."""
    found = load_report(finished).cases[0]
    killed = {"m1": ["a", "b"], "m2": ["a"], "m3": ["b", "c"], "m4": []}
    template = next(iter(found.scores.mutants.values()))
    mutants = {
        name: template.model_copy(
            update={
                "killed_by": tasks, "status": "killed" if tasks else "survived", "is_never_killed": not tasks,
                "undetermined_tasks": [], "operator": "amnesia",
            }
        )
        for name, tasks in killed.items()
    }  # fmt: skip
    scores = found.scores.model_copy(update={"eligible_tasks": ["a", "b", "c", "d"], "mutants": mutants})
    return replace(found, scores=scores, results={}, kills={})


def _with_costs(case: CaseReport, finished, **costs: float) -> CaseReport:
    results = load_report(finished).cases[0].results["baseline"]
    trials = [results.trials[0].model_copy(update={"task": t, "cost_usd": c}) for t, c in costs.items()]
    return replace(case, results={"baseline": results.model_copy(update={"trials": tuple(trials)})})


def test_tasks_are_ranked_by_new_kills(case):
    values = value_tasks(case)
    assert values.unit == "tasks"
    assert [(t.task, t.rank, t.new_kills) for t in values.tasks] == [
        ("a", 1, ("m1", "m2")), ("b", 2, ("m3",)), ("c", None, ()), ("d", None, ()),
    ]  # fmt: skip
    assert [t.alone for t in values.tasks] == [("m2",), (), (), ()]
    assert [t.is_redundant for t in values.tasks] == [False, True, True, True]
    assert (values.useful[-1].cumulative_kills, values.useful[-1].cumulative_cost) == (3, 2.0)


def test_a_cheap_task_goes_before_a_dear_one(case, finished):
    # a: 2 kills for 4, b: 2 for 1, c: 1 for 0.1. First c (10 a dollar); then a adds m1 and m2 for 4 (0.5 a dollar) and
    # b only m1 for 1 (1 a dollar), so b; then a for m2.
    values = value_tasks(_with_costs(case, finished, a=4.0, b=1.0, c=0.1, d=1.0))
    assert values.unit == "USD"
    assert [(t.task, t.new_kills) for t in values.useful] == [("c", ("m3",)), ("b", ("m1",)), ("a", ("m2",))]
    assert values.useful[-1].cumulative_cost == pytest.approx(5.1)


def test_every_suggestion_names_its_subjects(case):
    found = {s.kind: s for s in suggest(case)}
    assert found["untested"].subjects == ("m4",)
    assert "No task notices amnesia (1 mutant)" in found["untested"].found
    assert found["keep"].subjects == ("a", "b")
    assert "2 tasks in this order kill all 3 mutants" in found["keep"].found
    assert found["redundant"].subjects == ("c", "d")
    assert "undetermined" not in found


def test_an_undetermined_mutant_is_not_called_untested(case):
    m4 = case.scores.mutants["m4"].model_copy(update={"status": "undetermined", "undetermined_tasks": ["d"]})
    scores = case.scores.model_copy(update={"mutants": {**case.scores.mutants, "m4": m4}})
    found = {s.kind: s for s in suggest(replace(case, scores=scores))}
    assert "untested" not in found
    assert found["undetermined"].subjects == ("m4",)


def test_items_nobody_exercises_are_named_but_not_those_of_made_up_metrics(finished):
    case = load_report(finished).cases[1]
    found = [s for s in suggest(case) if s.kind == "unexercised"]
    metric = case.coverage.metrics["tool_calls"]
    seen = {item for items in metric.tasks.values() for item in items}
    assert [s.subjects for s in found] == [tuple(i for i in metric.items if i not in seen)]


def test_nothing_is_suggested_before_scores(world, tmp_path):
    root = world.write_world(tmp_path, {"desk": world.World(n_tasks=6, n_mutants=3)}, stop_after="execution")
    assert suggest(load_report(root).cases[0]) == []
