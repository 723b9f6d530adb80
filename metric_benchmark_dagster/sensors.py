# SPDX-License-Identifier: Apache-2.0
"""The sensor that watches an experiment's files: observes inputs, reloads for new keys, says what is out of date."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from metric_benchmark.config import Experiment
from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster.assets.inputs import case_digest
from metric_benchmark_dagster.checks import UP_TO_DATE, describe_freshness
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.resources import ExperimentResource

SENSOR = "watch_inputs"
INTERVAL_S = 15
#: Code of an agent's package can change without any file of the experiment changing.
FULL_LOOK_S = 600
#: Observations of one tick; each is a write to Dagster's event log.
MAX_EVENTS = 500
#: Dagster's own tag of an observed version.
_VERSION_TAG = "dagster/data_version"
#: Time for the tick's events to be recorded before the server that gave them is replaced.
_RELOAD_DELAY_S = 2.0


@dataclass(frozen=True)
class Seen:
    """What the last look saw; the sensor's cursor."""

    files: str = ""
    versions: Mapping[str, str] | None = None
    looked_at: float = 0.0

    @classmethod
    def parse(cls, cursor: str | None) -> "Seen":
        """Reads a cursor; one of another form counts as none."""
        try:
            value: dict[str, Any] = json.loads(cursor or "{}")
            return cls(**value)
        except (ValueError, TypeError):
            return cls()

    def render(self) -> str:
        """Writes the cursor."""
        return json.dumps({"files": self.files, "versions": self.versions, "looked_at": self.looked_at})


def watch_inputs(keys: PartitionKeys, key_prefix: Sequence[str]) -> dg.SensorDefinition:
    """Makes the sensor; it runs unless someone stops it: it reads files and costs nothing."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=SENSOR,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks at the experiment's files: records a new version of each input that changed, loads the code "
        "location again when cases or variants come or go, and says on the report what is out of date.",
    )
    def sensor(context: dg.SensorEvaluationContext, experiment: ExperimentResource) -> dg.SensorResult | dg.SkipReason:
        seen = Seen.parse(context.cursor)
        files = signature(Path(experiment.experiment))
        if files == seen.files and time.time() - seen.looked_at < FULL_LOOK_S:
            return dg.SkipReason("no file of the experiment has changed")
        try:
            run = experiment.open()
            versions = input_versions(run.experiment, keys)
            status = experiment_status(run)
        except MetricBenchmarkError as error:
            # An edit in the making: the cursor stays, so the next look is a full one.
            return dg.SkipReason(f"the experiment cannot be loaded as it is now: {error}")
        events, known = observations(versions, seen.versions or {}, key_prefix)
        is_all = len(known) == len(versions) and known == {name: _summary(v) for name, v in versions.items()}
        passed, description, metadata = describe_freshness(status)
        events.append(
            dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey([*key_prefix, "report"]),
                check_name=UP_TO_DATE,
                passed=passed,
                severity=dg.AssetCheckSeverity.WARN,
                description=description,
                metadata=metadata,
            )
        )
        if PartitionKeys.of(run.experiment) != keys:
            context.log.info("cases or variants came or went: loading the code location again")
            reload_soon(context)
        now = Seen(files if is_all else "", known, time.time())
        return dg.SensorResult(asset_events=events, cursor=now.render())

    return sensor


def signature(experiment: Path) -> str:
    """Digests names, sizes and times of all YAML files in an experiment's folder; reads none."""
    found: list[str] = []
    for path in sorted(experiment.parent.rglob("*.yaml")):
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append(f"{path}:{stat.st_size}:{stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


type Versions = Mapping[str, Mapping[str, str]]


def input_versions(experiment: Experiment, keys: PartitionKeys) -> Versions:
    """Returns the data versions of both inputs: by input and case, then by partition; only keys Dagster knows."""
    versions: dict[str, dict[str, str]] = {}
    for variant in resolve_variants(experiment):
        if variant.key in keys.roles:
            versions.setdefault(f"variant_inputs:{variant.case_id}", {})[variant.key] = variant.config_hash
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
        yield dg.AssetObservation(key, partition=partition, tags={_VERSION_TAG: version})


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
