# SPDX-License-Identifier: Apache-2.0
"""What an experiment says as a whole, made from the records of all its cases when it is sealed."""

from __future__ import annotations

from collections.abc import Mapping

from metric_benchmark.correlation import CaseEvidence, conclude, pool_metrics
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.pipeline.correlation import find_redraw
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.records.analysis import CaseSeal, FrozenSubsets
from metric_benchmark.records.correlation import Conclusion, Correlation, PooledEstimate
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.scores import MutantScores


def conclude_cases(correlations: Mapping[str, Correlation]) -> dict[str, CaseSeal]:
    """Returns the final verdicts of all cases; their claims are one family."""
    return {
        case: CaseSeal(
            conclusions={
                name: Conclusion(verdict=metric.verdict, p_exploratory=metric.p_exploratory)
                for name, metric in record.metrics.items()
            },
        )
        for case, record in conclude(correlations).items()
    }


def pool_cases(run: ExperimentRun, correlations: Mapping[str, Correlation]) -> dict[str, PooledEstimate]:
    """Pools each metric over the cases, whose other records lie in the evidence root."""
    return pool_metrics({case: _evidence(run, case, record) for case, record in correlations.items()})


def _evidence(run: ExperimentRun, case: str, record: Correlation) -> CaseEvidence:
    root = run.root
    scores = read_record(root.mutant_scores(case), MutantScores)
    return CaseEvidence(
        scores=scores,
        coverage=read_record(root.coverage(case), CoverageRecord).metrics,
        subsets=read_record(root.analysis(case) / "subsets.json", FrozenSubsets).subsets,
        correlation=record,
        redraw=find_redraw(run, case, scores),
    )
