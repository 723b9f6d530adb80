# SPDX-License-Identifier: Apache-2.0
"""A real `dagster dev`: a backfill of everything, and a run that is terminated in mid-trial."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.harbor, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def filled(host: Any) -> Any:
    """The host after a backfill of everything."""
    host.observe_inputs()
    backfill = host.launch_backfill()
    assert host.follow_backfill(backfill, 900) == "COMPLETED_SUCCESS"
    return host


def test_a_backfill_of_everything_materialises_every_partition(filled: Any, small: ModuleType) -> None:
    cases = set(small.TWO_CASES)
    assert filled.materialised() == {
        "raw_results": set(small.VARIANTS),
        "execution_manifest": {""},
        "mutant_scores": set(small.SCORED),
        "subset_scores": cases,
        "coverage": cases,
        "correlation": cases,
        "report": {""},
    }
    assert (filled.output / "experiment.json").exists()
    assert (filled.output / "report.html").exists()


def test_a_run_terminated_in_mid_trial_leaves_nothing_behind_and_the_next_one_succeeds(
    filled: Any, small: ModuleType, processes: ModuleType
) -> None:
    before = processes.started_by(filled.process.pid)
    _set_sleep(small, filled.experiment, 120)
    run = filled.launch("raw_results", "other|baseline")
    _wait_for_sandbox(filled, processes, before)
    started = processes.started_by(filled.process.pid) - before
    assert len(started) >= 3, "the run, Harbor's process and a sandbox at least"
    filled.terminate(run)
    assert filled.follow_run(run, 60) == "CANCELED", filled.run_log(run)
    assert processes.left_of(started) == []

    _set_sleep(small, filled.experiment, 0)
    again = filled.launch("raw_results", "other|baseline")
    assert filled.follow_run(again) == "SUCCESS", filled.run_log(again)
    assert "other|baseline 2/2" in filled.run_log(again)


def _set_sleep(small: ModuleType, experiment: Path, seconds: int) -> None:
    for task in small.TASKS:
        small.write_task(experiment.parent / "other" / "tasks" / task, task, sleep_s=seconds)
    small.sign_experiment(experiment)


def _wait_for_sandbox(host: Any, processes: ModuleType, before: set[Any]) -> None:
    import sys

    known = {pid for pid, _ in before}
    sys.modules["mb_tests_host"].wait_for(
        lambda: processes.sandboxes_of(host.process.pid) - known, 120, "a sandbox", 0.2
    )
