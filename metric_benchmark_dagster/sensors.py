# SPDX-License-Identifier: Apache-2.0
"""The sensor that watches an experiment's files: observes inputs, reloads for new keys, says what is there."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg

from metric_benchmark.config import Experiment
from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster import elsewhere
from metric_benchmark_dagster.assets.inputs import case_digest
from metric_benchmark_dagster.checks import UP_TO_DATE, describe_freshness
from metric_benchmark_dagster.looks import Seen, evidence_files, experiment_files, signature
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.requests import busy_units
from metric_benchmark_dagster.resources import ExperimentResource

SENSOR = "watch_inputs"
INTERVAL_S = 15
#: Observations of one tick; each is a write to Dagster's event log.
MAX_EVENTS = 500
#: Time for the tick's events to be recorded before the server that gave them is replaced.
_RELOAD_DELAY_S = 2.0


def watch_inputs(experiment: Experiment, keys: PartitionKeys, key_prefix: Sequence[str]) -> dg.SensorDefinition:
    """Makes the sensor; it runs unless someone stops it: it reads files and costs nothing.

    Args:
        experiment: as it was when the definitions were made.
        keys: its partitions then.
        key_prefix: of its assets.
    """
    watched = experiment_files(experiment)

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=SENSOR,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks at the experiment's files: records a new version of each input that changed, loads the code "
        "location again when cases or variants come or go, says on the report what is out of date, and shows what was "
        "recorded outside Dagster.",
    )
    def sensor(context: dg.SensorEvaluationContext, experiment: ExperimentResource) -> dg.SensorResult | dg.SkipReason:
        nonlocal watched
        seen = Seen.parse(context.cursor)
        started = time.time()
        # The UI shows a check only where it is younger than what it is about.
        reported = _reported_at(context.instance, key_prefix)
        files = signature(watched)
        evidence = f"{signature(evidence_files(Path(experiment.output), keys.cases))} {reported}"
        if seen.is_enough(files, evidence, started):
            return dg.SkipReason("nothing has changed")
        try:
            run = experiment.open()
            versions = input_versions(run.experiment, keys)
            status = experiment_status(run)
            hashes = {
                key: version
                for name in versions
                if name.startswith(_VARIANTS)
                for key, version in versions[name].items()
            }
            busy = busy_units(context.instance, key_prefix)
            others = elsewhere.recorded_elsewhere(context.instance, run, status, hashes, keys, key_prefix, busy)
        except MetricBenchmarkError as error:
            told = f"the experiment cannot be loaded as it is now: {error}"
            unknown = digest_json([told, reported])[:16]
            # An edit in the making: the cursor stays but for what was told, so the next look is a full one.
            return dg.SensorResult(
                asset_events=[] if unknown == seen.freshness else [_freshness(key_prefix, False, told, {})],
                cursor=replace(seen, freshness=unknown).render(),
                skip_reason=told,
            )
        watched = experiment_files(run.experiment)
        events, known = observations(versions, seen.versions or {}, key_prefix)
        is_all = known == {name: _summary(partitions) for name, partitions in versions.items()}
        states = [[found.stage, found.key, found.state, found.reason] for found in status]
        freshness = digest_json([states, reported])[:16]
        if freshness != seen.freshness:
            events.append(_freshness(key_prefix, *describe_freshness(status)))
        events += others
        if PartitionKeys.of(run.experiment) != keys:
            context.log.info("cases or variants came or went: loading the code location again")
            reload_soon(context)
        files = signature(watched) if is_all else ""
        # The rest comes with the next looks, at the pace of changed evidence.
        evidence = evidence if len(others) < elsewhere.MAX_EVENTS else ""
        now = Seen(files, evidence, known, started, time.time() - started, freshness)
        return dg.SensorResult(asset_events=events, cursor=now.render())

    return sensor


def _freshness(
    key_prefix: Sequence[str], passed: bool, description: str, metadata: Mapping[str, Any]
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey([*key_prefix, "report"]),
        check_name=UP_TO_DATE,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=description,
        metadata=metadata,
    )


def _reported_at(instance: dg.DagsterInstance, key_prefix: Sequence[str]) -> str:
    """Returns when the report was materialised last."""
    event = instance.get_latest_materialization_event(dg.AssetKey([*key_prefix, "report"]))
    return str(event.timestamp) if event else ""


type Versions = Mapping[str, Mapping[str, str]]
#: Before the case in the names of the versions of its variants, which are their config hashes.
_VARIANTS = "variant_inputs:"


def input_versions(experiment: Experiment, keys: PartitionKeys) -> Versions:
    """Returns the data versions of both inputs: by input and case, then by partition; only keys Dagster knows."""
    versions: dict[str, dict[str, str]] = {}
    for variant in resolve_variants(experiment):
        if variant.key in keys.roles:
            versions.setdefault(f"{_VARIANTS}{variant.case_id}", {})[variant.key] = variant.config_hash
    for case in experiment.cases:
        if case.case_id in keys.cases:
            versions[f"case_inputs:{case.case_id}"] = {case.case_id: case_digest(experiment, case)}
    return versions


def observations(
    versions: Versions, seen: Mapping[str, str], key_prefix: Sequence[str]
) -> tuple[list[Any], dict[str, str]]:
    """Makes the observations of what changed, at most `MAX_EVENTS`, and says what has been observed by then."""
    events: list[Any] = []
    known: dict[str, str] = {}
    for name, partitions in versions.items():
        summary = _summary(partitions)
        is_new = seen.get(name) != summary
        if is_new and events and len(events) + len(partitions) > MAX_EVENTS:
            known |= {name: seen[name]} if name in seen else {}
            continue
        known[name] = summary
        events += _observe(name.partition(":")[0], partitions, key_prefix) if is_new else []
    return events, known


def _observe(asset: str, partitions: Mapping[str, str], key_prefix: Sequence[str]) -> Iterable[dg.AssetObservation]:
    key = dg.AssetKey([*key_prefix, asset])
    for partition, version in partitions.items():
        yield dg.AssetObservation(key, partition=partition, tags={elsewhere.DATA_VERSION_TAG: version})


def _summary(partitions: Mapping[str, str]) -> str:
    return digest_json(dict(partitions))[:16]


def reload_soon(context: dg.SensorEvaluationContext, delay_s: float = _RELOAD_DELAY_S) -> None:
    """Has the code server load the definitions again, once this tick is over; hosts notice by themselves."""
    origin: Any = context.code_location_origin
    if origin is None or not hasattr(origin, "create_client"):
        context.log.warning("this code location cannot reload itself; press Reload in the UI's Deployment page")
        return
    client = origin.create_client()
    reload: Callable[[], None] = lambda: client.reload_code(timeout=60)  # noqa: E731
    timer = threading.Timer(delay_s, reload)
    timer.daemon = True
    timer.start()
