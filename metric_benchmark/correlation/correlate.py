# SPDX-License-Identifier: Apache-2.0
"""Stage 4 of one case: pair coverage with mutant scores, estimate their association, give a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from metric_benchmark.config.models import CorrelationConfig
from metric_benchmark.correlation.estimators import estimate_all
from metric_benchmark.correlation.pairing import (
    CaseArrays,
    MetricArrays,
    case_arrays,
    make_pairs,
    metric_arrays,
)
from metric_benchmark.errors import ConfigError
from metric_benchmark.records.correlation import Correlation, MetricCorrelation, MetricCoverage, Verdict
from metric_benchmark.records.scores import MutantScores

ChosenUsing = Literal["none", "coverage", "kills", "both"]


def correlate(
    scores: MutantScores,
    coverage: Mapping[str, MetricCoverage | Mapping[str, Any]],
    subsets: Mapping[str, Sequence[str]],
    settings: CorrelationConfig,
    rng: np.random.Generator,
    *,
    chosen_using: ChosenUsing = "none",
    case: str | None = None,
) -> Correlation:
    """Correlates each metric's coverage with the mutant score over a case's subsets.

    Args:
        scores: the stage-2 record.
        coverage: by metric, the metric's part of the coverage record (a `MetricCoverage` or what validates as
            one).
        subsets: task ids by subset, as frozen for the case.
        settings: replicates, seed and pre-registered hypotheses.
        rng: the only source of randomness.
        chosen_using: what was looked at when the subsets were chosen.
        case: the case's id, for the record.

    Raises:
        ConfigError: a hypothesis names a metric that was not measured.
        EvidenceError: the subsets are not those that were scored.
    """
    unknown = sorted({h.metric for h in settings.hypotheses} - set(coverage))
    if unknown:
        raise ConfigError(
            f"hypotheses name {', '.join(map(repr, unknown))}, but coverage holds "
            f"{', '.join(map(repr, coverage))}; "
            "correct `correlation.hypotheses` or `coverage` in analysis.yaml"
        )
    arrays = case_arrays(scores, {name: list(tasks) for name, tasks in subsets.items()})
    n_ineligible = len(scores.eligibility.ineligible)
    metrics = {
        name: metric_arrays(arrays, MetricCoverage.model_validate(given), n_ineligible=n_ineligible)
        for name, given in coverage.items()
    }
    return Correlation(
        case=case,
        n_subsets=len(arrays.subsets),
        n_tasks=len(arrays.tasks),
        n_mutants=scores.n_mutants,
        n_dominators=scores.n_dominators,
        seed=settings.seed,
        replicates=settings.replicates,
        chosen_using=chosen_using,
        pairs=make_pairs(arrays, metrics),
        metrics={name: _metric(arrays, found) for name, found in metrics.items()},
        warnings=list(scores.warnings),
    )


def _metric(case: CaseArrays, metric: MetricArrays) -> MetricCorrelation:
    estimates = estimate_all(metric.coverage, case.score[metric.rows], case.size[metric.rows])
    sizes = case.size[metric.rows]
    one_size = len(sizes) == 0 or bool(np.all(sizes == sizes[0]))
    return MetricCorrelation(
        kind="items" if metric.kind == "items" else "opaque",
        n_subsets=len(metric.rows),
        left_out=metric.left_out,
        notes=list(metric.notes),
        estimates=estimates,
        primary="spearman" if one_size else "partial_spearman_given_size",
        verdict=Verdict(verdict="not_tested", reason="inference is not part of this version yet"),
    )
