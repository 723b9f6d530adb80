# SPDX-License-Identifier: Apache-2.0
"""Every wrong answer is refused with its metric, what it said and what was expected; right ones reduce."""

from __future__ import annotations

import pytest

from metric_benchmark.coverage.answer_json import answer_from_json, answer_to_json
from metric_benchmark.coverage.answers import check_answer, reduce_answer
from metric_benchmark.coverage.protocol import CoverMatrix, MetricRequest, OpaqueCoverage
from metric_benchmark.errors import MetricError
from metric_benchmark.records.base import Undefined

NAN = float("nan")
REQUEST = MetricRequest("case", {}, ("a", "b"), (), {}, {"s1": ("a",), "s2": ("a", "b")}, None)


def matrix(items=("x", "y"), tasks=None, **more):
    return CoverMatrix(items, {"a": frozenset("x"), "b": frozenset("y")} if tasks is None else tasks, **more)


def opaque(s1=0.5, s2=1.0, **more):
    return OpaqueCoverage({"s1": s1, "s2": s2}, **more)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "answered None, expected a CoverMatrix or an OpaqueCoverage"),
        ({"s1": 1}, "expected a CoverMatrix or an OpaqueCoverage"),
        (matrix(items=("x", "y", "")), "answered the item '', expected a non-empty string"),
        (matrix(items=("x", "y", 3)), "answered the item 3, expected a non-empty string"),
        (matrix(items=("x", "y", "x")), "answered the item 'x' 2 times"),
        (matrix(tasks={"a": frozenset(), "b": frozenset(), "zz": frozenset()}), "unknown task zz"),
        (matrix(tasks={"a": frozenset()}), "no answer for task b"),
        (matrix(tasks={"a": frozenset(), "b": "xy"}), "answered 'xy' for task b, expected a set of items"),
        (matrix(tasks={"a": frozenset(), "b": None}), "answered None for task b, expected a set of items"),
        (matrix(tasks={"a": frozenset("q"), "b": frozenset()}), "unknown task a: item q"),
        (matrix(unmeasured={"a": "why"}), "answered items for a and called it unmeasured"),
        (matrix(unmeasured={"zz": "why"}), "unknown unmeasured task zz"),
        (matrix(items=("x", "y", "\udc80")), "answered '\\udc80', expected text that UTF-8 can hold"),
        (matrix(notes=("\ud800",)), "answered '\\ud800', expected text that UTF-8 can hold"),
        (opaque(s2=Undefined(reason="\ud800")), "answered '\\ud800', expected text that UTF-8 can hold"),
        (OpaqueCoverage({"s1": 0.1}), "no answer for subset s2"),
        (OpaqueCoverage({"s1": 0.1, "s2": 0.1, "s3": 0.1}), "unknown subset s3"),
        (opaque(s2=NAN), "subset s2: answered nan, expected a number in [0, 1]"),
        (opaque(s2=1.2), "subset s2: answered 1.2"),
        (opaque(s2=-0.1), "subset s2: answered -0.1"),
        (opaque(s2=float("inf")), "subset s2: answered inf"),
        (opaque(s2="0.5"), "subset s2: answered '0.5'"),
        (opaque(s2=True), "subset s2: answered True"),
        (opaque(s2=None), "subset s2: answered None"),
        (opaque(tasks={"a": 2}), "task a: answered 2"),
        (opaque(tasks={"zz": 0.2}), "unknown task zz"),
    ],
)
def test_a_wrong_answer_is_refused(answer, message):
    with pytest.raises(MetricError) as caught:
        check_answer("mine", answer, REQUEST)
    assert "metric mine: " in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.exit_status == 6


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(MetricError) as caught:
        check_answer("mine", OpaqueCoverage({"s2": 3, "s3": 0.1}, unmeasured={"q": ""}), REQUEST)
    assert len(caught.value.problems) == 4


def test_a_matrix_reduces_to_the_share_of_items_some_task_covers():
    answer = check_answer("mine", matrix(items=("x", "y", "z", "w")), REQUEST)
    reduced = reduce_answer(answer, REQUEST.subsets, {})
    assert (reduced["s1"].coverage, reduced["s1"].covered) == (0.25, ["x"])
    assert (reduced["s2"].coverage, reduced["s2"].covered) == (0.5, ["x", "y"])


def test_a_subset_with_an_unmeasured_task_has_no_coverage_but_the_others_do():
    answer = matrix(tasks={"a": frozenset("x")}, unmeasured={"b": "no trace"})
    reduced = reduce_answer(check_answer("mine", answer, REQUEST), REQUEST.subsets, answer.unmeasured)
    assert reduced["s1"].coverage == 0.5
    assert reduced["s2"].coverage == Undefined(reason="unmeasured_tasks")
    assert reduced["s2"].covered == ["x"]


def test_without_items_there_is_no_coverage():
    answer = matrix(items=(), tasks={"a": frozenset(), "b": frozenset()})
    assert reduce_answer(answer, REQUEST.subsets, {})["s2"].coverage == Undefined(reason="no_items")


def test_opaque_numbers_pass_through():
    answer = check_answer("mine", opaque(s1=0, s2=Undefined(reason="too_small")), REQUEST)
    reduced = reduce_answer(answer, REQUEST.subsets, {})
    assert (reduced["s1"].coverage, reduced["s2"].coverage) == (0.0, Undefined(reason="too_small"))


@pytest.mark.parametrize(
    "answer",
    [
        matrix(unmeasured={}, counts={"unjudged": 3}, notes=("odd",)),
        opaque(s2=Undefined(reason="why"), tasks={"a": 0.25}, unmeasured={"b": "gone"}),
    ],
)
def test_answers_survive_json(answer):
    assert answer_from_json("mine", answer_to_json(answer)) == answer


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "answered [], expected a JSON object"),
        ({}, "answered nothing for 'items', expected a JSON array"),
        ({"items": "xy", "tasks": {}}, "answered 'xy' for 'items'"),
        ({"items": [3], "tasks": {}}, "answered the item 3 in `items`"),
        ({"items": ["x"], "tasks": {"a": "x"}}, "answered 'x' for task a"),
        ({"items": ["x"], "tasks": {"a": [None]}}, "answered the item None in task a"),
        ({"subsets": 1}, "answered 1 for 'subsets'"),
        ({"subsets": {}, "scores": {}}, "answered the field 'scores'"),
        ({"subsets": {}, "kind": "items"}, "answered kind 'items' with the fields of 'opaque'"),
    ],
)
def test_json_of_another_shape_is_refused(value, message):
    with pytest.raises(MetricError) as caught:
        answer_from_json("mine", value)
    assert message in str(caught.value)
