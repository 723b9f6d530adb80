# SPDX-License-Identifier: Apache-2.0
"""Hand-worked cover matrices of the metrics that look at tools, and of the two that look at nothing."""

from __future__ import annotations

import pytest

from metric_benchmark.coverage.protocol import MetricRequest, ToolCall, Trace, TraceStep
from metric_benchmark.coverage.registry import MetricSpec, resolve_metric


def agent(*calls: ToolCall) -> TraceStep:
    return TraceStep("agent", tool_calls=calls)


def measure(metric: str, traces=(), settings=None, tasks=("a", "b"), unmeasured=None):
    found = resolve_metric(MetricSpec(metric, None, settings or {}))
    request = MetricRequest("case", {}, tuple(tasks), tuple(traces), unmeasured or {}, {}, found.settings)
    return found.implementation.measure(request)


def test_tool_calls_counts_names_and_listed_tools():
    traces = [
        Trace.of("a", agent(ToolCall("read"), ToolCall("read")), agent(ToolCall("list"))),
        Trace.of("b", TraceStep("user", "hello")),
    ]
    matrix = measure("tool_calls", traces, {"tools": ["delete", "read"]})
    assert matrix.items == ("delete", "list", "read")
    assert matrix.tasks == {"a": {"list", "read"}, "b": set()}


@pytest.mark.parametrize(
    ("how", "expected"),
    [("union", {"x", "y", "z"}), ("majority", {"x"})],
)
def test_attempts_are_joined_by_union_or_majority(how, expected):
    # x in 3 of 4 attempts, y in exactly half, z in one.
    called = [["x", "y"], ["x", "y"], ["x"], ["z"]]
    traces = [Trace.of("a", agent(*map(ToolCall, names)), attempt=i) for i, names in enumerate(called, start=1)]
    matrix = measure("tool_calls", traces, {"attempts": how}, tasks=["a"])
    assert matrix.tasks["a"] == expected
    assert matrix.items == ("x", "y", "z")


def test_a_task_without_a_trace_is_unmeasured_not_uncovered():
    matrix = measure("tool_calls", [Trace.of("a", agent(ToolCall("x")))], unmeasured={"b": "no trajectory"})
    assert "b" not in matrix.tasks
    assert matrix.unmeasured == {"b": "no trajectory"}


def test_shapes_are_tool_and_sorted_argument_names():
    call = [
        ToolCall("read", {"path": "x", "limit": 1}),
        ToolCall("read", {"limit": 9, "path": "y"}),
        ToolCall("read", {"path": None}),
        ToolCall("now", {}),
        ToolCall("odd", {"a,b": 1}),
        ToolCall("odd", {"a": 1, "b": 2}),
    ]
    matrix = measure("tool_arguments_shape", [Trace.of("a", agent(*call))], tasks=["a"])
    assert matrix.items == ("now()", 'odd("a,b")', "odd(a,b)", "read(limit,path)", "read(path)")


def test_suite_size_is_the_identity():
    assert measure("suite_size").tasks == {"a": {"a"}, "b": {"b"}}


def test_synthetic_depends_on_seed_and_task_only():
    first = measure("synthetic", settings={"n_items": 200, "density_frac": 0.25})
    assert (
        measure("synthetic", settings={"n_items": 200, "density_frac": 0.25}, tasks="zba").tasks["b"]
        == (first.tasks["b"])
    )
    assert measure("synthetic", settings={"n_items": 200, "density_frac": 0.25, "seed": 1}).tasks != first.tasks
    # 200 items at 0.25: 50 expected, standard deviation 6.1; five of them on either side.
    assert all(20 <= len(items) <= 80 for items in first.tasks.values())
    assert measure("synthetic", settings={"density_frac": 0}).tasks == {"a": set(), "b": set()}
