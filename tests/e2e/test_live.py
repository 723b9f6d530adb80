# SPDX-License-Identifier: Apache-2.0
"""A real `dagster dev`: backfills with and without failures, new mutants, the schedule, and terminated runs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import is_root_free
from metric_benchmark.experiment import open_run
from metric_benchmark.pins import sign_experiment
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark_dagster.failures import CANCELLED

pytestmark = [pytest.mark.live, pytest.mark.harbor, pytest.mark.slow, pytest.mark.timeout(1500)]

#: How many runs are terminated, each at another moment.
N_TERMINATIONS = 10
#: They are terminated at random moments up to so many seconds after their launch; a trial runs from about 5 s on.
LAST_TERMINATION_S = 9.0
#: An agent that Harbor cannot make; only its own variant is refused for it.
BROKEN = 'agent: {import_path: "harbor.agents.nop:NoSuchAgent"}'


SENSOR = "analysis_follows"


@pytest.fixture
def still(filled: Any) -> Iterator[Any]:
    """The host while nothing runs but what a test launches."""
    with filled.without_sensor(SENSOR):
        wait_for(lambda: not unfinished(filled), 200, "earlier runs")
        yield filled


@pytest.fixture(scope="module")
def filled(host: Any) -> Any:
    """The host after a backfill of everything, with inputs that nobody observed by hand."""
    wait_for(lambda: len(observed(host)) == 2, 120, "observations by the sensor")
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
    assert not_fresh(filled) == {}
    # The sensor was on and left all of it to the backfill.
    assert runs_of(filled, "metric_benchmark/trigger", SENSOR) == {}


def test_every_check_of_it_passed(filled: Any) -> None:
    names = (
        "native_evidence_valid", "controls_survive", "baseline_reliable", "metric_not_constant", "hypothesis_verdict",
        "inventory_complete", "up_to_date",
    )  # fmt: skip
    # The sensor may have looked at freshness while the last run was at work; it looks again soon after.
    wait_for(lambda: latest_checks(filled) == dict.fromkeys(names, True), 200, "all checks to have passed", 3)


def test_a_backfill_with_a_failing_variant_does_the_rest_and_the_next_one_only_what_is_missing(still: Any) -> None:
    edit(still, "tiny", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    edit(still, "other", "mutants:\n", f"mutants:\n  - {{id: extra, operator: external/x, {BROKEN}}}\n")
    ended = backfill(still)
    assert ended.returncode == 4, ended.stderr
    result = json.loads(ended.stdout)
    assert result["status"] == "COMPLETED_FAILED"
    assert runs_of(still, "dagster/backfill", result["backfill"]) == {
        "raw_results tiny|lazy": "SUCCESS",
        "raw_results other|extra": "FAILURE",
        "mutant_scores tiny|lazy": "SUCCESS",
        "subset_scores tiny": "SUCCESS",
        "correlation tiny": "SUCCESS",
    }
    assert not_fresh(still) == {
        "raw_results other|extra": "missing",
        "mutant_scores other|extra": "missing",
        "subset_scores other": "stale",
        "correlation other": "stale",
    }
    assert "other|extra" not in still.materialised()["raw_results"] | still.materialised()["mutant_scores"]

    edit(still, "other", BROKEN, "agent: {name: nop}")
    ended = backfill(still, "--state", "missing", "--state", "failed")
    assert ended.returncode == 0, ended.stderr
    assert runs_of(still, "dagster/backfill", json.loads(ended.stdout)["backfill"]) == {
        "raw_results other|extra": "SUCCESS",
        "mutant_scores other|extra": "SUCCESS",
        "subset_scores other": "SUCCESS",
        "correlation other": "SUCCESS",
        "execution_manifest ": "SUCCESS",
        "report ": "SUCCESS",
    }
    assert not_fresh(still) == {}


def test_the_schedule_asks_for_exactly_what_is_stale_and_then_only_a_new_mutant_is_run(filled: Any) -> None:
    assert tick(filled) == []
    old, new = "external/oracle, agent: {name: oracle}", "external/oracle, agent: {name: oracle, model_name: other}"
    edit(filled, "tiny", old, new)
    assert tick(filled) == ["raw_results tiny|same"]
    edit(filled, "tiny", new, old)
    assert tick(filled) == []

    before = trials(filled)
    edit(filled, "other", "mutants:\n", "mutants:\n  - {id: another, operator: external/y, agent: {name: nop}}\n")
    wait_for(lambda: "other|another" in filled.partition_keys(("raw_results",)), 120, "the new mutant's partition")
    assert tick(filled) == ["raw_results other|another"]
    run = filled.launch("raw_results", "other|another")
    assert filled.follow_run(run) == "SUCCESS", filled.run_log(run)
    # All that depends on it follows by itself, at the first attempt.
    following = {
        "mutant_scores other|another": "SUCCESS",
        "correlation,subset_scores other": "SUCCESS",
        "execution_manifest,report ": "SUCCESS",
    }
    wait_for(lambda: runs_of(filled, "metric_benchmark/trigger", SENSOR) == following, 500, "the analysis to follow", 3)
    wait_for(lambda: not unfinished(filled), 100, "the end of what follows")
    assert (not_fresh(filled), tick(filled)) == ({}, [])
    ran = trials(filled) - before
    assert {trial.parts[0] for trial in ran} == {"another"}
    assert len(ran) == 2


def test_runs_terminated_at_any_moment_leave_nothing_behind_and_the_next_one_succeeds(
    still: Any, small: ModuleType, processes: ModuleType
) -> None:
    before = processes.started_by(still.process.pid)
    set_sleep(small, still.experiment, 120)
    seed = random.randrange(10**6)
    moments = random.Random(seed)
    for number in range(N_TERMINATIONS):
        # One in each stretch of that time.
        delay_s = LAST_TERMINATION_S * (number + moments.random()) / N_TERMINATIONS
        where = f"termination {number + 1} of seed {seed}, {delay_s:.2f} s after the launch"
        run = still.launch("raw_results", "other|baseline")
        time.sleep(delay_s)
        started = processes.started_by(still.process.pid) - before
        # While its process is being made it cannot be told; a person presses the button again.
        wait_for(lambda run=run: terminate(still, run), 60, f"{where}: to be told", 0.5)
        ended = still.follow_run(run, 100)
        # One that was cancelled just as it left the queue is started by Dagster all the same, and stops by itself.
        is_stopped = ended == "CANCELED" or (ended == "FAILURE" and CANCELLED in still.run_log(run))
        assert is_stopped, f"{where}: {ended}: {still.run_log(run)}"
        started |= processes.started_by(still.process.pid) - before
        # The code server starts a tracker of its own with its first run; it stays as long as the server.
        started = {process for process in started if "resource_tracker" not in processes.command(process[0])}
        left = processes.left_of(started, within_s=30)
        assert left == [], f"{where}: {left}"
        assert slots(still) == 0, where
    # What is left of a trial holds the evidence until its sandbox is gone.
    wait_for(lambda: is_root_free(EvidenceRoot(still.output), "exclusive"), 60, "the evidence to be free")

    set_sleep(small, still.experiment, 0)
    again = still.launch("raw_results", "other|baseline")
    assert still.follow_run(again) == "SUCCESS", still.run_log(again)
    assert "other|baseline 2/2" in still.run_log(again)


def wait_for(*args: Any) -> Any:
    return sys.modules["mb_tests_host"].wait_for(*args)


def edit(host: Any, case: str, old: str, new: str) -> None:
    """Changes a case file, which must have the text once, and signs."""
    path: Path = host.experiment.parent / case / "case.yaml"
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))
    sign_experiment(host.experiment)


def set_sleep(small: ModuleType, experiment: Path, seconds: int) -> None:
    for task in small.TASKS:
        small.write_task(experiment.parent / "other" / "tasks" / task, task, sleep_s=seconds)
    sign_experiment(experiment)


def not_fresh(host: Any) -> dict[str, str]:
    """What `metric-benchmark status` lists: state by stage and key."""
    run = open_run(host.experiment, host.output, level="analysis")
    return {f"{found.stage} {found.key}": found.state for found in experiment_status(run) if found.state != "fresh"}


def trials(host: Any) -> set[Path]:
    """Native trials of the case `other`, by path below it."""
    folder = host.output / "execution" / "other"
    return {path.relative_to(folder) for path in folder.glob("*/*/jobs/run-*/*__*")}


def backfill(host: Any, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs `metric-benchmark backfill` to its end."""
    command = [sys.executable, "-m", "metric_benchmark", "backfill", str(host.experiment), "--output", str(host.output)]
    return subprocess.run(
        [*command, "--url", host.url, "--json", *words], capture_output=True, text=True, timeout=900, check=False
    )


