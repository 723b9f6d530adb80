# SPDX-License-Identifier: Apache-2.0
"""Stages 2 to 4: kills and mutant scores, coverage, correlation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dagster as dg

from metric_benchmark.pipeline import correlate_case, measure_case, score_subsets, score_variant
from metric_benchmark_dagster.assets.shared import OWNERS, code_version, stage_tags
from metric_benchmark_dagster.metadata import (
    describe_correlation,
    describe_coverage,
    describe_kills,
    describe_scores,
    materialised,
)
from metric_benchmark_dagster.partitions import PartitionKeys, split_key
from metric_benchmark_dagster.resources import ExperimentResource


class AnalysisAssets(NamedTuple):
    """The assets of stages 2 to 4."""

    mutant_scores: dg.AssetsDefinition
    subset_scores: dg.AssetsDefinition
    coverage: dg.AssetsDefinition
    correlation: dg.AssetsDefinition


def analysis_assets(
    keys: PartitionKeys, key_prefix: Sequence[str], case_inputs: dg.SourceAsset, raw_results: dg.AssetsDefinition
) -> AnalysisAssets:
    """Makes the assets of stages 2 to 4."""
    prefix = list(key_prefix) or None
    cases = keys.case_partitions

    @dg.asset(
        key_prefix=prefix,
        partitions_def=keys.scored_partitions,
        deps=[dg.AssetDep(raw_results, partition_mapping=keys.results_to_kills())],
        group_name="mutant_scores",
        kinds={"python", "json"},
        owners=OWNERS,
        tags=stage_tags("mutant_scores"),
        code_version=code_version("scoring"),
        description="**Stage 2.** The kills of one mutant or control: which tasks tell it from the baseline.",
    )
    def mutant_scores(context: dg.AssetExecutionContext, experiment: ExperimentResource) -> dg.MaterializeResult[Any]:
        case_id, variant_id = split_key(context.partition_key)
        with experiment.step(only=case_id) as step:
            kills = score_variant(step.run, case_id, variant_id)
            path = step.run.root.mutant_kills(case_id, variant_id)
            return materialised(path, describe_kills(step, kills, path))

    @dg.asset(
        key_prefix=prefix,
        partitions_def=cases,
        deps=[dg.AssetDep(mutant_scores, partition_mapping=keys.kills_to_case())],
        group_name="mutant_scores",
        kinds={"python", "json"},
        owners=OWNERS,
        tags=stage_tags("mutant_scores"),
        code_version=code_version("scoring"),
        description="**Stage 2.** A case's kill matrix with its dominators and duplicates, and each subset's mutant "
        "score: the share of the mutants that at least one of its tasks kills.",
    )
    def subset_scores(context: dg.AssetExecutionContext, experiment: ExperimentResource) -> dg.MaterializeResult[Any]:
        with experiment.step(only=context.partition_key) as step:
            scores = score_subsets(step.run, context.partition_key)
            path = step.run.root.mutant_scores(context.partition_key)
            return materialised(path, describe_scores(step, scores, path))

    @dg.asset(
        key_prefix=prefix,
        partitions_def=cases,
        deps=[
            dg.AssetDep(raw_results, partition_mapping=keys.baseline_to_case()),
            dg.AssetDep(case_inputs, partition_mapping=keys.same_case()),
        ],
        group_name="coverage",
        kinds={"python", "json"},
        owners=OWNERS,
        tags=stage_tags("coverage"),
        code_version=code_version("coverage"),
        description="**Stage 3.** What the baseline's traces exercise, by every configured metric, and each subset's "
        "coverage: the share of the items that at least one of its tasks covers.",
    )
    def coverage(context: dg.AssetExecutionContext, experiment: ExperimentResource) -> dg.MaterializeResult[Any]:
        with experiment.step() as step:
            record = measure_case(step.run, context.partition_key)
            path = step.run.root.coverage(context.partition_key)
            return materialised(path, describe_coverage(step, record, path))

    @dg.asset(
        key_prefix=prefix,
        partitions_def=cases,
        deps=[
            dg.AssetDep(subset_scores, partition_mapping=keys.same_case()),
            dg.AssetDep(coverage, partition_mapping=keys.same_case()),
            dg.AssetDep(case_inputs, partition_mapping=keys.same_case()),
        ],
        group_name="correlation",
        kinds={"scipy", "json"},
        owners=OWNERS,
        tags=stage_tags("correlation"),
        code_version=code_version("correlation"),
        description="**Stage 4.** Pairs each subset's coverage with its mutant score, estimates their association and "
        "gives a verdict per metric.",
    )
    def correlation(context: dg.AssetExecutionContext, experiment: ExperimentResource) -> dg.MaterializeResult[Any]:
        with experiment.step() as step:
            record = correlate_case(step.run, context.partition_key)
            path = step.run.root.correlation(context.partition_key)
            return materialised(path, describe_correlation(step, record, path))

    return AnalysisAssets(mutant_scores, subset_scores, coverage, correlation)
