# SPDX-License-Identifier: Apache-2.0
"""Runs that died are settled by what they left on disk, but for those that somebody runs right now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import Reservation, read_ledger, reserve, spent
from metric_benchmark.evidence.locks import lock_variant
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.execution.interrupted import settle_interrupted
from metric_benchmark.records.execution import PlannedTask, RunPlan

BUDGET = BudgetConfig(max_cost_usd=10.0, cost_bound_per_trial_usd=1.0)
FOLDER = "c" * 16


@pytest.fixture
def root(tmp_path: Path) -> EvidenceRoot:
    return EvidenceRoot(tmp_path)


def died(root: EvidenceRoot, variant: str = "short", costs: tuple[float | None, ...] = ()) -> Reservation:
    """A run of four trials that was reserved and planned; for each cost a trial ended, None was cut short."""
    run = Reservation("desk", variant, FOLDER, "run-1", 4)
    assert reserve(root, BUDGET, run)
    config = root.variant("desk", variant) / FOLDER
    write_record(
        config / "run-1.plan.json",
        RunPlan(
            run_id="mine", case="desk", variant=variant, role="mutant", config_hash="c" * 64, run="run-1", attempts=4,
            tasks=(PlannedTask(task="one", trial_key="k", path="/tasks/one"),), created_at="2026-01-01T00:00:00Z",
        ),
    )  # fmt: skip
    for number, cost in enumerate(costs):
        trial = config / "jobs" / "run-1" / f"one__{number}"
        trial.mkdir(parents=True)
        (trial / "config.json").write_text(json.dumps({"trial_name": trial.name, "task": {"path": "/tasks/one"}}))
        if cost is not None:
            result = {
                "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z",
                "verifier_result": {"rewards": {"reward": 1.0}}, "agent_result": {"cost_usd": cost},
            }  # fmt: skip
            (trial / "result.json").write_text(json.dumps(result))
    return run


def settlements(root: EvidenceRoot) -> list[tuple[int, float | None, int]]:
    entries = [entry for entry in read_ledger(root) if entry["kind"] == "settle"]
    return [(entry["n_trials"], entry["cost_usd"], entry["n_without_cost"]) for entry in entries]


def test_what_was_started_is_spent_and_what_it_cost_is_known_or_counts_at_its_bound(root):
    died(root, costs=(0.25, 0.5, None))
    settle_interrupted(root, BUDGET, "reward")
    assert settlements(root) == [(3, 0.75, 1)]
    assert spent(root, BUDGET).cost_usd == pytest.approx(0.75 + 1.0)


def test_a_run_that_never_started_a_trial_has_spent_nothing(root):
    died(root)
    reserve(root, BUDGET, Reservation("desk", "blind", FOLDER, "run-1", 2))
    settle_interrupted(root, BUDGET, "reward")
    assert settlements(root) == [(0, None, 0), (0, None, 0)]
    assert spent(root, BUDGET).n_trials == 0


def test_a_run_somebody_runs_right_now_stays_reserved(root):
    died(root, costs=(0.25,))
    with lock_variant(root, "desk", "short"):
        settle_interrupted(root, BUDGET, "reward")
        assert settlements(root) == []
        # But for the one who holds it: what it finds open is of a run before its own.
        settle_interrupted(root, BUDGET, "reward", held="desk|short")
        assert settlements(root) == [(1, 0.25, 0)]


def test_nothing_is_settled_twice(root):
    died(root, costs=(0.25,))
    for _ in range(2):
        settle_interrupted(root, BUDGET, "reward")
    assert len(settlements(root)) == 1
