# SPDX-License-Identifier: Apache-2.0
"""The end of an experiment: its seal and its report."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from metric_benchmark.pipeline.planning import plan_open_cases
from metric_benchmark.pipeline.sealing import seal_experiment
from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.html import write_report
from metric_benchmark_dagster.assets.shared import OWNERS, code_version, stage_tags
from metric_benchmark_dagster.metadata import describe_report, materialised
from metric_benchmark_dagster.resources import ExperimentResource


def report_asset(
    key_prefix: Sequence[str], correlation: dg.AssetsDefinition, execution_manifest: dg.AssetsDefinition
) -> dg.AssetsDefinition:
    """Makes the asset that ends an experiment."""

    @dg.asset(
        key_prefix=list(key_prefix) or None,
        deps=[correlation, execution_manifest],
        group_name="report",
        kinds={"html", "json"},
        owners=OWNERS,
        tags=stage_tags("report"),
        code_version=code_version("reporting"),
        description="Seals the experiment once everything was checked again (`experiment.json`), and writes the report "
        "for people (`report.html`).",
    )
    def report(experiment: ExperimentResource) -> dg.MaterializeResult[Any]:
        with experiment.step(lock="exclusive") as step:
            seal = seal_experiment(step.run)
            plan_open_cases(step.run, seal)
            path = write_report(step.run.root)
            data = load_report(step.run.root, cases=tuple(seal.cases))
            return materialised(step.run.root.experiment, describe_report(step, seal, data, path))

    return report
