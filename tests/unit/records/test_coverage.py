# SPDX-License-Identifier: Apache-2.0
"""The record of `coverage.json` has the shape other programs rely on, and refuses numbers that are none."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from metric_benchmark.records.base import Undefined, comparable
from metric_benchmark.records.coverage import CoverageRecord, MetricCoverage, SubsetCoverage


def metric(**changes):
    given = {
        "kind": "items",
        "items": ["x", "y"],
        "tasks": {"a": ["x"]},
        "subsets": {"s": SubsetCoverage(coverage=0.5, covered=["x"])},
        "unmeasured_tasks": ["b"],
        "metric": "tool_calls",
        "code_sha256": "c" * 64,
        "request_sha256": "d" * 64,
    }
    return MetricCoverage(**{**given, **changes})


def test_the_promised_shape():
    value = CoverageRecord(case_id="desk", metrics={"m": metric()}).to_json()
    assert value["schema"] == "metric-benchmark/coverage/v1"
    promised = {key: value["metrics"]["m"][key] for key in ("kind", "items", "tasks", "subsets", "unmeasured_tasks")}
    assert promised == {
        "kind": "items",
        "items": ["x", "y"],
        "tasks": {"a": ["x"]},
        "subsets": {"s": {"coverage": 0.5, "covered": ["x"]}},
        "unmeasured_tasks": ["b"],
    }


def test_undefined_coverage_is_an_object_with_its_reason():
    found = SubsetCoverage(coverage=Undefined(reason="unmeasured_tasks"))
    value = found.model_dump(mode="json")
    assert value["coverage"] == {"status": "undefined", "reason": "unmeasured_tasks"}
    assert SubsetCoverage.model_validate(value) == found


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), float("inf"), "many", None])
def test_coverage_is_a_share_or_undefined(value):
    with pytest.raises(ValidationError):
        SubsetCoverage(coverage=value)


def test_records_of_two_runs_compare_equal_though_their_traces_differ():
    first, second = (CoverageRecord(case_id="desk", metrics={"m": metric(request_sha256=c * 64)}) for c in "de")
    assert first != second
    assert comparable(first) == comparable(second)
    other = CoverageRecord(case_id="desk", metrics={"m": metric(items=["x"])})
    assert comparable(other) != comparable(first)


def test_fields_of_newer_versions_are_left_out_not_refused():
    value = CoverageRecord(case_id="desk", metrics={"m": metric()}).to_json()
    value["metrics"]["m"]["mood"] = "good"
    assert CoverageRecord.model_validate(value).to_json()["metrics"]["m"].keys() == metric().model_dump().keys()
