# SPDX-License-Identifier: Apache-2.0
"""What a Dagster host loads: `defs`, made by `build_defs` from the experiment the environment names."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from metric_benchmark.config import load_experiment
from metric_benchmark_dagster.assets import build_assets
from metric_benchmark_dagster.home import (
    DEFAULT_EXPERIMENT,
    DEFAULT_OUTPUT,
    EXPERIMENT_VARIABLE,
    OUTPUT_VARIABLE,
    RUN_ID_VARIABLE,
)
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.resources import ExperimentResource, TrialRelay


def build_defs(
    *,
    experiment: Path | str,
    output: Path | str,
    run_id: str | None = None,
    key_prefix: Sequence[str] = (),
    retry_delay_s: float = 30,
    resources: Mapping[str, Any] | None = None,
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

    Raises:
        ConfigError: the experiment is wrong; with all problems.
    """
    loaded = load_experiment(experiment, level="analysis", verify=False)
    keys = PartitionKeys.of(loaded)
    return dg.Definitions(
        assets=build_assets(keys, key_prefix=key_prefix),
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


defs = build_defs(
    experiment=os.environ.get(EXPERIMENT_VARIABLE) or DEFAULT_EXPERIMENT,
    output=os.environ.get(OUTPUT_VARIABLE) or DEFAULT_OUTPUT,
    run_id=os.environ.get(RUN_ID_VARIABLE) or None,
)