def runs_of(host: Any, tag: str, value: str) -> dict[str, str]:
    """Status of the runs with a tag, by assets and partition."""
    runs = host.ask(
        """query($tag: ExecutionTag!) { runsOrError(filter: {tags: [$tag]}) {
             ... on Runs { results { status assetSelection { path } tags { key value } } } } }""",
        tag={"key": tag, "value": value},
    )["runsOrError"]["results"]
    found: dict[str, str] = {}
    for run in runs:
        partition = next((tag["value"] for tag in run["tags"] if tag["key"] == "dagster/partition"), "")
        assets = ",".join(sorted(key["path"][-1] for key in run["assetSelection"]))
        name = f"{assets} {partition}"
        assert name not in found, f"{name} ran twice"
        found[name] = run["status"]
    return found


def latest_checks(host: Any) -> dict[str, bool | None]:
    """Whether each check passed the last time; None where the UI shows no result."""
    nodes = host.ask(
        """{ assetNodes { assetChecksOrError { ... on AssetChecks { checks { name
             executionForLatestMaterialization { evaluation { success } } } } } } }"""
    )["assetNodes"]
    return {
        check["name"]: ((check["executionForLatestMaterialization"] or {}).get("evaluation") or {}).get("success")
        for node in nodes
        for check in node["assetChecksOrError"].get("checks", [])
    }


