# SPDX-License-Identifier: Apache-2.0
"""The analysis follows its results: asked for once, when it can be computed, and not while someone is at work on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.selector import (
    PartitionRangeSelector,
    PartitionsByAssetSelector,
    PartitionsSelector,
)
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark_dagster import looks
from metric_benchmark_dagster.automation import follow
from metric_benchmark_dagster.units import CASE_ASSETS, END, Unit

CASE = (CASE_ASSETS, "other")
SEAL = (END.assets, None)


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast ticks follow upon each other, each looks at what changed."""
    monkeypatch.setattr(looks, "EVIDENCE_SHARE", float("inf"))


class Daemon:
    """Evaluates the sensor as the daemon does, with the cursor of the time before."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cursor: str | None = None
        self.skipped = ""

    def tick(self) -> list[tuple[tuple[str, ...], str | None]]:
        """What is asked for: assets and partition."""
        repository = self.shell.definitions.get_repository_def()
        context = dg.build_sensor_context(
            instance=self.shell.instance,
            cursor=self.cursor,
            repository_def=repository,
            resources=self.shell.definitions.resources,
        )
        done = repository.get_sensor_def("analysis_follows").evaluate_tick(context)
        self.cursor = done.cursor or self.cursor
        self.skipped = done.skip_message or ""
        return [
            (tuple(key.path[-1] for key in request.asset_selection or ()), request.partition_key)
            for request in done.run_requests or ()
        ]

    def run(self, *asked: tuple[tuple[str, ...], str | None]) -> None:
        """Runs what was asked for."""
        for assets, key in asked:
            assert self.shell.run(*assets, key=key).success


@pytest.fixture
def daemon(copied: Any) -> Daemon:
    """A daemon that has looked at a finished experiment."""
    daemon = Daemon(copied)
    assert daemon.tick() == []
    assert "nothing can be computed" in daemon.skipped
    return daemon


def at_work(shell: Any, assets: Iterable[str], key: str) -> dg.DagsterRun:
    """A run that goes on until `end` is told."""
    return shell.instance.create_run_for_job(
        shell.definitions.resolve_implicit_global_asset_job_def(),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": key},
        asset_selection=frozenset(dg.AssetKey(asset) for asset in assets),
    )


def end(shell: Any, run: dg.DagsterRun) -> None:
    shell.instance.report_run_failed(run)


@pytest.mark.harbor
def test_a_baseline_that_is_run_again_is_followed_to_the_seal_and_no_run_fails(daemon: Daemon) -> None:
    shell = daemon.shell
    shell.edit(
        "other/case.yaml", "baseline: {agent: {name: oracle}}", "baseline: {agent: {name: oracle, model_name: x}}"
    )
    # Trials are never asked for, and nothing before all it is made from is there.
    assert daemon.tick() == []
    for variant in ("baseline", "screening"):
        assert shell.run("raw_results", key=f"other|{variant}").success
        expected = [] if variant == "baseline" else [(("mutant_scores",), "other|idle")]
        asked = daemon.tick()
        assert asked == expected
    daemon.run(*asked)
    assert daemon.tick() == []
    assert shell.run("raw_results", key="other|control-1").success
    for expected in ((("mutant_scores",), "other|control-1"), CASE, SEAL):
        assert daemon.tick() == [expected]
        daemon.run(expected)
    assert daemon.tick() == []


def test_a_change_that_comes_during_a_run_is_not_lost(daemon: Daemon) -> None:
    shell = daemon.shell
    shell.edit("other/subsets.yaml", "tasks: [greet, count]", "tasks: [count, greet]")
    assert daemon.tick() == [CASE]
    run = at_work(shell, CASE_ASSETS, "other")
    shell.edit("other/subsets.yaml", "tasks: [count, greet]", "tasks: [count]")
    assert daemon.tick() == []
    assert "at work" in daemon.skipped
    assert daemon.tick() == []
    end(shell, run)
    assert daemon.tick() == [CASE]
    assert daemon.tick() == []


def test_what_failed_is_not_asked_for_again_before_something_has_changed(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = daemon.shell
    shell.edit("other/subsets.yaml", "tasks: [greet, count]", "tasks: [count, greet]")
    assert daemon.tick() == [CASE]
    monkeypatch.setattr(looks, "FULL_LOOK_S", 0)
    # Nothing came of all of it, then of the last asset alone.
    assert daemon.tick() == []
    assert "asked for before and not done: subset_scores of other and 1 more" in daemon.skipped
    assert shell.run("subset_scores", "coverage", key="other").success
    # It was only skipped then; now it has failed itself.
    assert daemon.tick() == [(("correlation",), "other")]
    assert daemon.tick() == []
    assert "asked for before and not done: correlation of other" in daemon.skipped
    shell.edit("analysis.yaml", "seed: 1", "seed: 2")
    assert daemon.tick() == [(("correlation",), "tiny"), (("correlation",), "other")]


def test_a_backfill_that_will_come_to_it_is_waited_for(daemon: Daemon) -> None:
    shell = daemon.shell
    shell.edit("analysis.yaml", "seed: 1", "seed: 2")
    only_other = PartitionsSelector(ranges=[PartitionRangeSelector(start="other", end="other")])
    backfill = PartitionBackfill.from_partitions_by_assets(
        "nightly",
        shell.definitions.resolve_asset_graph(),
        0.0,
        {},
        shell.instance,
        [PartitionsByAssetSelector(asset_key=dg.AssetKey("correlation"), partitions=only_other)],
        None,
        None,
        None,
    )
    shell.instance.add_backfill(backfill)
    assert daemon.tick() == [(("correlation",), "tiny")]
    assert daemon.tick() == []
    assert "waits for what is at work on the evidence: correlation of other" in daemon.skipped
    shell.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_FAILED))
    assert daemon.tick() == [(("correlation",), "other")]


def test_it_is_sealed_only_when_nobody_is_at_work(daemon: Daemon) -> None:
    shell = daemon.shell
    (shell.output / "experiment.json").unlink()
    run = at_work(shell, ["raw_results"], "tiny|lazy")
    assert daemon.tick() == []
    assert "waits for what is at work" in daemon.skipped
    end(shell, run)
    with lock_root(EvidenceRoot(shell.output), "shared"):
        assert daemon.tick() == []
    assert daemon.tick() == [SEAL]
    # While that is so, it is asked for once; a seal that failed is tried when there is something else to seal.
    assert daemon.tick() == []


def test_coverage_by_a_model_costs_money_and_is_not_asked_for(daemon: Daemon) -> None:
    judge = "\n  - {name: judge, metric: model_judge, settings: {model: m, items: [{name: a, text: a}]}}"
    daemon.shell.edit("analysis.yaml", "- name: synthetic", f"- name: synthetic{judge}")
    assert daemon.tick() == []
    assert "coverage asks a model (judge), which costs money: launch it by hand" in daemon.skipped
    daemon.shell.edit("other/subsets.yaml", "tasks: [greet, count]", "tasks: [count, greet]")
    # The rest of the case is scored all the same.
    assert daemon.tick() == [(("subset_scores",), "other")]


def test_what_failed_takes_along_only_what_is_made_from_it() -> None:
    units = [Unit(CASE_ASSETS, "a"), Unit(("mutant_scores",), "b|x")]
    now = {f"{asset} of a": "2" for asset in CASE_ASSETS} | {"mutant_scores of b|x": "1"}
    found = follow(units, {("mutant_scores", "b|x")}, now, {"coverage of a": "2", "subset_scores of a": "1"})
    assert found.chosen == (Unit(("subset_scores",), "a"),)
    assert found.waiting == (units[1],)
    assert found.tried == ("coverage of a",)
