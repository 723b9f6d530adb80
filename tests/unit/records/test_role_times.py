# SPDX-License-Identifier: Apache-2.0
"""When each role ran, worked out by hand."""

from __future__ import annotations

import pytest

from metric_benchmark.records.execution import RawResults, Trial
from metric_benchmark.records.role_times import RoleTime, role_times


def trial(started_at: str | None, duration_s: float | None = 60.0, status: str = "valid") -> Trial:
    return Trial.model_validate(
        {
            "task": "one", "attempt": 1, "status": status, "reward": 1.0, "trial_key": "k", "folder": "f",
            "run": "run-1", "trial": "one__a", "started_at": started_at, "duration_s": duration_s, "cost_usd": None,
            "result_sha256": None, "trajectory_sha256": None,
        }
    )  # fmt: skip


def variant(name: str, role: str, *trials: Trial) -> RawResults:
    return RawResults.model_validate(
        {
            "run_id": "r", "case": "desk", "variant": name, "role": role, "config_hash": "c", "attempts": 1,
            "tasks": ("one",), "environment": {}, "trials": trials,
        }
    )  # fmt: skip


def test_spans_and_mean_distance_from_the_baseline():
    found = role_times(
        [
            variant("later", "mutant", trial("2026-01-05T12:00:00Z"), trial("2026-01-05T12:10:00Z", 120.0)),
            variant("baseline", "baseline", trial("2026-01-05T10:00:00Z"), trial("2026-01-05T10:20:00Z")),
            variant("latest", "mutant", trial("2026-01-05T12:20:00Z", None)),
        ]
    )
    assert list(found) == ["baseline", "mutant"]
    assert found["baseline"] == RoleTime(2, "2026-01-05T10:00:00+00:00", "2026-01-05T10:21:00+00:00", 0.0)
    # Means: 10:10 and 12:10.
    assert found["mutant"] == RoleTime(3, "2026-01-05T12:00:00+00:00", "2026-01-05T12:20:00+00:00", 7200.0)


def test_times_without_a_zone_are_utc_and_others_are_converted():
    found = role_times(
        [
            variant("baseline", "baseline", trial("2026-01-05T10:00:00")),
            variant("control-1", "control", trial("2026-01-05T11:30:00+01:00")),
        ]
    )
    assert found["control"].first_start == "2026-01-05T10:30:00+00:00"
    assert found["control"].offset_s == 1800.0


def test_trials_that_do_not_count_or_do_not_say_are_left_out():
    results = [variant("m", "mutant", trial(None), trial("2026-01-05T10:00:00Z", status="infrastructure"))]
    assert role_times(results) == {}


@pytest.mark.parametrize("role", ["mutant", "screening"])
def test_without_a_baseline_there_is_no_distance(role):
    assert role_times([variant("m", role, trial("2026-01-05T10:00:00Z"))])[role].offset_s is None
