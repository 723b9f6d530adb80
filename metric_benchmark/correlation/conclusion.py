# SPDX-License-Identifier: Apache-2.0
"""What an experiment says as a whole: claims of all cases adjusted together, and each metric pooled over cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from metric_benchmark.correlation.bootstrap import Redraw
from metric_benchmark.correlation.correlate import DEFAULT_ALPHA
from metric_benchmark.correlation.inference import RedrawOf
from metric_benchmark.correlation.pairing import case_arrays, metric_arrays
from metric_benchmark.correlation.pooling import MIN_CASES, CaseMatrices, effect_at_equal_mutants, pool_cases
from metric_benchmark.correlation.verdicts import adjust_family, decide
from metric_benchmark.errors import ConfigError
from metric_benchmark.limits import FEW_MUTANTS, MIN_MUTANTS, NO_PERMUTATION, OPAQUE
from metric_benchmark.multiplicity import adjust_bh
from metric_benchmark.records.correlation import (
    CaseEffect,
    Correlation,
    CoverageInput,
    MetricCorrelation,
    PooledEstimate,
    Verdict,
)
from metric_benchmark.records.scores import MutantScores


@dataclass(frozen=True)
class CaseEvidence:
    """The records of one case that pooling needs: stage 2, stage 3 by metric, the frozen subsets, stage 4.

    `redraw` draws its kills again from resampled attempts, where its own intervals include the attempts' noise.
    """

    scores: MutantScores
    coverage: Mapping[str, BaseModel | Mapping[str, Any]]
    subsets: Mapping[str, Sequence[str]]
    correlation: Correlation
    redraw: Redraw | None = None


def conclude(records: Mapping[str, Correlation]) -> dict[str, Correlation]:
    """Adjusts the claims of all cases of an experiment together and decides them anew.

    Registered claims are adjusted by Holm, all other metrics by Benjamini and Hochberg. One case alone cannot know the
    others' p-values and counts them as 1; this can only make a verdict on a registered claim firmer. A claim that could
    not be tested, or whose case is blocked, keeps its place in the family with p = 1; what was not claimed of a blocked
    case has no part in any.

    Args:
        records: by case, the records of *all* cases of one experiment.
    """
    claims = [
        (case, name, metric)
        for case, record in records.items()
        for name, metric in record.metrics.items()
        if metric.verdict.minimum_effect is not None
    ]
    n_family = len(claims)
    tested = [
        (case, name, metric)
        for case, name, metric in claims
        if metric.test is not None and records[case].blocked is None
    ]
    adjusted = adjust_family([metric.test.p_value for _, _, metric in tested if metric.test], n_family)
    decided: dict[tuple[str, str], Verdict] = {}
    for (case, name, metric), p in zip(tested, adjusted, strict=True):
        old = metric.verdict
        decided[case, name] = decide(
            metric.calibrated,
            p,
            direction=old.direction or "greater",
            minimum_effect=old.minimum_effect or 0.0,
            alpha=old.alpha or DEFAULT_ALPHA,
            limits=metric.limits,
            n_family=n_family,
        )
    exploratory = _adjust_exploratory(records)
    return {
        case: record.model_copy(
            update={
                "metrics": {
                    name: metric.model_copy(
                        update={
                            "verdict": decided.get((case, name), metric.verdict),
                            "p_exploratory": exploratory.get((case, name), metric.p_exploratory),
                        }
                    )
                    for name, metric in record.metrics.items()
                }
            }
        )
        for case, record in records.items()
    }


def _adjust_exploratory(records: Mapping[str, Correlation]) -> dict[tuple[str, str], float]:
    p_values = {
        (case, name): metric.test.p_value
        for case, record in records.items()
        if record.blocked is None
        for name, metric in record.metrics.items()
        if metric.p_exploratory is not None and metric.test is not None
    }
    return dict(zip(p_values, adjust_bh(list(p_values.values())).tolist(), strict=True))


def pool_metrics(cases: Mapping[str, CaseEvidence]) -> dict[str, PooledEstimate]:
    """Pools each metric's association over the cases; with fewer than three that can be pooled they are listed.

    A case with more mutants than the smallest is brought to that number, as the association grows with it. A case
    whose kills are noise, or in which there is no test, no interval or no permutation with a value, is left out, with
    the reason.

    Args:
        cases: the records of all cases.
    """
    names = dict.fromkeys(name for case in cases.values() for name in case.correlation.metrics)
    return {name: _pool(name, cases) for name in names}


def _pool(name: str, cases: Mapping[str, CaseEvidence]) -> PooledEstimate:
    effects: dict[str, CaseEffect] = {}
    left_out: dict[str, str] = {}
    for case, evidence in cases.items():
        found = _effect(evidence.correlation, evidence.correlation.metrics.get(name))
        if isinstance(found, str):
            left_out[case] = found
        else:
            effects[case] = found
    least = min((effect.n_mutants for effect in effects.values()), default=0)
    if len(effects) >= MIN_CASES:
        for case, effect in list(effects.items()):
            if effect.n_mutants > least:
                try:
                    effects[case] = _at_fewer_mutants(name, cases[case], least)
                except ConfigError:
                    del effects[case]
                    left_out[case] = f"no association is defined with {least} of its mutants"
    pooled = pool_cases(effects)
    limits = {case: cases[case].correlation.metrics[name].limits for case in effects}
    return pooled.model_copy(
        update={"left_out": {**left_out, **pooled.left_out}, "notes": _notes(limits, pooled.n_mutants)}
    )


def _notes(limits: Mapping[str, Sequence[str]], n_mutants: int | None) -> list[str]:
    """Says what bars a verdict on the cases, each by itself; once pooled, too few mutants concern all of them at once.

    Args:
        limits: by case.
        n_mutants: with how many mutants all cases were pooled; None where they are only listed.
    """
    of_all = () if n_mutants is None else (FEW_MUTANTS,)
    notes = [
        f"{case}: {'; '.join(rest)}"
        for case, found in limits.items()
        if (rest := [t for t in found if t not in of_all])
    ]
    if n_mutants is not None and n_mutants < MIN_MUTANTS:
        notes.insert(0, f"all cases are taken with {n_mutants} mutants ({FEW_MUTANTS}), so the interval is approximate")
    return notes


def _effect(record: Correlation, metric: MetricCorrelation | None) -> CaseEffect | str:
    """Returns a case's association as its record has it, or why it has none that can be pooled."""
    if metric is None:
        return "not measured"
    if record.blocked is not None:
        return "kills are noise"
    if metric.kind == "opaque":
        return OPAQUE
    if metric.test is None or metric.interval is None:
        return "; ".join(metric.limits) or "no test or no interval"
    if metric.test.null_mean is None:
        return NO_PERMUTATION
    return CaseEffect(
        estimate=metric.test.statistic,
        stderr_z=metric.interval.stderr_z,
        n_mutants=record.n_mutants,
        null_mean=metric.test.null_mean,
    )


def _at_fewer_mutants(name: str, case: CaseEvidence, n_mutants: int) -> CaseEffect:
    given = case.coverage[name]
    coverage = CoverageInput.model_validate(given.model_dump() if isinstance(given, BaseModel) else given)
    arrays = case_arrays(case.scores, {subset: list(tasks) for subset, tasks in case.subsets.items()})
    metric = metric_arrays(arrays, coverage, n_ineligible=len(case.scores.eligibility.ineligible))
    if metric.cover is None:
        raise ConfigError(f"pooling: metric {name!r} has no items")
    known = metric.measured
    matrices = CaseMatrices(arrays.membership[metric.rows][:, known], arrays.kills[known], metric.cover[known])
    test = case.correlation.metrics[name].test
    return effect_at_equal_mutants(
        matrices,
        n_mutants,
        seed=case.correlation.seed,
        permuted="kills" if test is not None and test.permuted == "kills" else "coverage",
        redraw=RedrawOf(case.redraw, known) if case.redraw is not None else None,
    )
