# SPDX-License-Identifier: Apache-2.0
"""One thin asset per stage output; each module holds the assets of one or two stages."""

from collections.abc import Sequence

import dagster as dg

from metric_benchmark_dagster.assets.analysis import analysis_assets
from metric_benchmark_dagster.assets.execution import execution_assets
from metric_benchmark_dagster.assets.inputs import input_assets
from metric_benchmark_dagster.assets.report import report_asset
from metric_benchmark_dagster.partitions import PartitionKeys

#: The assets `build_assets` makes, upstream first.
ASSETS = (
    "variant_inputs", "case_inputs", "raw_results", "execution_manifest", "mutant_scores", "subset_scores", "coverage",
    "correlation", "report",
)  # fmt: skip


def build_assets(keys: PartitionKeys, *, key_prefix: Sequence[str] = ()) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """Makes the asset graph of an experiment.

    Args:
        keys: the experiment's partition keys.
        key_prefix: before every asset's name, so that several experiments can share a workspace.
    """
    inputs = input_assets(keys, key_prefix)
    execution = execution_assets(keys, key_prefix, inputs.variants)
    analysis = analysis_assets(keys, key_prefix, inputs.cases, execution.raw_results)
    report = report_asset(key_prefix, analysis.correlation, execution.manifest)
    return [*inputs, *execution, *analysis, report]
