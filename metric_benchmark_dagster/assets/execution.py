# SPDX-License-Identifier: Apache-2.0
"""Stage 1: the raw results of every variant, and the manifest that seals them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dagster as dg

from metric_benchmark.evidence.reader import read_case_results
from metric_benchmark.experiment import check_designs
from metric_benchmark.pipeline import run_raw_results
from metric_benchmark.pipeline.sealing import seal_execution
from metric_benchmark.pipeline.status import trials_without_verdict
from metric_benchmark_dagster.assets.shared import OWNERS, RAW_RESULTS_PROTOCOL, stage_tags
from metric_benchmark_dagster.failures import refuse_cancelled, require_verdicts
from metric_benchmark_dagster.metadata import describe_manifest, describe_raw_results, materialised
from metric_benchmark_dagster.partitions import PartitionKeys, split_key
from metric_benchmark_dagster.resources import ExperimentResource, TrialRelay

#: The pool that limits how many variants run at one time; each runs `concurrency` trials of its own.
POOL = "harbor"


class ExecutionAssets(NamedTuple):
    """The assets of stage 1."""

    raw_results: dg.AssetsDefinition
    manifest: dg.AssetsDefinition


def execution_assets(keys: PartitionKeys, key_prefix: Sequence[str], variant_inputs: dg.SourceAsset) -> ExecutionAssets:
    """Makes the assets of stage 1."""
    raw_results = _raw_results(keys, key_prefix, variant_inputs)
    return ExecutionAssets(raw_results, _execution_manifest(key_prefix, raw_results))


def _raw_results(keys: PartitionKeys, key_prefix: Sequence[str], variant_inputs: dg.SourceAsset) -> dg.AssetsDefinition:
    @dg.asset(
        key_prefix=list(key_prefix) or None,
        partitions_def=keys.variant_partitions,
        deps=[dg.AssetDep(variant_inputs, partition_mapping=keys.same_variant())],
        group_name="raw_results",
        kinds={"harbor", "json"},
        owners=OWNERS,
        tags=stage_tags("raw_results"),
        code_version=RAW_RESULTS_PROTOCOL,
        pool=POOL,
        description="**Stage 1.** Runs one variant on all tasks of its case with Harbor and classifies every trial. "
        "Trials that are paid for and still hold are kept: materialising a fresh partition again runs none.",
    )
    def raw_results(
        context: dg.AssetExecutionContext, experiment: ExperimentResource, trials: dg.ResourceParam[TrialRelay]
    ) -> dg.MaterializeResult[Any]:
        refuse_cancelled(context)
        case_id, variant_id = split_key(context.partition_key)
        with experiment.step(level="all", lock=None) as step:
            check_designs(step.run)
            done = run_raw_results(step.run, case_id, variant_id, trials.listener(context.log))
            n = done.results.n_without_verdict
            n_elsewhere = trials_without_verdict(step.run) - n if n else 0
            require_verdicts(done, step.run.experiment.execution.max_trials_without_verdict, n_elsewhere)
            path = step.run.root.config(case_id, variant_id, done.results.config_hash) / "raw-results.json"
            return materialised(path, describe_raw_results(step, done, path))

    return raw_results


def _execution_manifest(key_prefix: Sequence[str], raw_results: dg.AssetsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key_prefix=list(key_prefix) or None,
        deps=[raw_results],
        # Both seals of an experiment stand at its end; beside the raw results this one would stretch their group.
        group_name="report",
        kinds={"json"},
        owners=OWNERS,
        tags=stage_tags("raw_results"),
        code_version=RAW_RESULTS_PROTOCOL,
        description="Seals stage 1: `execution.json`, written once every variant of every case has its results and the "
        "inputs still match their pins.",
    )
    def execution_manifest(experiment: ExperimentResource) -> dg.MaterializeResult[Any]:
        with experiment.step(level="all", lock="exclusive") as step:
            manifest = seal_execution(step.run)
            results = [r for case in manifest.cases for r in read_case_results(step.run.root, manifest, case).values()]
            return materialised(step.run.root.manifest, describe_manifest(step, manifest, results))

    return execution_manifest
