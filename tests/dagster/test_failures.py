# SPDX-License-Identifier: Apache-2.0
"""Errors of the library as Dagster failures: the message survives, and only what may pass by itself is retried."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import dagster as dg
import pytest

from metric_benchmark.errors import EvidenceError, ExecutionError, LockedError, PinError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.execution.runner import VariantRun
from metric_benchmark.records.execution import RawResults, Status, Trial
from metric_benchmark_dagster.failures import (
    InfrastructureFailure,
    Retries,
    as_failures,
    refuse_cancelled,
    require_verdicts,
)
from metric_benchmark_dagster.resources import ExperimentResource

RETRIES = Retries(3, 7.0)


def test_an_error_of_the_user_fails_once_with_its_message_and_no_traceback() -> None:
    with pytest.raises(dg.Failure) as caught, as_failures(RETRIES):
        raise PinError(["a.yaml:3: x has changed", "a.yaml:4: y has changed"])
    assert caught.value.description == "a.yaml:3: x has changed\na.yaml:4: y has changed"
    assert caught.value.metadata["exit_status"].value == 2
    assert caught.value.metadata["error"].value == "PinError"
    assert not caught.value.allow_retries
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("error", [LockedError("in use"), InfrastructureFailure("no sandbox")])
def test_what_may_pass_by_itself_is_retried_and_keeps_its_message(error: Exception) -> None:
    with pytest.raises(dg.RetryRequested) as caught, as_failures(RETRIES):
        raise error
    assert (caught.value.max_retries, caught.value.seconds_to_wait) == (3, 7.0)
    assert isinstance(caught.value.__cause__, dg.Failure)
    assert caught.value.__cause__.description == str(error)


def test_a_fault_of_ours_says_so_and_keeps_its_traceback() -> None:
    with pytest.raises(dg.Failure, match=r"KeyError: 'x'. This is a fault of ours") as caught, as_failures(RETRIES):
        raise KeyError("x")
    assert caught.value.metadata["exit_status"].value == 70
    assert isinstance(caught.value.__cause__, KeyError)
    assert not caught.value.allow_retries


def test_an_interrupt_passes_untouched() -> None:
    with pytest.raises(dg.DagsterExecutionInterruptedError), as_failures(RETRIES):
        raise dg.DagsterExecutionInterruptedError


def _run(*statuses: Status, stopped: str | None, asked: int = 2) -> VariantRun:
    trials = tuple(
        Trial(
            task="t", attempt=n, status=status, reason="why", reward=1.0 if status == "valid" else None, trial_key="k",
            folder="f", run="run-1", trial="x", started_at=None, duration_s=None, cost_usd=None, result_sha256=None,
            trajectory_sha256=None,
        )
        for n, status in enumerate(statuses, start=1)
    )  # fmt: skip
    results = RawResults(
        run_id="r", case="c", variant="v", role="mutant", config_hash="h", attempts=asked, tasks=("t",), environment={},
        trials=trials,
    )  # fmt: skip
    return VariantRun(results, len(trials), 0, True, stopped)


def test_a_complete_variant_passes() -> None:
    require_verdicts(_run("valid", "valid", stopped=None), 0)


def test_a_trial_without_verdict_is_tolerated_up_to_the_limit() -> None:
    require_verdicts(_run("valid", "no_verdict", stopped="1 trials have no verdict"), 1)
    with pytest.raises(ExecutionError, match=r"c\|v: 1 trials have no verdict \(0 tolerated\)\nt, attempt 2: no_verd"):
        require_verdicts(_run("valid", "no_verdict", stopped="1 trials have no verdict"), 0)


def test_what_other_variants_lack_counts_as_well() -> None:
    lacking = _run("valid", "no_verdict", stopped="1 trials have no verdict")
    require_verdicts(lacking, 2, 1)
    with pytest.raises(ExecutionError, match=r"c\|v: 1 trials have no verdict \(2 in all variants, 1 tolerated\)"):
        require_verdicts(lacking, 1, 1)
    require_verdicts(_run("valid", "valid", stopped=None), 0, 1)


def test_only_failed_infrastructure_is_worth_a_retry() -> None:
    with pytest.raises(InfrastructureFailure):
        require_verdicts(_run("valid", "infrastructure", stopped="1 trials have no verdict"), 0)
    with pytest.raises(ExecutionError) as caught:
        require_verdicts(_run("valid", stopped="the budget is reached"), 0)
    assert not isinstance(caught.value, InfrastructureFailure)


def test_evidence_in_use_is_retried_and_then_fails_with_who_uses_it(shell: Any) -> None:
    with lock_root(EvidenceRoot(shell.output), "exclusive"):
        result = shell.run("execution_manifest")
    assert not result.success
    assert sum(event.event_type_value == "STEP_RESTARTED" for event in result.all_events) == 2
    assert "is in use by another run: pid" in shell.failure(result).description


def test_a_changed_input_fails_before_anything_is_written(shell: Any) -> None:
    (shell.experiment.parent / "tiny" / "tasks" / "greet" / "instruction.md").write_text("something else\n")
    result = shell.run("raw_results", key="tiny|baseline")
    assert "tasks/greet has changed" in shell.failure(result).description
    assert "run `metric-benchmark sign`" in shell.failure(result).description
    assert not shell.output.exists()


def test_missing_evidence_names_the_file_and_the_remedy(shell: Any) -> None:
    result = shell.run("mutant_scores", key="tiny|lazy")
    assert "results.json: missing; run the stage that writes it" in shell.failure(result).description
    assert shell.failure(result).metadata["exit_status"].value == EvidenceError.exit_status


@pytest.mark.harbor
def test_a_spent_budget_fails_the_partition_once_and_keeps_what_was_paid_for(
    small: ModuleType, tmp_path: Path, make_shell: Callable[[Path], Any]
) -> None:
    path = small.build_experiment(tmp_path / "experiment", execution="budget: {max_trials: 1}\n")
    shell = make_shell(path)
    result = shell.run("raw_results", key="tiny|lazy")
    assert "tiny|lazy: the budget is reached with 1 trials to go" in shell.failure(result).description
    assert not any(event.event_type_value == "STEP_RESTARTED" for event in result.all_events)
    (record,) = (shell.output / "execution" / "tiny" / "lazy").glob("*/raw-results.json")
    assert [trial["status"] for trial in json.loads(record.read_text())["trials"]] == ["valid"]


def test_a_run_that_was_cancelled_before_it_began_runs_no_trial(shell: Any) -> None:
    job = shell.definitions.resolve_implicit_global_asset_job_def()
    run = shell.instance.create_run_for_job(job, asset_selection=frozenset({dg.AssetKey("raw_results")}))
    context: Any = SimpleNamespace(instance=shell.instance, run=run)
    refuse_cancelled(context)
    shell.instance.report_run_canceled(run)
    with pytest.raises(dg.Failure, match="cancelled while it was being started"):
        refuse_cancelled(context)


@pytest.mark.parametrize("lock", [None, "shared", "exclusive"])
def test_a_step_leaves_nothing_in_a_folder_that_is_no_evidence(
    experiment: Path, lock: Literal["shared", "exclusive"] | None
) -> None:
    folder = experiment.parent
    before = sorted(folder.rglob("*"))
    resource = ExperimentResource(experiment=str(experiment), output=str(folder))
    with pytest.raises(dg.Failure, match="is neither empty nor evidence"), resource.step(lock=lock):
        pytest.fail("the step was begun")
    assert sorted(folder.rglob("*")) == before
