# SPDX-License-Identifier: Apache-2.0
"""Hand-worked answers of the metrics that look at order, observations, instructions and length."""

from __future__ import annotations

import pytest

from metric_benchmark.coverage.metrics.instruction_ngrams import instruction_of
from metric_benchmark.coverage.metrics.observation_kinds import ObservationKindsSettings, kinds_of
from metric_benchmark.coverage.protocol import MetricRequest, Observation, ToolCall, Trace, TraceStep
from metric_benchmark.coverage.registry import MetricSpec, resolve_metric
from metric_benchmark.errors import ConfigError
from metric_benchmark.records.base import Undefined


def measure(metric, *traces, settings=None, subsets=None, unmeasured=None):
    found = resolve_metric(MetricSpec(metric, None, settings or {}))
    tasks = tuple(sorted({t.task for t in traces} | set(unmeasured or {})))
    request = MetricRequest("case", {}, tasks, traces, unmeasured or {}, subsets or {}, found.settings)
    return found.implementation.measure(request)


def agent(*names, thread="", observations=(), extra=None):
    calls = tuple(ToolCall(n, {}, f"c{i}") for i, n in enumerate(names))
    return TraceStep("agent", tool_calls=calls, observations=observations, thread=thread, extra=extra or {})


def user(text, thread=""):
    return TraceStep("user", text, thread=thread)


def test_bigrams_are_pairs_in_a_row_within_one_thread():
    trace = Trace.of(
        "a",
        agent("list", "read"),
        agent("search", thread="/sub"),
        agent(),
        agent("read"),
        agent("write", thread="/sub"),
    )
    matrix = measure("tool_bigrams", trace, Trace.of("b", agent("list")))
    assert matrix.items == ("list -> read", "read -> read", "search -> write")
    assert matrix.tasks["b"] == frozenset()


@pytest.mark.parametrize(
    ("text", "extra", "step_extra", "kinds"),
    [
        ("total 4", {}, {}, set()),
        ("", {}, {}, {"empty"}),
        (" \n\t", {}, {}, {"empty"}),
        ("x" * 2000, {}, {}, set()),
        ("x" * 2001, {}, {}, {"long"}),
        ("bash: grep: command not found", {}, {}, {"error"}),
        ("cat: a: No such file or directory", {}, {}, {"error"}),
        ("Error: bad thing", {}, {}, {"error"}),
        ("no errors were found", {}, {}, set()),
        ("Traceback (most recent call last):\n  ...", {}, {}, {"error"}),
        ("exit code: 2", {}, {}, {"error"}),
        ("exit code: 0", {}, {}, set()),
        ("fine", {"is_error": True}, {}, {"error"}),
        ("fine", {"exit_code": 1}, {}, {"error"}),
        ("fine", {}, {"return_code": 2}, {"error"}),
        ("fine", {}, {"return_code": 0}, set()),
        ("", {}, {"return_code": 1}, {"empty", "error"}),
        ("aaa\n[... 20 lines left out]", {}, {}, {"truncated"}),
        ("output truncated to 100 bytes", {}, {}, {"truncated"}),
        ("12 more lines", {}, {}, {"truncated"}),
        ("x" * 3000, {"truncated": True}, {}, {"long", "truncated"}),
    ],
)
def test_kinds_of_one_observation(text, extra, step_extra, kinds):
    observation = Observation(text, "c0", extra)
    step = agent("read", observations=(observation,), extra=step_extra)
    assert kinds_of(observation, step, ObservationKindsSettings()) == kinds


def test_a_steps_return_code_is_nobodys_when_it_has_two_observations():
    two = (Observation("fine", "c0"), Observation("fine", "c1"))
    step = agent("read", "read", observations=two, extra={"return_code": 1})
    assert kinds_of(two[0], step, ObservationKindsSettings()) == set()


def test_observation_kinds_have_a_fixed_universe():
    trace = Trace.of("a", agent("read", observations=(Observation("", "c0"),)))
    matrix = measure("observation_kinds", trace)
    assert matrix.items == ("empty", "error", "long", "truncated")
    assert matrix.tasks == {"a": {"empty"}}


def test_observation_kinds_per_tool():
    seen = (Observation("", "c0"), Observation("Error: x", "c1"), Observation("", None))
    matrix = measure(
        "observation_kinds", Trace.of("a", agent("read", "run", observations=seen)), settings={"per_tool": True}
    )
    assert matrix.tasks == {"a": {"read: empty", "run: error"}}
    assert len(matrix.items) == 8


def test_a_wrong_pattern_is_a_config_error():
    with pytest.raises(ConfigError, match=r"settings\.error_patterns: .*'\(' is no regular expression"):
        resolve_metric(MetricSpec("observation_kinds", None, {"error_patterns": ["("]}))


def test_instruction_is_what_the_user_said_before_the_agent_began():
    trace = Trace.of(
        "a",
        TraceStep("system", "You are an agent."),
        user("Count the lines."),
        user("In a.txt."),
        agent("read"),
        user("Go on."),
        user("subagent, do this", thread="/sub"),
        user("Now the second step.", thread="02-fix"),
    )
    assert instruction_of(trace) == "Count the lines.\nIn a.txt.\nNow the second step."


def test_ngrams_of_instructions():
    a = Trace.of("a", user("Count the LINES."), agent("read"))
    b = Trace.of("b", user("count the words!"), agent("read"))
    matrix = measure("instruction_ngrams", a, b)
    assert matrix.items == ("count the", "the lines", "the words")
    assert matrix.tasks == {"a": {"count the", "the lines"}, "b": {"count the", "the words"}}
    shared = measure("instruction_ngrams", a, b, settings={"min_tasks": 2})
    assert shared.items == ("count the",)
    single = measure("instruction_ngrams", a, b, settings={"n": 1})
    assert single.items == ("count", "lines", "the", "words")
    assert measure("instruction_ngrams", a, settings={"n": 4}).items == ()


def test_a_trace_that_quotes_no_instruction_is_unmeasured():
    matrix = measure("instruction_ngrams", Trace.of("a", user("do it now")), Trace.of("b", agent("read")))
    assert set(matrix.tasks) == {"a"}
    assert matrix.unmeasured == {"b": "the trace quotes no instruction before the agent's first step"}


def test_length_is_the_share_of_all_agent_steps():
    # a: (3 + 1) / 2 = 2 steps on average, b: 6; the user's steps don't count.
    traces = [
        Trace.of("a", user("x"), agent("r"), agent("r"), agent("r")),
        Trace.of("a", agent(), attempt=2),
        Trace.of("b", *[agent("r", "w")] * 6),
    ]
    subsets = {"s1": ("a",), "s2": ("b",), "s3": ("a", "b")}
    answer = measure("trajectory_length", *traces, subsets=subsets)
    assert answer.subsets == {"s1": 0.25, "s2": 0.75, "s3": 1.0}
    assert answer.tasks == {"a": 0.25, "b": 0.75}
    calls = measure("trajectory_length", *traces, subsets=subsets, settings={"unit": "tool_calls"})
    # a: (3 + 0) / 2 = 1.5 calls, b: 12.
    assert calls.subsets["s1"] == pytest.approx(1.5 / 13.5)


def test_no_steps_at_all_have_no_length():
    answer = measure("trajectory_length", Trace.of("a", user("x")), subsets={"s": ("a",)})
    assert answer.subsets == {"s": Undefined(reason="no_items")}
