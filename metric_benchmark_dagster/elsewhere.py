# SPDX-License-Identifier: Apache-2.0
"""Tells Dagster of results that the command line or Python recorded, so that its UI shows what is there."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import dagster as dg

from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.status import PartitionStatus, is_sealed
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster.partitions import PartitionKeys, split_key
from metric_benchmark_dagster.requests import Busy

#: Materialisations that one look reports; each is a write to Dagster's event log.
MAX_EVENTS = 200
_VERSION_TAG = "dagster/data_version"


def recorded_elsewhere(
    instance: dg.DagsterInstance,
    run: ExperimentRun,
    status: Sequence[PartitionStatus],
    keys: PartitionKeys,
    key_prefix: Sequence[str],
    busy: Busy,
) -> list[dg.AssetMaterialization]:
    """Returns materialisations of what is fresh in the evidence and was never materialised in this instance.

    The next look has the rest where `MAX_EVENTS` or more come of this one.

    Args:
        instance: Dagster's.
        run: the experiment and its evidence.
        status: of the evidence.
        keys: the partitions the code location knows.
        key_prefix: of its assets.
        busy: assets and partitions that runs are at work on; those report for themselves.
    """
    config_hashes = {variant.key: variant.config_hash for variant in resolve_variants(run.experiment)}
    known = {*keys.roles, *keys.cases}
    places = [(found.stage, found.key) for found in status if found.state == "fresh" and found.key in known]
    todo = _unknown(instance, places, key_prefix)
    found: Iterator[tuple[str, str | None, Path]] = (
        (asset, key, _record(run, asset, key, config_hashes.get(key, ""))) for asset, key in todo
    )
    events = [
        _materialisation(asset, key, path, key_prefix)
        for asset, key, path in islice((one for one in found if one[:2] not in busy and one[2].is_file()), MAX_EVENTS)
    ]
    if len(events) < MAX_EVENTS and not busy and is_sealed(run, status):
        ends = {"execution_manifest": run.root.manifest, "report": run.root.experiment}
        events += [
            _materialisation(asset, None, path, key_prefix)
            for asset, path in ends.items()
            if path.is_file() and instance.get_latest_materialization_event(dg.AssetKey([*key_prefix, asset])) is None
        ]
    return events


def _unknown(
    instance: dg.DagsterInstance, places: Iterable[tuple[str, str]], key_prefix: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yields the partitions that the instance has no materialisation of."""
    materialised: dict[str, set[str]] = {}
    for asset, key in places:
        if asset not in materialised:
            materialised[asset] = instance.get_materialized_partitions(dg.AssetKey([*key_prefix, asset]))
        if key not in materialised[asset]:
            yield asset, key


def _record(run: ExperimentRun, asset: str, key: str, config_hash: str) -> Path:
    root = run.root
    if asset == "raw_results":
        return root.config(*split_key(key), config_hash) / "raw-results.json"
    if asset == "mutant_scores":
        return root.mutant_kills(*split_key(key))
    return {"subset_scores": root.mutant_scores, "coverage": root.coverage, "correlation": root.correlation}[asset](key)


def _materialisation(asset: str, key: str | None, path: Path, key_prefix: Sequence[str]) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        dg.AssetKey([*key_prefix, asset]),
        description="Recorded outside this Dagster instance; materialise it to see its tables and plots.",
        metadata={"evidence": dg.PathMetadataValue(str(path))},
        partition=key,
        tags={_VERSION_TAG: digest_file(path)},
    )
