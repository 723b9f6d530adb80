# SPDX-License-Identifier: Apache-2.0
"""Builds the Dagster definitions of one experiment: assets, checks, schedule, sensors, resources."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from metric_benchmark.config import load_experiment
from metric_benchmark_dagster.assets import build_assets
from metric_benchmark_dagster.automation import analysis_follows
from metric_benchmark_dagster.checks import build_checks
from metric_benchmark_dagster.hooks import Hook, failure_sensor
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.resources import ExperimentResource, TrialRelay
from metric_benchmark_dagster.schedules import Nightly, scheduled_backfill
from metric_benchmark_dagster.sensors import watch_inputs


def build_defs(
    *,
    experiment: Path | str,
    output: Path | str,
    run_id: str | None = None,
    key_prefix: Sequence[str] = (),
    retry_delay_s: float = 30,
    resources: Mapping[str, Any] | None = None,
    nightly: Nightly | None = None,
    on_failure: Hook | None = None,
) -> dg.Definitions:
    """Builds the definitions of one experiment.

    Partition keys come from the case files as they are now; pins are checked by every run, not here, so that a case in
    the making can be seen.

    Args:
        experiment: `experiment.yaml` or its folder.
        output: the evidence root.
        run_id: names the run (default: the experiment's name).
        key_prefix: before every asset's name, so that several experiments can share a workspace.
        retry_delay_s: before a failure that may pass by itself is retried.
        resources: replace those of the same name.
        nightly: when the scheduled backfill runs and what it may ask for at a time.
        on_failure: told about every failed run: a callable, its import path `module:function`, or the URL of a webhook.

    Raises:
        ConfigError: the experiment is wrong; with all problems.
    """
    loaded = load_experiment(experiment, level="analysis", verify=False)
    keys = PartitionKeys.of(loaded)
    return dg.Definitions(
        assets=build_assets(keys, key_prefix=key_prefix, experiment=loaded.name),
        asset_checks=build_checks(keys, key_prefix),
        schedules=[scheduled_backfill(keys, key_prefix, nightly or Nightly())],
        sensors=[
            analysis_follows(loaded, keys, key_prefix),
            watch_inputs(loaded, keys, key_prefix),
            *([] if on_failure is None else [failure_sensor(loaded.name, on_failure)]),
        ],
        resources={
            "experiment": ExperimentResource(
                experiment=str(loaded.source.path),
                output=str(Path(output).absolute()),
                run_id=run_id,
                retry_delay_s=retry_delay_s,
            ),
            "trials": TrialRelay(),
            **(resources or {}),
        },
        # Each run is a process of its own already; a second process for its one step would only cost time.
        executor=dg.in_process_executor,
    )
