# SPDX-License-Identifier: Apache-2.0
"""The scheduled backfill: a tick asks for exactly what is not fresh and can run now, within its caps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from metric_benchmark.pins import sign_experiment
from metric_benchmark_dagster.nightly import Nightly
from metric_benchmark_dagster.schedules import Chosen, choose
from metric_benchmark_dagster.units import Unit

NIGHT = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def tick(shell: Any, *, instance: dg.DagsterInstance | None = None) -> list[tuple[tuple[str, ...], str | None]]:
    """Evaluates the schedule; what it asks for, in order: assets and partition."""
    return [
        (tuple(key.path[-1] for key in request.asset_selection or ()), request.partition_key)
        for request in requests(shell, instance=instance)
    ]


def requests(shell: Any, *, instance: dg.DagsterInstance | None = None) -> list[dg.RunRequest]:
    repository = shell.definitions.get_repository_def()
    schedule = repository.get_schedule_def("scheduled_backfill")
    context = dg.build_schedule_context(
        instance=instance or shell.instance,
        scheduled_execution_time=NIGHT,
        repository_def=repository,
        resources=shell.definitions.resources,
    )
    return list(schedule.evaluate_tick(context).run_requests or [])


@pytest.fixture
def copied(finished: Any, make_shell: Callable[..., Any], tmp_path: Path) -> Any:
    """The finished experiment, copied so that it can be changed; Dagster knows nothing of it."""
    shutil.copytree(finished.experiment.parent, tmp_path / "experiment")
    shutil.copytree(finished.output, tmp_path / "out", symlinks=True)
    return make_shell(tmp_path / "experiment" / "experiment.yaml")


def change(shell: Any, file: str, old: str, new: str) -> None:
    path = shell.experiment.parent / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    sign_experiment(shell.experiment)


def test_of_an_experiment_that_was_never_run_only_raw_results_are_asked_for(shell: Any) -> None:
    found = requests(shell)
    assert [request.partition_key for request in found] == [
        "tiny|baseline", "tiny|screening", "tiny|control-1", "tiny|lazy", "tiny|same",
    ]  # fmt: skip
    assert {tuple(request.asset_selection or ()) for request in found} == {(dg.AssetKey("raw_results"),)}
    assert [request.tags["dagster/priority"] for request in found] == ["-10", "-10", "-11", "-11", "-11"]
    first = found[0]
    assert first.run_key == "2026-03-01T02:00+00:00:raw_results:tiny|baseline"
    assert first.tags["dagster/partition"] == "tiny|baseline"
    assert first.tags["dagster/max_runtime"] == "21600"
    assert first.tags["metric_benchmark/trigger"] == "scheduled_backfill"


def test_everything_fresh_asks_for_nothing(copied: Any) -> None:
    assert tick(copied) == []


def test_a_changed_mutant_is_all_that_is_asked_for(copied: Any) -> None:
    change(copied, "other/case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    assert tick(copied) == [(("raw_results",), "other|idle")]


def test_analysis_is_asked_for_when_its_results_are_there_and_only_where_it_is_stale(copied: Any) -> None:
    change(copied, "other/subsets.yaml", "tasks: [greet, count]", "tasks: [count, greet]")
    assert tick(copied) == [(("subset_scores", "coverage", "correlation"), "other")]


def test_changed_scoring_starts_with_the_kills(copied: Any, small: ModuleType) -> None:
    change(copied, "analysis.yaml", "{name: deterministic}", "{name: deterministic}, min_pass_share: 0.5")
    assert sorted(tick(copied)) == sorted((("mutant_scores",), key) for key in small.SCORED)


def test_changed_correlation_leaves_scores_and_coverage_alone(copied: Any) -> None:
    change(copied, "analysis.yaml", "seed: 1", "seed: 2")
    assert tick(copied) == [(("correlation",), "tiny"), (("correlation",), "other")]


def test_an_experiment_that_lacks_only_its_seal_is_sealed(copied: Any) -> None:
    (copied.output / "experiment.json").unlink()
    assert tick(copied) == [(("execution_manifest", "report"), None)]


def test_what_is_queued_or_running_is_not_asked_for_again(copied: Any) -> None:
    change(copied, "other/case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    copied.instance.create_run_for_job(
        copied.definitions.resolve_implicit_global_asset_job_def(),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": "other|idle"},
        asset_selection=frozenset({dg.AssetKey("raw_results")}),
    )
    assert tick(copied) == []


UNITS = [Unit(("raw_results",), key) for key in ("a|baseline", "a|x", "a|y")] + [Unit(("correlation",), "b")]


def test_caps_count_partitions_and_estimated_cost_and_say_what_is_left() -> None:
    costs = {"a|baseline": 2.0, "a|x": 3.0, "a|y": 1.0}.__getitem__
    assert choose(UNITS, (), Nightly(max_runs=2), costs) == Chosen(tuple(UNITS[:2]), 5.0, 2)
    # x is too dear after the baseline; y still fits, and what costs nothing always does.
    assert choose(UNITS, (), Nightly(max_cost_usd=3.5), costs) == Chosen((UNITS[0], UNITS[2], UNITS[3]), 3.0, 1)
    assert choose(UNITS, {("raw_results", "a|baseline")}, Nightly(max_runs=1), costs) == Chosen((UNITS[1],), 3.0, 2)
