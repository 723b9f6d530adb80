# SPDX-License-Identifier: Apache-2.0
"""The sensor that lets the analysis follow the raw results: asks for what the evidence says can be computed now.

It asks the same function as the schedule and `metric-benchmark status`. Dagster's own conditions were tried and go by
Dagster's events: they see one edge up, lose a change that comes while they ask for the one before, and know nothing of
results that the command line recorded.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from metric_benchmark.config import Experiment
from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark.evidence.locks import is_root_free
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.costs import paid_metrics
from metric_benchmark.pipeline.status import PartitionStatus, experiment_status
from metric_benchmark_dagster.looks import Seen, evidence_files, experiment_files, signature
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.requests import ASSET_JOB, Busy, busy_units, is_busy, request, wanted_units
from metric_benchmark_dagster.resources import ExperimentResource
from metric_benchmark_dagster.units import MADE_FROM, Unit, without

SENSOR = "analysis_follows"
INTERVAL_S = 30
#: Runs of one tick; the rest comes with the next.
MAX_REQUESTS = 100

#: What each asset and partition would be made from now, by `_name`.
type Versions = Mapping[str, str]


@dataclass(frozen=True)
class Following:
    """What one tick asks for, what has to wait for the next, and what is left alone until something changes."""

    chosen: tuple[Unit, ...]
    waiting: tuple[Unit, ...]
    tried: tuple[str, ...]


def analysis_follows(experiment: Experiment, keys: PartitionKeys, key_prefix: Sequence[str]) -> dg.SensorDefinition:
    """Makes the sensor; it runs unless someone stops it: it never asks for trials.

    Args:
        experiment: as it was when the definitions were made.
        keys: its partitions then.
        key_prefix: of its assets.
    """
    watched = experiment_files(experiment)

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=SENSOR,
        job_name=ASSET_JOB,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Scores, measures, correlates and seals as soon as the results are there. Costs no trials "
        "and asks no model.",
    )
    def sensor(context: dg.SensorEvaluationContext, experiment: ExperimentResource) -> dg.SensorResult | dg.SkipReason:
        nonlocal watched
        seen = Seen.parse(context.cursor)
        started = time.time()
        files, evidence = signature(watched), signature(evidence_files(Path(experiment.output), keys.cases))
        if seen.is_enough(files, evidence, started, pause_s=0):
            return dg.SkipReason("nothing has changed")
        try:
            run = experiment.open()
            # What ends while the evidence is read would else be taken for neither done nor at work.
            busy = busy_units(context.instance, key_prefix)
            status = experiment_status(run)
        except MetricBenchmarkError as error:
            # An edit in the making: the cursor stays, so the next look is a full one.
            return dg.SkipReason(f"the experiment cannot be loaded as it is now: {error}")
        watched = experiment_files(run.experiment)
        units = [unit for unit in wanted_units(run, status, keys) if unit.assets != ("raw_results",)]
        paid = list(paid_metrics(run.experiment))
        free = [less for unit in units if (less := without(unit, ("coverage",)))] if paid else units
        versions = _versions(run, units, status, evidence)
        busy |= busy_units(context.instance, key_prefix)
        found = follow(free, busy, versions, seen.versions or {})
        is_sealing = any(unit.key is None for unit in found.chosen)
        if found.chosen and not is_root_free(run.root, "exclusive" if is_sealing else "shared"):
            # A command holds it and may do so for hours.
            found = Following((), (*found.chosen, *found.waiting), found.tried)
        asked = {*found.tried, *(_name(asset, unit.key) for unit in found.chosen for asset in unit.assets)}
        now = Seen(
            signature(watched),
            # What has to wait is looked at again, whether or not the evidence changes.
            "" if found.waiting else evidence,
            {name: versions[name] for name in sorted(asked)},
            started,
            time.time() - started,
        )
        return dg.SensorResult(
            run_requests=[request(unit, keys, key_prefix, trigger=SENSOR) for unit in found.chosen],
            cursor=now.render(),
            skip_reason=None if found.chosen else _why_nothing(found, paid if units != free else ()),
        )

    return sensor


def follow(units: Iterable[Unit], busy: Busy, versions: Versions, asked: Versions) -> Following:
    """Decides what to ask for; pure.

    What was asked for and is not there has failed, or someone stopped it; it is not asked for again before it would be
    made from something else.

    Args:
        units: what can be computed now, upstream first.
        busy: assets and partitions that are at work already.
        versions: what everything would be made from now.
        asked: what was asked for, by what it would have been made from then.
    """
    chosen: list[Unit] = []
    waiting: list[Unit] = []
    tried: list[str] = []
    for unit in units:
        names = {asset: _name(asset, unit.key) for asset in unit.assets}
        same = [asset for asset, name in names.items() if asked.get(name) == versions[name]]
        # What is made from one that failed was only skipped.
        tried += [names[asset] for asset in same if not set(MADE_FROM.get(asset, ())).intersection(same)]
        left = without(unit, same)
        if left is None:
            continue
        if is_busy(unit, busy) or len(chosen) >= MAX_REQUESTS:
            waiting.append(left)
        else:
            chosen.append(left)
    return Following(tuple(chosen), tuple(waiting), tuple(tried))


def _name(asset: str, key: str | None) -> str:
    return f"{asset} of {key}" if key else asset


def _versions(
    run: ExperimentRun, units: Iterable[Unit], status: Iterable[PartitionStatus], evidence: str
) -> dict[str, str]:
    """Returns what each asset and partition would be made from now; a seal is made from everything."""
    wanted = {(found.stage, found.key): found.wanted for found in status}
    everything = digest_json([evidence, run.experiment.execution_sha256, run.experiment.analysis_sha256])[:16]
    return {
        _name(asset, unit.key): everything if unit.key is None else wanted[asset, unit.key]
        for unit in units
        for asset in unit.assets
    }


def _why_nothing(found: Following, paid: Sequence[str]) -> str:
    reasons: list[str] = []
    if found.waiting:
        reasons.append(f"waits for what is at work on the evidence: {_listed([str(unit) for unit in found.waiting])}")
    if found.tried:
        reasons.append(
            f"asked for before and not done: {_listed(found.tried)}; launch it by hand, or wait until it would be made "
            "from something else"
        )
    if paid:
        reasons.append(
            f"coverage asks a model ({_listed(paid)}), which costs money: launch it by hand, or have the schedule do it"
        )
    return ". ".join(reasons) or "nothing can be computed from the results that are there and is not fresh"


def _listed(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
