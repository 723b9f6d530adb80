# SPDX-License-Identifier: Apache-2.0
"""The driver's plan: only what is not up to date, with all that depends on it, upstream first."""

from __future__ import annotations

from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.units import CASE_ASSETS, END, OBSERVATIONS, Unit, plan_units, without

KEYS = PartitionKeys(
    {
        "a|baseline": "baseline",
        "a|screening": "screening",
        "a|m1": "mutant",
        "a|m2": "mutant",
        "b|baseline": "baseline",
        "b|m1": "mutant",
    }
)


def _raw(key: str) -> Unit:
    return Unit(("raw_results",), key)


def _kills(key: str) -> Unit:
    return Unit(("mutant_scores",), key)


def _case(case: str) -> Unit:
    return Unit(CASE_ASSETS, case)


def test_a_new_experiment_is_planned_whole_and_inputs_are_observed_first() -> None:
    plan = plan_units(KEYS, lambda asset, key: False)
    assert set(plan) == {
        *OBSERVATIONS, END, _case("a"), _case("b"), _kills("a|m1"), _kills("a|m2"), _kills("b|m1"),
        *(_raw(key) for key in KEYS.roles),
    }  # fmt: skip
    assert all(plan[unit] == frozenset() for unit in OBSERVATIONS)
    assert plan[_raw("a|m1")] == frozenset(OBSERVATIONS)
    needed = {_raw("a|m1"), _raw("a|baseline"), _raw("a|screening")}
    assert plan[_kills("a|m1")] == needed | set(OBSERVATIONS)
    assert plan[_case("b")] == {_kills("b|m1"), *OBSERVATIONS}
    assert {_case("a"), _case("b"), _raw("b|m1")} <= plan[END]


def test_nothing_is_planned_when_all_is_current() -> None:
    assert plan_units(KEYS, lambda asset, key: True) == {}


def test_one_stale_mutant_plans_its_partitions_and_what_depends_on_them() -> None:
    plan = plan_units(KEYS, lambda asset, key: (asset, key) != ("raw_results", "a|m2"))
    assert set(plan) == {*OBSERVATIONS, _raw("a|m2"), _kills("a|m2"), _case("a"), END}


def test_a_stale_baseline_plans_every_kill_of_its_case_but_no_other_results() -> None:
    plan = plan_units(KEYS, lambda asset, key: (asset, key) != ("raw_results", "a|baseline"))
    assert set(plan) == {*OBSERVATIONS, _raw("a|baseline"), _kills("a|m1"), _kills("a|m2"), _case("a"), END}


def test_a_missing_report_is_planned_alone() -> None:
    plan = plan_units(KEYS, lambda asset, key: asset != "report")
    assert set(plan) == {*OBSERVATIONS, END}


def test_what_is_taken_from_a_unit_takes_along_what_is_made_from_it() -> None:
    assert without(_case("a"), ("coverage",)) == Unit(("subset_scores",), "a")
    assert without(_case("a"), ("correlation",)) == Unit(("subset_scores", "coverage"), "a")
    assert without(END, ("execution_manifest",)) is None


def test_what_is_left_out_of_other_units_leaves_a_unit_whole() -> None:
    """Coverage that is there already is no reason not to correlate."""
    unit = Unit(("correlation",), "a")
    assert without(unit, ("coverage",)) == unit
    assert without(Unit(CASE_ASSETS, "a"), ("coverage",)) == Unit(("subset_scores",), "a")
