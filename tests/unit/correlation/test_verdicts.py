# SPDX-License-Identifier: Apache-2.0
"""Verdicts: every row of E9, limits, families across cases, and the words around them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metric_benchmark.correlation import decide
from metric_benchmark.correlation.verdicts import (
    _MEANINGS,
    adjust_family,
    blocked,
    more_data_could_settle,
    not_tested,
)
from metric_benchmark.limits import FEW_MUTANTS, FEW_TASKS, WANT_OF_DATA
from metric_benchmark.multiplicity import adjust_holm
from metric_benchmark.records.correlation import Calibrated

E9 = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text())["E9_verdict"]


@pytest.mark.parametrize("row", E9["rows"], ids=[f"row{i}" for i in range(len(E9["rows"]))])
def test_e9(row):
    calibrated = None
    if row["est"] is not None:
        calibrated = Calibrated(estimate=row["est"], low=row["ci"][0], high=row["ci"][1], null_mean=0.0)
    found = decide(
        calibrated,
        row["p_adj"],
        direction=row.get("direction", "greater"),
        minimum_effect=0.1,
        alpha=0.05,
        limits=() if calibrated else (row["reason"],),
    )
    assert found.verdict == row["verdict"]
    if "minimum_shown" in row:
        assert found.minimum_shown is row["minimum_shown"]
    if "reason" in row:
        assert found.reason == row["reason"]
    assert found.explanation


def cal(estimate, low, high):
    return Calibrated(estimate=estimate, low=low, high=high, null_mean=0.0)


def test_any_limit_makes_a_clear_result_inconclusive():
    found = decide(cal(0.5, 0.3, 0.7), 0.001, minimum_effect=0.1, limits=("fewer than 20 tasks",))
    assert (found.verdict, found.reason) == ("inconclusive", "fewer than 20 tasks")
    assert "add tasks" in found.remedy
    both = decide(cal(0.0, -0.1, 0.05), 0.9, minimum_effect=0.1, limits=("fewer than 20 tasks", "metric is opaque"))
    assert both.verdict == "inconclusive"
    assert both.reason == "fewer than 20 tasks; metric is opaque"


def test_p_values_and_minimum_effects_at_their_limit_count():
    assert decide(cal(0.1, 0.01, 0.2), 1 / 20, minimum_effect=0.1).verdict == "supported"
    assert decide(cal(0.1, 0.0, 0.2), 0.01, minimum_effect=0.1).verdict == "inconclusive"  # low must be above 0
    assert decide(cal(0.0, -0.1, 0.1), 0.5, minimum_effect=0.1).verdict == "inconclusive"  # high must be below delta


def test_inconclusive_names_what_is_missing():
    found = decide(cal(0.05, -0.1, 0.3), 0.2, minimum_effect=0.1)
    assert found.reason == "p above 0.05; interval includes 0; estimate below the minimum effect"
    assert "plan" in found.remedy


intervals = st.tuples(*[st.floats(-1, 1)] * 3).map(sorted)


@given(intervals, st.floats(0, 1), st.floats(0.01, 0.5))
def test_less_is_greater_in_the_mirror(ends, p, delta):
    low, estimate, high = ends
    one = decide(cal(estimate, low, high), p, direction="greater", minimum_effect=delta)
    two = decide(cal(-estimate, -high, -low), p, direction="less", minimum_effect=delta)
    assert (one.verdict, one.reason, one.minimum_shown) == (two.verdict, two.reason, two.minimum_shown)


@given(intervals, st.floats(0, 1), st.floats(0.01, 0.5))
def test_nothing_is_both_supported_and_refutable(ends, p, delta):
    low, estimate, high = ends
    found = decide(cal(estimate, low, high), p, minimum_effect=delta)
    if found.verdict == "supported":
        assert high >= delta - 1e-9
        assert low > 0
    if found.verdict == "refuted":
        assert high < delta


def test_other_cases_count_as_ones_until_they_are_known():
    # Two of six claims: 6 * .004, then 5 * .02.
    assert adjust_family([0.004, 0.02], 6) == pytest.approx([0.024, 0.1])
    everything = adjust_holm([0.004, 0.02, 0.001, 0.3, 0.5, 0.9])
    assert adjust_family([0.004, 0.02], 6)[0] >= everything[0]
    assert adjust_family([0.004, 0.02], 6)[1] >= everything[1]
    assert adjust_family([], 3) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.lists(st.floats(0, 1), max_size=4))
def test_one_case_alone_never_claims_more_than_all_cases_together(mine, others):
    alone = adjust_family(mine, len(mine) + len(others))
    together = adjust_holm([*mine, *others])[: len(mine)]
    assert all(a >= t - 1e-12 for a, t in zip(alone, together, strict=True))


def test_limits_have_words_for_everyone():
    assert set(_MEANINGS) > WANT_OF_DATA
    assert all(meaning and remedy for meaning, remedy in _MEANINGS.values())
    assert blocked("2 of 2 controls were killed").reason == "kills are noise"
    assert not_tested("x").verdict == "not_tested"


def test_only_want_of_data_is_settled_by_more_of_it():
    assert more_data_could_settle([])
    assert more_data_could_settle([FEW_TASKS, FEW_MUTANTS])
    assert not more_data_could_settle([FEW_TASKS, "metric is opaque"])
    assert not more_data_could_settle(["constant_coverage"])
