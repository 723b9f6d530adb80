# SPDX-License-Identifier: Apache-2.0
"""What must hold of any metric: coverage lies in [0, 1], grows with the subset, and does not depend on order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_benchmark.coverage.answers import check_answer, reduce_answer
from metric_benchmark.coverage.protocol import (
    CoverMatrix,
    MetricRequest,
    Observation,
    ToolCall,
    Trace,
    TraceStep,
)
from metric_benchmark.coverage.registry import MetricSpec, resolve_metric
from metric_benchmark.records.base import Undefined

TASKS = ("a", "b", "c", "d", "e")
METRICS = {
    "instruction_ngrams": {"n": 1},
    "observation_kinds": {"per_tool": True},
    "suite_size": {},
    "synthetic": {"seed": 3},
    "tool_arguments_shape": {"attempts": "majority"},
    "tool_bigrams": {},
    "tool_calls": {"tools": ["never"]},
    "trajectory_length": {"unit": "tool_calls"},
}

names = st.sampled_from(["list", "read", "write", "search"])
calls = st.builds(ToolCall, names, st.dictionaries(st.sampled_from(["path", "n"]), st.integers(0, 3)), st.just("c"))
observations = st.builds(Observation, st.sampled_from(["", "ok", "Error: no", "[... cut]"]), st.just("c"))
steps = st.builds(
    TraceStep,
    st.sampled_from(["user", "agent"]),
    st.sampled_from(["", "count the lines", "the words"]),
    st.lists(calls, max_size=3).map(tuple),
    st.lists(observations, max_size=2).map(tuple),
    st.sampled_from(["", "/sub"]),
).map(lambda step: step if step.source == "agent" else replace(step, tool_calls=()))
runs = st.dictionaries(
    st.sampled_from(TASKS), st.lists(st.lists(steps, max_size=5), min_size=1, max_size=3), max_size=5
)
subsets = st.dictionaries(st.sampled_from(["s1", "s2", "s3"]), st.sets(st.sampled_from(TASKS), min_size=1), min_size=1)


def request_of(runs, subsets, metric, order=TASKS):
    traces = [
        Trace.of(task, *found, attempt=n) for task in order for n, found in enumerate(runs.get(task, []), start=1)
    ]
    unmeasured = {} if metric.needs_traces is False else {t: "no trace" for t in order if t not in runs}
    return MetricRequest(
        "case",
        {},
        tuple(order),
        tuple(traces),
        unmeasured,
        {key: tuple(t for t in order if t in members) for key, members in subsets.items()},
        metric.settings,
    )


def coverage(request, metric):
    answer = check_answer("m", metric.implementation.measure(request), request)
    reduced = reduce_answer(answer, request.subsets, {**request.unmeasured, **answer.unmeasured})
    return answer, {subset: found.coverage for subset, found in reduced.items()}


@pytest.mark.parametrize("name", sorted(METRICS))
@settings(max_examples=60, deadline=None)
@given(runs=runs, subsets=subsets)
def test_coverage_lies_between_0_and_1(name, runs, subsets):
    metric = resolve_metric(MetricSpec(name, None, METRICS[name]))
    answer, found = coverage(request_of(runs, subsets, metric), metric)
    assert all(isinstance(x, Undefined) or 0 <= x <= 1 for x in found.values())
    if isinstance(answer, CoverMatrix):
        assert all(items <= set(answer.items) for items in answer.tasks.values())


@pytest.mark.parametrize("name", sorted(METRICS))
@settings(max_examples=60, deadline=None)
@given(runs=runs, small=st.sets(st.sampled_from(TASKS), min_size=1), more=st.sets(st.sampled_from(TASKS)))
def test_coverage_grows_with_the_subset(name, runs, small, more):
    metric = resolve_metric(MetricSpec(name, None, METRICS[name]))
    _, found = coverage(request_of(runs, {"small": small, "big": small | more}, metric), metric)
    if not any(isinstance(x, Undefined) for x in found.values()):
        assert found["small"] <= found["big"]
    # What is unmeasured in the small one is in the big one.
    if found["small"] == Undefined(reason="unmeasured_tasks"):
        assert found["big"] == found["small"]


@pytest.mark.parametrize("name", sorted(METRICS))
@settings(max_examples=60, deadline=None)
@given(runs=runs, subsets=subsets, order=st.permutations(TASKS))
def test_coverage_does_not_depend_on_the_order_of_tasks(name, runs, subsets, order):
    metric = resolve_metric(MetricSpec(name, None, METRICS[name]))
    _, straight = coverage(request_of(runs, subsets, metric), metric)
    _, shuffled = coverage(request_of(runs, subsets, metric, order), metric)
    assert straight.keys() == shuffled.keys()
    for subset, value in straight.items():
        other = shuffled[subset]
        if isinstance(value, Undefined):
            assert other == value
        else:
            assert math.isclose(value, other, rel_tol=0, abs_tol=0)


@settings(max_examples=60, deadline=None)
@given(runs=runs)
def test_a_majority_covers_no_more_than_a_union(runs):
    specs = [MetricSpec("tool_calls", None, {"attempts": how}) for how in ("union", "majority")]
    union, majority = [
        coverage(request_of(runs, {"s": {"a"}}, metric), metric)[0] for metric in map(resolve_metric, specs)
    ]
    assert union.items == majority.items
    assert all(majority.tasks[task] <= items for task, items in union.tasks.items())
