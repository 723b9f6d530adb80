# SPDX-License-Identifier: Apache-2.0
"""Materialises the small experiment to its end in Dagster runs, in this process; what the fault injection kills."""

from __future__ import annotations

import warnings
from pathlib import Path

from harness import VARIANTS


def materialise(experiment: str, output: str) -> int:
    """Runs every asset that leads to the report; returns an exit status."""
    warnings.simplefilter("ignore")
    import dagster as dg

    from metric_benchmark_dagster.definitions import build_defs

    job = build_defs(
        experiment=Path(experiment), output=Path(output), retry_delay_s=0
    ).resolve_implicit_global_asset_job_def()
    wanted: list[tuple[tuple[str, ...], str | None]] = [
        *((("raw_results",), f"tiny|{variant}") for variant in VARIANTS),
        (("mutant_scores",), "tiny|idle"),
        (("subset_scores", "coverage", "correlation"), "tiny"),
        (("execution_manifest", "report"), None),
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        for assets, key in wanted:
            done = job.execute_in_process(
                asset_selection=[dg.AssetKey(asset) for asset in assets],
                partition_key=key,
                instance=instance,
                raise_on_error=False,
            )
            if not done.success:
                return 1
    return 0
