# SPDX-License-Identifier: Apache-2.0
"""The four stages on an evidence root: each module reads evidence, computes one stage's output, writes its record."""

from metric_benchmark.pipeline.correlation import correlate_case
from metric_benchmark.pipeline.coverage import measure_case
from metric_benchmark.pipeline.inputs import CaseInputs, ExperimentRun, freeze_inputs
from metric_benchmark.pipeline.mutant_scores import score_subsets, score_variant
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.pipeline.raw_results import run_raw_results

__all__ = [
    "CaseInputs",
    "ExperimentRun",
    "correlate_case",
    "freeze_inputs",
    "implementation",
    "measure_case",
    "run_raw_results",
    "score_subsets",
    "score_variant",
]
