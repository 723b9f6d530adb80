# SPDX-License-Identifier: Apache-2.0
"""What can run now, what runs already, and how a run is asked for: what the schedule and the sensor have in common."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.status import PartitionStatus, is_sealed
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.units import Unit, plan_units, ready_units

#: Dagster's own job of all assets: no other may have assets of different partitions.
ASSET_JOB = "__ASSET_JOB"
TRIGGER_TAG = "metric_benchmark/trigger"
#: Below what people launch by hand, which has 0; what all others are compared with goes first.
_PRIORITY = {"baseline": -10, "screening": -10, "control": -11, "mutant": -11}
_ANALYSIS_PRIORITY = -9
_UNFINISHED_RUNS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_UNFINISHED_BACKFILLS = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]

#: Assets and partitions.
type Busy = Collection[tuple[str, str | None]]


def wanted_units(run: ExperimentRun, status: Sequence[PartitionStatus], known: PartitionKeys) -> list[Unit]:
    """Returns what is missing, failed or stale and has all it is made from, upstream first.

    Args:
        run: the experiment and its evidence.
        status: of the evidence.
        known: the partitions the code location knows; others are waited for, and appear when it is loaded again.
    """
    fresh = {(found.stage, found.key) for found in status if found.state == "fresh"}
    sealed = is_sealed(run, status)
    plan = plan_units(
        PartitionKeys.of(run.experiment), lambda asset, key: sealed if key is None else (asset, key) in fresh
    )
    keys = {*known.roles, *known.cases, None}
    return [
        replace(unit, assets=tuple(asset for asset in unit.assets if (asset, unit.key) not in fresh))
        for unit in ready_units(plan)
        if unit.key in keys
    ]


def is_busy(unit: Unit, busy: Busy) -> bool:
    """Whether a unit has to wait: it runs already, or it seals, for which nothing else may be at work."""
    return bool(busy) if unit.key is None else any((asset, unit.key) in busy for asset in unit.assets)


def busy_units(instance: dg.DagsterInstance, key_prefix: Sequence[str]) -> set[tuple[str, str | None]]:
    """Returns the assets and partitions of runs that have not ended, and those that a backfill will come to."""
    found: set[tuple[str, str | None]] = set()
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED_RUNS)):
        found |= {(key.path[-1], run.tags.get("dagster/partition")) for key in _own(run.asset_selection, key_prefix)}
    return found | set(_backfilled(instance, key_prefix))


def _own(keys: Iterable[dg.AssetKey] | None, key_prefix: Sequence[str]) -> Iterator[dg.AssetKey]:
    return (key for key in keys or () if tuple(key.path[:-1]) == tuple(key_prefix))


def _backfilled(instance: dg.DagsterInstance, key_prefix: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=_UNFINISHED_BACKFILLS)):
        data = backfill.asset_backfill_data
        if data is None:
            continue
        left = data.target_subset - data.materialized_subset - data.failed_and_downstream_subset
        for found in left.iterate_asset_partitions():
            for key in _own([found.asset_key], key_prefix):
                yield key.path[-1], found.partition_key


def request(
    unit: Unit,
    keys: PartitionKeys,
    key_prefix: Sequence[str],
    *,
    trigger: str,
    run_key: str | None = None,
    max_runtime_s: int | None = None,
) -> dg.RunRequest:
    """Makes the request of one run.

    Args:
        unit: what it materialises.
        keys: the experiment's partitions.
        key_prefix: of its assets.
        trigger: who asks.
        run_key: requests of one key are one run.
        max_runtime_s: after which Dagster ends it (default: the instance's limit).
    """
    role = keys.roles.get(unit.key or "") if unit.assets == ("raw_results",) else None
    priority = _ANALYSIS_PRIORITY if role is None else _PRIORITY[role]
    limit = {} if max_runtime_s is None else {"dagster/max_runtime": str(max_runtime_s)}
    return dg.RunRequest(
        run_key=run_key,
        partition_key=unit.key,
        asset_selection=[dg.AssetKey([*key_prefix, asset]) for asset in unit.assets],
        tags={TRIGGER_TAG: trigger, "dagster/priority": str(priority), **limit},
    )
