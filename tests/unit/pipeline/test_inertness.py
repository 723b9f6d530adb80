# SPDX-License-Identifier: Apache-2.0
"""A mutant is inert if it never did what the baseline never did; what cannot be compared is said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.pipeline.inertness import Effect, compare_with_baseline
from metric_benchmark.records.execution import RawResults, Status, Trial
from metric_benchmark.records.trajectories import digest_trajectory

SAME = Effect(True, "no trajectory and no reward differs from the baseline's")


@dataclass(frozen=True)
class Did:
    """One attempt: what the agent said, None without a trajectory; what it was given; how it ended."""

    said: str | None
    reward: float | None = 1.0
    status: Status = "valid"


@pytest.fixture
def root(tmp_path: Path) -> EvidenceRoot:
    return EvidenceRoot(tmp_path)


def results(root: EvidenceRoot, variant: str, did: Mapping[str, list[Did]]) -> RawResults:
    trials: list[Trial] = []
    for task, attempts in did.items():
        for attempt, one in enumerate(attempts, start=1):
            name = f"{task}__{variant}{attempt}"
            folder = root.trial("desk", variant, "f", "run-1", name)
            if one.said is not None:
                (folder / "agent").mkdir(parents=True)
                steps = [{"step_id": 1, "source": "agent", "message": one.said, "timestamp": f"T{variant}{attempt}"}]
                (folder / "agent" / "trajectory.json").write_text(json.dumps({"session_id": name, "steps": steps}))
            trials.append(
                Trial(
                    task=task, attempt=attempt, status=one.status, reward=one.reward, trial_key="k", folder="f",
                    run="run-1", trial=name, started_at=None, duration_s=None, cost_usd=None, result_sha256=None,
                    trajectory_sha256=digest_trajectory(folder),
                )
            )  # fmt: skip
    return RawResults(
        run_id="r", case="desk", variant=variant, role="mutant", config_hash="c", attempts=1, tasks=tuple(did),
        environment={}, trials=tuple(trials),
    )  # fmt: skip


UNLIKE = Effect(False, "task b: a trajectory unlike the baseline's")
BASELINE = {"a": [Did("yes")], "b": [Did("yes"), Did("well")]}


@pytest.mark.parametrize(
    ("mutant", "expected"),
    [
        ({"a": [Did("yes")], "b": [Did("yes"), Did("yes")]}, SAME),
        ({"a": [Did("yes")], "b": [Did("well")]}, SAME),
        ({"a": [Did("yes")], "b": [Did("no")]}, UNLIKE),
        (
            {"a": [Did("yes")], "b": [Did("yes"), Did("no")]},
            UNLIKE,
        ),
        # The trace looks the same, but what the agent left behind was another thing.
        (
            {"a": [Did("yes")], "b": [Did("yes", 0.25)]},
            Effect(False, "task b: a reward of 0.25, which the baseline never got"),
        ),
        (
            {"a": [Did(None)], "b": [Did("yes")]},
            Effect(None, "1 of 2 tasks cannot be compared and the others do not differ: the agent wrote no trajectory"),
        ),
        (
            {"a": [Did("no", None, "infrastructure")], "b": [Did("yes")]},
            Effect(None, "1 of 2 tasks cannot be compared and the others do not differ: has no verdict"),
        ),
        # One difference is enough, whatever else is unknown.
        ({"a": [Did(None)], "b": [Did("no")]}, UNLIKE),
        # An attempt that does not count shows nothing.
        ({"a": [Did("yes"), Did("no", None, "no_verdict")], "b": [Did("yes")]}, SAME),
    ],
)
def test_what_is_inert(root, mutant, expected):
    baseline = results(root, "baseline", BASELINE)
    assert compare_with_baseline(root, baseline, results(root, "m", mutant)) == expected


def test_evidence_that_is_gone_or_changed_is_unknown_and_no_error(root):
    baseline, mutant = results(root, "baseline", BASELINE), results(root, "m", {"a": [Did("yes")], "b": [Did("yes")]})
    path = root.trial("desk", "m", "f", "run-1", "b__m1") / "agent" / "trajectory.json"
    path.write_text(path.read_text().replace("yes", "no"))
    found = compare_with_baseline(root, baseline, mutant)
    assert found.is_inert is None
    assert found.reason.endswith("its trajectory is gone or was changed")


def test_an_unreadable_trajectory_is_unknown(root):
    baseline = results(root, "baseline", {"a": [Did("yes")]})
    folder = root.trial("desk", "m", "f", "run-1", "a__m1")
    (folder / "agent").mkdir(parents=True)
    (folder / "agent" / "trajectory.json").write_text("{}")
    given = results(root, "m", {"a": [Did(None)]})
    assert compare_with_baseline(root, baseline, given) == Effect(
        None, "1 of 1 tasks cannot be compared and the others do not differ: its trajectory is no ATIF document"
    )
