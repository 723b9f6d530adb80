# SPDX-License-Identifier: Apache-2.0
"""One thin asset per stage output; each module holds the assets of one or two stages."""

import warnings
from collections.abc import Sequence
from typing import Any

import dagster as dg

from metric_benchmark.webserver import EXPERIMENT_TAG
from metric_benchmark_dagster.assets.analysis import analysis_assets
from metric_benchmark_dagster.assets.execution import execution_assets
from metric_benchmark_dagster.assets.inputs import input_assets
from metric_benchmark_dagster.assets.report import report_asset
from metric_benchmark_dagster.columns import BY_ASSET, schema
from metric_benchmark_dagster.partitions import PartitionKeys

#: The assets `build_assets` makes, upstream first.
ASSETS = (
    "variant_inputs", "case_inputs", "raw_results", "execution_manifest", "mutant_scores", "subset_scores", "coverage",
    "correlation", "report",
)  # fmt: skip


def build_assets(keys: PartitionKeys, *, key_prefix: Sequence[str] = (), experiment: str = "") -> Sequence[Any]:
    """Makes the asset graph of an experiment.

    Args:
        keys: the experiment's partition keys.
        key_prefix: before every asset's name, so that several experiments can share a workspace.
        experiment: its name, by which the launch command finds its assets.
    """
    inputs = input_assets(keys, key_prefix)
    execution = execution_assets(keys, key_prefix, inputs.variants)
    analysis = analysis_assets(keys, key_prefix, inputs.cases, execution.raw_results)
    report = report_asset(key_prefix, analysis.correlation, execution.manifest)
    tags = {EXPERIMENT_TAG: experiment} if experiment else {}

    def complete(spec: dg.AssetSpec) -> dg.AssetSpec:
        columns = schema(BY_ASSET[spec.key.path[-1]])
        return spec.replace_attributes(  # pyright: ignore[reportUnknownMemberType]
            metadata={**spec.metadata, "dagster/column_schema": columns},
            tags={**spec.tags, **tags},
        )

    made = [asset.map_asset_specs(complete) for asset in (*execution, *analysis, report)]
    with warnings.catch_warnings():
        # Code references are marked beta.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.with_source_code_references([*inputs, *made])
