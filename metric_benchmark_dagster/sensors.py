# SPDX-License-Identifier: Apache-2.0
"""The sensor that watches an experiment's files: observes inputs, reloads for new keys, says what is there."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from metric_benchmark.config import Experiment
from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster import elsewhere
from metric_benchmark_dagster.assets.inputs import case_digest
from metric_benchmark_dagster.checks import UP_TO_DATE, describe_freshness
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.requests import busy_units
from metric_benchmark_dagster.resources import ExperimentResource

SENSOR = "watch_inputs"
INTERVAL_S = 15
#: Code of an agent's package can change without any file of the experiment changing.
FULL_LOOK_S = 600
#: Evidence changes all the time while trials run; it is looked at this often at most, and takes 5% of the time at most.
EVIDENCE_PAUSE_S, EVIDENCE_SHARE = 45.0, 0.05
#: Observations of one tick; each is a write to Dagster's event log.
MAX_EVENTS = 500
#: Time for the tick's events to be recorded before the server that gave them is replaced.
_RELOAD_DELAY_S = 2.0


@dataclass(frozen=True)
class Seen:
    """What the last look saw, and how long it took; the sensor's cursor."""

    files: str = ""
    evidence: str = ""
    versions: Mapping[str, str] | None = None
    looked_at: float = 0.0
    took_s: float = 0.0
    freshness: str = ""

    @classmethod
    def parse(cls, cursor: str | None) -> "Seen":
        """Reads a cursor; one of another form counts as none."""
        try:
            value: dict[str, Any] = json.loads(cursor or "{}")
            return cls(**value)
        except (ValueError, TypeError):
            return cls()

    def is_enough(self, files: str, evidence: str, now: float, *, pause_s: float | None = None) -> bool:
        """Whether there is no need to look again; evidence that changed can wait for a pause."""
        age = now - self.looked_at
        if files != self.files or age >= FULL_LOOK_S:
            return False
        return evidence == self.evidence or age < max(
            EVIDENCE_PAUSE_S if pause_s is None else pause_s, self.took_s / EVIDENCE_SHARE
        )

    def render(self) -> str:
        """Writes the cursor."""
        return json.dumps(asdict(self))


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
            # An edit in the making: the cursor stays, so the next look is a full one.
            return dg.SkipReason(f"the experiment cannot be loaded as it is now: {error}")
        watched = experiment_files(run.experiment)
        events, known = observations(versions, seen.versions or {}, key_prefix)
        is_all = known == {name: _summary(partitions) for name, partitions in versions.items()}
        states = [[found.stage, found.key, found.state, found.reason] for found in status]
        freshness = digest_json([states, reported])[:16]
        if freshness != seen.freshness:
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


def experiment_files(experiment: Experiment) -> tuple[Path, ...]:
    """Returns the files an experiment is made of, without tasks and bundles, whose pins are in them."""
    sources = (
        experiment.source,
        experiment.cases_source,
        experiment.execution_source,
        experiment.analysis_source,
        *(case.source for case in experiment.cases),
    )
    named = [case.path_of(item) for case in experiment.cases for item in (case.config.subsets, case.config.description)]
    return (*(source.path for source in sources), *named)


def evidence_files(output: Path, cases: Iterable[str]) -> Iterator[Path]:
    """Yields what changes with every result: indices, the folders of records, the seal."""
    root = EvidenceRoot(output)
    for case_id in cases:
        analysis = root.analysis(case_id)
        yield from (root.index(case_id), analysis, analysis / "mutants")
    yield root.experiment


def signature(files: Iterable[Path]) -> str:
    """Digests names, sizes and times of files and folders; reads none."""
    found: list[str] = []
    for path in files:
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append(f"{path}:{stat.st_size}:{stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


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
