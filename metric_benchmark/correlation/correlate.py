# SPDX-License-Identifier: Apache-2.0
"""Stage 4 of one case: pair coverage with mutant scores, estimate their association, give a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from metric_benchmark.config.models import CorrelationConfig, HypothesisConfig
from metric_benchmark.correlation.bootstrap import Redraw
from metric_benchmark.correlation.estimators import estimate_all
from metric_benchmark.correlation.inference import Inference, InferenceSettings, infer
from metric_benchmark.correlation.pairing import (
    NO_ITEMS,
    CaseArrays,
    MetricArrays,
    case_arrays,
    make_pairs,
    metric_arrays,
)
from metric_benchmark.correlation.replicates import RankStatistic
from metric_benchmark.correlation.verdicts import adjust_family, blocked, decide, not_tested
from metric_benchmark.errors import ConfigError
from metric_benchmark.multiplicity import P_TOLERANCE, adjust_bh
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import (
    ChosenUsing,
    Correlation,
    CoverageInput,
    Estimates,
    MetricCorrelation,
    Registration,
    Verdict,
)
from metric_benchmark.records.scores import MutantScores

#: Where no hypothesis says otherwise: one-sided level of tests, two-sided level of intervals.
DEFAULT_ALPHA = 0.05


def correlate(
    scores: MutantScores,
    coverage: Mapping[str, BaseModel | Mapping[str, Any]],
    subsets: Mapping[str, Sequence[str]],
    settings: CorrelationConfig,
    rng: np.random.Generator,
    *,
    chosen_using: ChosenUsing = "none",
    case: str | None = None,
    n_cases: int = 1,
    registration: Registration = "unknown",
    registration_changes: Sequence[str] = (),
    redraw: Redraw | None = None,
    processes: int = 1,
) -> Correlation:
    """Correlates each metric's coverage with the mutant score over a case's subsets.

    Args:
        scores: the stage-2 record.
        coverage: by metric, the metric's part of the coverage record.
        subsets: task ids by subset, as frozen for the case.
        settings: replicates, seed and pre-registered hypotheses.
        rng: the only source of randomness. One number is drawn from it; all metrics share the streams made
            from that, so that a metric's result does not depend on which others there are.
        chosen_using: what was looked at when the subsets were chosen.
        case: the case's id, for the record.
        n_cases: cases of the experiment; the family of claims is all hypotheses times all cases.
        registration: whether the hypotheses were on record before the data.
        registration_changes: what is another than was registered, in words.
        redraw: draws the kills again from resampled attempts, for intervals that include the attempts' noise.
        processes: worker processes; the result does not depend on it.

    Raises:
        ConfigError: a hypothesis names a metric that was not measured, or two name the same.
        EvidenceError: the subsets are not those that were scored.
    """
    hypotheses = _by_metric(settings.hypotheses, coverage)
    arrays = case_arrays(scores, {name: list(tasks) for name, tasks in subsets.items()})
    metrics = {
        name: metric_arrays(arrays, _input(given), n_ineligible=len(scores.eligibility.ineligible))
        for name, given in coverage.items()
    }
    estimates = {name: _estimates(arrays, found) for name, found in metrics.items()}
    how = InferenceSettings(settings.replicates, int(rng.integers(2**63)), chosen_using, redraw, processes)
    inferred = {
        name: infer(
            arrays,
            found,
            estimates[name],
            how,
            n_dominators=scores.n_dominators,
            direction=hypotheses[name].direction if name in hypotheses else "greater",
            level=1 - 2 * (hypotheses[name].alpha if name in hypotheses else DEFAULT_ALPHA),
        )
        for name, found in metrics.items()
    }
    verdicts = _verdicts(scores, inferred, hypotheses, len(settings.hypotheses) * n_cases)
    exploratory = {} if scores.noise.is_blocking else _exploratory(inferred, hypotheses)
    return Correlation(
        case=case,
        n_subsets=len(arrays.subsets),
        n_tasks=len(arrays.tasks),
        n_mutants=scores.n_mutants,
        n_dominators=scores.n_dominators,
        seed=settings.seed,
        replicates=settings.replicates,
        chosen_using=chosen_using,
        registration=registration,
        registration_changes=list(registration_changes),
        blocked=scores.noise.reason if scores.noise.is_blocking else None,
        pairs=make_pairs(arrays, metrics),
        metrics={
            name: _metric(arrays, found, estimates[name], inferred[name], verdicts[name], exploratory.get(name))
            for name, found in metrics.items()
        },
        warnings=_warnings(scores, registration, registration_changes),
    )


def _by_metric(hypotheses: Sequence[HypothesisConfig], coverage: Mapping[str, object]) -> dict[str, HypothesisConfig]:
    unknown = sorted({h.metric for h in hypotheses} - set(coverage))
    if unknown:
        raise ConfigError(
            f"hypotheses name {', '.join(map(repr, unknown))}, but coverage holds "
            f"{', '.join(map(repr, coverage))}; correct `correlation.hypotheses` or `coverage` in "
            "analysis.yaml"
        )
    found = {h.metric: h for h in hypotheses}
    if len(found) < len(hypotheses):
        raise ConfigError("`correlation.hypotheses` names a metric twice; register one hypothesis per metric")
    return found


def _input(given: BaseModel | Mapping[str, Any]) -> CoverageInput:
    return CoverageInput.model_validate(given.model_dump() if isinstance(given, BaseModel) else given)


def _estimates(case: CaseArrays, metric: MetricArrays) -> Estimates:
    if NO_ITEMS in metric.left_out.values() and not len(metric.rows):
        undefined = Undefined(reason=NO_ITEMS)
        return Estimates.model_validate(dict.fromkeys(Estimates.model_fields, undefined))
    return estimate_all(metric.coverage, case.score[metric.rows], case.size[metric.rows])


def _verdicts(
    scores: MutantScores,
    inferred: Mapping[str, Inference],
    hypotheses: Mapping[str, HypothesisConfig],
    n_family: int,
) -> dict[str, Verdict]:
    if scores.noise.is_blocking:
        return {
            name: blocked(
                scores.noise.reason,
                direction=claim.direction,
                minimum_effect=claim.minimum_effect,
                alpha=claim.alpha,
                n_family=n_family,
            )
            if (claim := hypotheses.get(name))
            else blocked(scores.noise.reason)
            for name in inferred
        }
    # A claim that could not be tested keeps its place in the family with p = 1.
    tested = [name for name in hypotheses if inferred[name].p_value is not None]
    adjusted = dict(
        zip(tested, adjust_family([inferred[name].p_value or 0.0 for name in tested], n_family), strict=True)
    )
    verdicts: dict[str, Verdict] = {}
    for name, found in inferred.items():
        claim = hypotheses.get(name)
        if claim is None:
            verdicts[name] = not_tested("no hypothesis was registered for this metric")
            continue
        verdicts[name] = decide(
            found.calibrated,
            adjusted.get(name),
            direction=claim.direction,
            minimum_effect=claim.minimum_effect,
            alpha=claim.alpha,
            limits=found.limits,
            n_family=n_family,
        )
    return verdicts


def _exploratory(inferred: Mapping[str, Inference], hypotheses: Mapping[str, HypothesisConfig]) -> dict[str, float]:
    rest = {name: f.p_value for name, f in inferred.items() if name not in hypotheses and f.p_value is not None}
    return dict(zip(rest, adjust_bh(list(rest.values())).tolist(), strict=True))


def _metric(
    case: CaseArrays,
    metric: MetricArrays,
    estimates: Estimates,
    found: Inference,
    verdict: Verdict,
    p_exploratory: float | None,
) -> MetricCorrelation:
    alpha = verdict.alpha or DEFAULT_ALPHA
    finding = None
    if found.which_items is not None:
        is_small = found.which_items.p_value <= alpha + P_TOLERANCE
        finding = "which items" if is_small else "not separable from volume"
    return MetricCorrelation(
        kind="items" if metric.kind == "items" else "opaque",
        n_subsets=len(metric.rows),
        n_tasks=int(metric.measured.sum()) if metric.kind == "items" else len(case.tasks),
        left_out=metric.left_out,
        notes=[*metric.notes, *found.notes],
        estimates=estimates,
        primary=RankStatistic.given(case.size[metric.rows]).name,
        test=found.test,
        which_items=found.which_items,
        finding=finding,
        interval=found.interval,
        calibrated=found.calibrated,
        practical=found.practical,
        p_exploratory=p_exploratory,
        limits=list(found.limits),
        verdict=verdict,
    )


def _warnings(scores: MutantScores, registration: Registration, changes: Sequence[str]) -> list[str]:
    warnings = list(scores.warnings)
    if scores.noise.status == "not_assessable":
        warnings.append(scores.noise.reason)
    if registration == "after_data":
        what = f" ({', '.join(changes)})" if changes else ""
        warnings.append(f"hypotheses were changed after the data: exploratory{what}")
    return warnings
