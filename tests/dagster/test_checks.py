# SPDX-License-Identifier: Apache-2.0
"""What each asset check says, by what it finds, and that its colour is the right one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from metric_benchmark.evidence.writes import write_record
from metric_benchmark.experiment import open_run
from metric_benchmark.records.correlation import Verdict
from metric_benchmark.records.coverage import SubsetCoverage
from metric_benchmark.records.scores import MutantScores
from metric_benchmark_dagster import checks
from metric_benchmark_dagster.resources import Step

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@pytest.fixture
def step(finished: Any, tmp_path: Path) -> Step:
    """A step on a copy of the finished experiment."""
    shutil.copytree(finished.experiment.parent, tmp_path / "experiment")
    shutil.copytree(finished.output, tmp_path / "out", symlinks=True)
    return Step(open_run(tmp_path / "experiment", tmp_path / "out"))


def test_every_check_of_a_finished_experiment_passed_and_partitions_have_their_own(finished: Any, small: Any) -> None:
    found: dict[str, set[str | None]] = {}
    for key in finished.definitions.resolve_asset_graph().asset_check_keys:
        for record in finished.instance.event_log_storage.get_asset_check_execution_history(key, limit=50):
            evaluation = record.event.asset_check_evaluation
            assert evaluation.passed, evaluation
            found.setdefault(key.name, set()).add(evaluation.partition)
    cases = set(small.TWO_CASES)
    assert found == {
        "native_evidence_valid": set(small.VARIANTS), "controls_survive": cases, "baseline_reliable": cases,
        "metric_not_constant": cases, "hypothesis_verdict": cases, "inventory_complete": {None}, "up_to_date": {None},
    }  # fmt: skip


def test_a_native_file_that_was_changed_is_an_error_and_named(step: Step) -> None:
    assert checks.native_evidence_valid(step, "tiny|same").passed
    (reward,) = (step.run.root.variant("tiny", "same")).glob("*/jobs/run-1/greet__*/verifier/reward.txt")
    reward.write_text("0\n")
    found = checks.native_evidence_valid(step, "tiny|same")
    assert (found.passed, found.severity) == (False, ERROR)
    assert "reward.txt" in found.metadata["problems"].value


def _scores(step: Step, **changes: Any) -> None:
    from metric_benchmark.evidence.reader import read_record

    path = step.run.root.mutant_scores("tiny")
    write_record(path, read_record(path, MutantScores).model_copy(update=changes))


def test_a_killed_control_is_a_warning_and_kills_that_are_noise_are_an_error(step: Step) -> None:
    from metric_benchmark.evidence.reader import read_record

    scores = read_record(step.run.root.mutant_scores("tiny"), MutantScores)
    killed = scores.controls["control-1"].model_copy(update={"status": "killed", "killed_by": ["greet"]})
    _scores(step, controls={"control-1": killed})
    found = checks.controls_survive(step, "tiny")
    assert (found.passed, found.severity) == (False, WARN)
    assert "killed: control-1" in (found.description or "")
    _scores(step, noise=scores.noise.model_copy(update={"is_blocking": True, "reason": "as many as mutants"}))
    found = checks.controls_survive(step, "tiny")
    assert (found.passed, found.severity, found.description) == (
        False,
        ERROR,
        "kills are noise: as many as mutants",
    )
    _scores(step, controls={}, noise=scores.noise)
    assert "no control" in (checks.controls_survive(step, "tiny").description or "")


def test_tasks_the_baseline_fails_are_a_warning_and_no_task_left_is_an_error(step: Step) -> None:
    from metric_benchmark.evidence.reader import read_record

    eligibility = read_record(step.run.root.mutant_scores("tiny"), MutantScores).eligibility
    left_out = eligibility.model_copy(update={"ineligible": {"count": "passed 0 of 1"}, "eligible_tasks": ["greet"]})
    _scores(step, eligibility=left_out, eligible_tasks=["greet"])
    found = checks.baseline_reliable(step, "tiny")
    assert (found.passed, found.severity) == (False, WARN)
    assert found.description == "left out: count: passed 0 of 1"
    _scores(step, eligible_tasks=[])
    assert checks.baseline_reliable(step, "tiny").severity == ERROR


def test_a_metric_that_tells_no_subsets_apart_is_named(step: Step) -> None:
    from metric_benchmark.evidence.reader import read_record
    from metric_benchmark.records.coverage import CoverageRecord

    path = step.run.root.coverage("tiny")
    record = read_record(path, CoverageRecord)
    same = {subset: SubsetCoverage(coverage=0.5) for subset in record.metrics["suite_size"].subsets}
    flat = record.metrics["suite_size"].model_copy(update={"subsets": same})
    write_record(path, record.model_copy(update={"metrics": record.metrics | {"suite_size": flat}}))
    found = checks.metric_not_constant(step, "tiny")
    assert (found.passed, found.severity) == (False, WARN)
    assert found.description == "constant over the subsets: suite_size"


@pytest.mark.parametrize(
    ("verdict", "passed", "severity"),
    [("supported", True, WARN), ("inconclusive", False, WARN), ("refuted", False, WARN), ("blocked", False, ERROR)],
)
def test_a_claim_shows_what_became_of_it(step: Step, verdict: Any, passed: bool, severity: Any) -> None:
    from metric_benchmark.evidence.reader import read_record
    from metric_benchmark.records.correlation import Correlation

    path = step.run.root.correlation("tiny")
    record = read_record(path, Correlation)
    claimed = record.metrics["suite_size"].model_copy(
        update={"verdict": Verdict(verdict=verdict, reason="because", minimum_effect=0.2)}
    )
    write_record(path, record.model_copy(update={"metrics": record.metrics | {"suite_size": claimed}}))
    found = checks.hypothesis_verdict(step, "tiny")
    assert (found.passed, found.severity) == (passed, severity)
    assert found.description == f"suite_size: {verdict} (because)"


def test_a_missing_variant_opens_the_inventory_and_shows_as_not_up_to_date(step: Step) -> None:
    assert checks.inventory_complete(step, "").passed
    shutil.rmtree(step.run.root.variant("other", "idle"))
    found = checks.up_to_date(step, "")
    assert (found.passed, found.severity) == (False, WARN)
    assert found.metadata["n_failed"].value == 1
    rows = [record.data for record in found.metadata["not_fresh"].records]
    assert [(row["stage"], row["partition"], row["state"]) for row in rows] == [
        ("raw_results", "other|idle", "failed"),
        ("mutant_scores", "other|idle", "stale"),
        ("subset_scores", "other", "stale"),
        ("correlation", "other", "stale"),
    ]