def observed(host: Any) -> list[str]:
    """The inputs that have been observed at least once."""
    nodes = host.ask("{ assetNodes { assetKey { path } assetObservations(limit: 1) { timestamp } } }")["assetNodes"]
    return [node["assetKey"]["path"][-1] for node in nodes if node["assetObservations"]]


def tick(host: Any) -> list[str]:
    """What the schedule would ask for now, evaluated by the real code server."""
    answer = host.ask(
        """mutation($selector: ScheduleSelector!, $at: Float!) {
             scheduleDryRun(selectorData: $selector, timestamp: $at) {
               __typename ... on PythonError { message } ... on DryRunInstigationTick { evaluationResult {
                 error { message } runRequests { assetSelection { path } tags { key value } } } } } }""",
        selector={**sys.modules["mb_tests_host"]._REPOSITORY, "scheduleName": "scheduled_backfill"},
        at=1_800_000_000.0,
    )["scheduleDryRun"]
    assert answer["__typename"] == "DryRunInstigationTick", answer
    result = answer["evaluationResult"]
    assert not result["error"], result
    return [
        " ".join(
            [
                ",".join(key["path"][-1] for key in request["assetSelection"]),
                *(tag["value"] for tag in request["tags"] if tag["key"] == "dagster/partition"),
            ]
        )
        for request in result["runRequests"] or ()
    ]


def terminate(host: Any, run: str) -> bool:
    """Asks a run to stop; whether it could be told."""
    answer = host.ask("mutation($id: String!) { terminateRun(runId: $id) { __typename } }", id=run)["terminateRun"]
    return answer["__typename"] == "TerminateRunSuccess"


def unfinished(host: Any) -> list[str]:
    return [
        run["runId"]
        for run in host.ask(
            """{ runsOrError(filter: {statuses: [QUEUED, NOT_STARTED, STARTING, STARTED, CANCELING]}) {
                 ... on Runs { results { runId } } } }"""
        )["runsOrError"]["results"]
    ]


def slots(host: Any) -> int:
    """Slots of the pool `harbor` that someone holds."""
    keys = host.ask("{ instance { concurrencyLimits { concurrencyKey activeSlotCount pendingStepCount } } }")
    return sum(
        key["activeSlotCount"] + key["pendingStepCount"]
        for key in keys["instance"]["concurrencyLimits"]
        if key["concurrencyKey"] == "harbor"
    )
