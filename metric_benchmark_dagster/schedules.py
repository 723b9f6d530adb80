# SPDX-License-Identifier: Apache-2.0
"""The scheduled backfill: asks for what is missing, failed or stale by our own classification, within its caps."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.costs import cost_per_trial, count_lacking
from metric_benchmark.pipeline.status import PartitionStatus, experiment_status, is_sealed
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster.nightly import Nightly
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.resources import ExperimentResource
from metric_benchmark_dagster.units import Unit, plan_units, ready_units

SCHEDULE = "scheduled_backfill"
#: Dagster's own job of all assets: no other may have assets of different partitions.
ASSET_JOB = "__ASSET_JOB"
TRIGGER_TAG = "metric_benchmark/trigger"
#: Below what people launch by hand, which has 0; what all others are compared with goes first.
_PRIORITY = {"baseline": -10, "screening": -10, "control": -11, "mutant": -11}
_ANALYSIS_PRIORITY = -9
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class Chosen:
    """What one tick asks for, and what it leaves for the next one because of its caps."""

    units: tuple[Unit, ...]
    cost_usd: float
    n_left: int


def scheduled_backfill(keys: PartitionKeys, key_prefix: Sequence[str], settings: Nightly) -> dg.ScheduleDefinition:
    """Makes the schedule; it is stopped until someone turns it on."""

    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]
        name=SCHEDULE,
        cron_schedule=settings.cron,
        execution_timezone=settings.timezone,
        job_name=ASSET_JOB,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Runs what is missing, failed or stale: raw results before what is computed from them, "
        f"at most {settings.max_runs} partitions a tick"
        + ("" if settings.max_cost_usd is None else f" and {settings.max_cost_usd:g} USD by estimate")
        + ".",
    )
    def schedule(
        context: dg.ScheduleEvaluationContext, experiment: ExperimentResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        run = experiment.open()
        units = wanted_units(run, keys)
        busy = busy_units(context.instance, key_prefix)
        chosen = choose(units, busy, settings, trial_costs(run))
        date = context.scheduled_execution_time.isoformat(timespec="minutes")
        if not chosen.units:
            yield dg.SkipReason("everything is fresh" if not units else "all that is wanted is running already")
        if chosen.n_left:
            context.log.info(
                f"{chosen.n_left} partitions are left for the next tick: at most {settings.max_runs} runs"
                + ("" if settings.max_cost_usd is None else f" and {settings.max_cost_usd:g} USD")
            )
        for unit in chosen.units:
            yield request(unit, keys, key_prefix, settings, run_key=f"{date}:{'+'.join(unit.assets)}:{unit.key or ''}")

    return schedule


def wanted_units(run: ExperimentRun, keys: PartitionKeys) -> list[Unit]:
    """Returns what is missing, failed or stale and has all it is made from, upstream first.

    Args:
        run: the experiment and its evidence.
        keys: the partitions the code location knows; others appear when it is loaded again.
    """
    status = experiment_status(run)
    return fresh_less(plan_units(keys, currency(status, sealed=is_sealed(run, status))), status)


def currency(status: Iterable[PartitionStatus], *, sealed: bool) -> Callable[[str, str | None], bool]:
    """Returns whether an asset's partition is up to date, by the evidence alone."""
    fresh = {(found.stage, found.key) for found in status if found.state == "fresh"}
    return lambda asset, key: sealed if key is None else (asset, key) in fresh


def fresh_less(plan: Mapping[Unit, frozenset[Unit]], status: Iterable[PartitionStatus]) -> list[Unit]:
    """Returns the units that can run now, without those of their assets that are fresh."""
    fresh = {(found.stage, found.key) for found in status if found.state == "fresh"}
    return [
        replace(unit, assets=tuple(asset for asset in unit.assets if (asset, unit.key) not in fresh))
        for unit in ready_units(plan)
    ]


def choose(
    units: Iterable[Unit], busy: Collection[tuple[str, str | None]], settings: Nightly, cost_of: Callable[[str], float]
) -> Chosen:
    """Takes units in order until a cap is reached; pure.

    Args:
        units: what can run, in order.
        busy: assets and partitions that are running already.
        settings: the caps.
        cost_of: what the trials that a variant lacks may cost.
    """
    chosen: list[Unit] = []
    cost = 0.0
    left = 0
    for unit in units:
        if any((asset, unit.key) in busy for asset in unit.assets):
            continue
        own = cost_of(unit.key) if unit.assets == ("raw_results",) and unit.key else 0.0
        is_too_dear = settings.max_cost_usd is not None and own > 0 and cost + own > settings.max_cost_usd
        if is_too_dear or len(chosen) >= settings.max_runs:
            left += 1
            continue
        chosen.append(unit)
        cost += own
    return Chosen(tuple(chosen), cost, left)


def trial_costs(run: ExperimentRun) -> Callable[[str], float]:
    """Returns what the trials that a variant lacks may cost, by its key."""
    per_trial = cost_per_trial(run)
    variants = {variant.key: variant for variant in resolve_variants(run.experiment)} if per_trial else {}
    return lambda key: per_trial * count_lacking(run, variants[key]) if per_trial else 0.0


def request(
    unit: Unit, keys: PartitionKeys, key_prefix: Sequence[str], settings: Nightly, *, run_key: str | None
) -> dg.RunRequest:
    """Makes the request of one run."""
    role = keys.roles.get(unit.key or "") if unit.assets == ("raw_results",) else None
    priority = _ANALYSIS_PRIORITY if role is None else _PRIORITY[role]
    return dg.RunRequest(
        run_key=run_key,
        partition_key=unit.key,
        asset_selection=[dg.AssetKey([*key_prefix, asset]) for asset in unit.assets],
        tags={
            TRIGGER_TAG: SCHEDULE,
            "dagster/priority": str(priority),
            "dagster/max_runtime": str(settings.max_runtime_s),
        },
    )


def busy_units(instance: dg.DagsterInstance, key_prefix: Sequence[str]) -> set[tuple[str, str | None]]:
    """Returns the assets and partitions of runs that have not ended."""
    found: set[tuple[str, str | None]] = set()
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        for key in run.asset_selection or ():
            if tuple(key.path[:-1]) == tuple(key_prefix):
                found.add((key.path[-1], run.tags.get("dagster/partition")))
    return found
