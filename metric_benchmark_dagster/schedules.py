# SPDX-License-Identifier: Apache-2.0
"""The scheduled backfill: asks for what is missing, failed or stale by our own classification, within its caps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import dagster as dg

from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.costs import cost_per_trial, count_lacking, paid_metrics
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster.nightly import Nightly
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.requests import ASSET_JOB, Busy, busy_units, is_busy, request, wanted_units
from metric_benchmark_dagster.resources import ExperimentResource
from metric_benchmark_dagster.units import Unit, without

SCHEDULE = "scheduled_backfill"
#: What may cost money.
PAID = ("raw_results", "coverage")
#: Partitions of one tick whose cost nothing tells, where there is a cap by cost.
MAX_UNKNOWN = 1
#: Units that a tick names as left out.
_MAX_TOLD = 5


@dataclass(frozen=True)
class Chosen:
    """What one tick asks for, what it leaves for the next one because of its caps, and what a person is told."""

    units: tuple[Unit, ...]
    n_left: int
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """What a unit may cost; None where nothing says it. `refused` says why its paid part is not asked for at all."""

    usd: float | None = 0.0
    refused: str = ""


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
        try:
            run = experiment.open()
            # What ends while the evidence is read would else be taken for neither done nor at work.
            busy = busy_units(context.instance, key_prefix)
            units = wanted_units(run, experiment_status(run), keys)
        except MetricBenchmarkError as error:
            yield dg.SkipReason(f"the experiment cannot be loaded as it is now: {error}")
            return
        busy |= busy_units(context.instance, key_prefix)
        chosen = choose(units, busy, settings, estimates(run))
        date = context.scheduled_execution_time.isoformat(timespec="minutes")
        if chosen.told:
            context.log.warning("\n".join(chosen.told))
        if not chosen.units:
            reasons = chosen.told or ("all that is wanted is running already" if units else "everything is fresh",)
            yield dg.SkipReason("; ".join(reasons))
        for unit in chosen.units:
            yield request(
                unit,
                keys,
                key_prefix,
                trigger=SCHEDULE,
                run_key=f"{date}:{'+'.join(unit.assets)}:{unit.key or ''}",
                max_runtime_s=settings.max_runtime_s,
            )

    return schedule


def choose(units: Iterable[Unit], busy: Busy, settings: Nightly, estimate: Callable[[Unit], Estimate]) -> Chosen:
    """Takes units in order until a cap is reached.

    What costs nothing is always taken. Under a cap by cost, trials of which nothing says what they cost are run for one
    partition a tick: they may say it.

    Args:
        units: what can run, in order.
        busy: assets and partitions that are running already.
        settings: the caps.
        estimate: what a unit may cost; asked only under a cap by cost.
    """
    chosen: list[Unit] = []
    refused: list[str] = []
    cost, n_left, n_unknown = 0.0, 0, 0
    cap = settings.max_cost_usd
    for unit in units:
        if is_busy(unit, busy):
            continue
        if len(chosen) >= settings.max_runs:
            n_left += 1
            continue
        own = Estimate() if cap is None else estimate(unit)
        n_unknown += own.usd is None
        is_within = n_unknown <= MAX_UNKNOWN if own.usd is None else cap is None or not own.usd or cost + own.usd <= cap
        if own.refused:
            refused.append(f"{unit}: {own.refused}")
        taken = unit if is_within and not own.refused else without(unit, PAID)
        n_left += not is_within
        if taken is not None:
            chosen.append(taken)
            cost += (own.usd or 0.0) if taken == unit else 0.0
    return Chosen(tuple(chosen), n_left, (*refused[:_MAX_TOLD], *_explain(n_left, n_unknown, len(refused), settings)))


def _explain(n_left: int, n_unknown: int, n_refused: int, settings: Nightly) -> Iterator[str]:
    cap = "" if settings.max_cost_usd is None else f"{settings.max_cost_usd:g} USD"
    if n_refused > _MAX_TOLD:
        yield f"{n_refused - _MAX_TOLD} more are left out"
    if n_left:
        limits = f"at most {settings.max_runs} runs" + (f" and {cap}" if cap else "")
        yield f"{n_left} partitions are left for the next tick: {limits}"
    if n_unknown > MAX_UNKNOWN:
        yield (
            f"no trial says yet what it costs, so the limit of {cap} cannot be kept and {MAX_UNKNOWN} partition is run "
            "a tick; set `cost_bound_per_trial_usd` in the experiment's budget, or no limit by cost"
        )


def estimates(run: ExperimentRun) -> Callable[[Unit], Estimate]:
    """Returns what tells the cost of a unit: of the trials its variant lacks, or of a model that measures coverage."""
    variants = {variant.key: variant for variant in resolve_variants(run.experiment)}
    paid = paid_metrics(run.experiment)
    unbounded = [name for name, limit in paid.items() if limit is None]

    def of_trials(key: str) -> Estimate:
        try:
            n_lacking = count_lacking(run, variants[key])
            per_trial = cost_per_trial(run)
        except MetricBenchmarkError as error:
            return Estimate(refused=str(error))
        if not n_lacking:
            return Estimate()
        return Estimate(None if per_trial is None else per_trial * n_lacking)

    def of_coverage() -> Estimate:
        if unbounded:
            return Estimate(
                refused=f"nothing says what metric {', '.join(unbounded)} may cost, which asks a model; set its "
                "`max_cost_usd`, or launch it by hand"
            )
        return Estimate(sum(limit or 0.0 for limit in paid.values()))

    def estimate(unit: Unit) -> Estimate:
        if "raw_results" in unit.assets and unit.key is not None:
            return of_trials(unit.key)
        return of_coverage() if "coverage" in unit.assets else Estimate()

    return estimate
