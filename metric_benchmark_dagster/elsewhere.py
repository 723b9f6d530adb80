# SPDX-License-Identifier: Apache-2.0
"""Tells Dagster of fresh results that no run of it reported as they are, so that its UI shows what is there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import dagster as dg

from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.status import PartitionStatus, is_sealed
from metric_benchmark_dagster.partitions import PartitionKeys, split_key
from metric_benchmark_dagster.requests import Busy

#: Materialisations that one look reports; each is a write to Dagster's event log.
MAX_EVENTS = 200
#: Dagster's own tag of a version.
DATA_VERSION_TAG = "dagster/data_version"


def recorded_elsewhere(
    instance: dg.DagsterInstance,
    run: ExperimentRun,
    status: Sequence[PartitionStatus],
    config_hashes: Mapping[str, str],
    keys: PartitionKeys,
    key_prefix: Sequence[str],
    busy: Busy,
) -> list[dg.AssetMaterialization]:
    """Returns materialisations of what is fresh in the evidence and is not what this instance knows last.

    The next look has the rest where `MAX_EVENTS` or more come of this one.

    Args:
        instance: Dagster's.
        run: the experiment and its evidence.
        status: of the evidence.
        config_hashes: of the variants that Dagster knows, by key.
        keys: the partitions the code location knows.
        key_prefix: of its assets.
        busy: assets and partitions that runs are at work on; those report for themselves.
    """
    known = {*config_hashes, *keys.cases}
    fresh = [(found.stage, found.key) for found in status if found.state == "fresh" and found.key in known]
    records: list[tuple[str, str | None, Path]] = [
        (asset, key, _record(run, asset, key, config_hashes.get(key, ""))) for asset, key in fresh
    ]
    if not busy and is_sealed(run, status):
        records += [("execution_manifest", None, run.root.manifest), ("report", None, run.root.experiment)]
    return list(islice(_unknown(instance, (one for one in records if one[:2] not in busy), key_prefix), MAX_EVENTS))


def _unknown(
    instance: dg.DagsterInstance, records: Iterable[tuple[str, str | None, Path]], key_prefix: Sequence[str]
) -> Iterator[dg.AssetMaterialization]:
    """Yields the materialisations of records whose digest is not the version that the instance knows last."""
    versions: dict[str, Mapping[str | None, str]] = {}
    for asset, key, path in records:
        asset_key = dg.AssetKey([*key_prefix, asset])
        if asset not in versions:
            versions[asset] = _versions(instance, asset_key, is_partitioned=key is not None)
        try:
            version = digest_file(path)
        except OSError:
            # It was just set aside; what comes instead is looked at when it is there.
            continue
        if versions[asset].get(key) != version:
            yield dg.AssetMaterialization(
                asset_key,
                description="Found in the evidence; no run of this Dagster instance reported it as it is. Materialise "
                "it to see its tables and plots.",
                metadata={"evidence": dg.PathMetadataValue(str(path))},
                partition=key,
                tags={DATA_VERSION_TAG: version},
            )


def _versions(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, *, is_partitioned: bool
) -> Mapping[str | None, str]:
    """Returns the versions of what was materialised last, by partition."""
    if not is_partitioned:
        event = instance.get_latest_materialization_event(asset_key)
        last = event.asset_materialization if event else None
        return {None: (last.tags or {}).get(DATA_VERSION_TAG, "")} if last else {}
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        asset_key, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
    )
    return {key: found.get(DATA_VERSION_TAG, "") for key, found in tags.items()}


def _record(run: ExperimentRun, asset: str, key: str, config_hash: str) -> Path:
    root = run.root
    if asset == "raw_results":
        return root.config(*split_key(key), config_hash) / "raw-results.json"
    if asset == "mutant_scores":
        return root.mutant_kills(*split_key(key))
    return {"subset_scores": root.mutant_scores, "coverage": root.coverage, "correlation": root.correlation}[asset](key)
