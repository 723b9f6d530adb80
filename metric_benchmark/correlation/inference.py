# SPDX-License-Identifier: Apache-2.0
"""Inference on one metric of one case: which test and interval apply, their records, and what bars a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.correlation.bootstrap import (
    CLIP,
    Bootstrap,
    Redraw,
    mutant_bootstrap,
    task_value_bootstrap,
    two_way_bootstrap,
)
from metric_benchmark.correlation.pairing import CaseArrays, MetricArrays
from metric_benchmark.correlation.permutation import (
    Permutations,
    task_permutation_test,
    task_value_test,
    which_items_test,
)
from metric_benchmark.correlation.practical import estimate_practical_value
from metric_benchmark.correlation.replicates import RankStatistic
from metric_benchmark.limits import (
    CHOSEN_USING_BOTH,
    FEW_DOMINATORS,
    FEW_MUTANTS,
    FEW_TASKS,
    MANY_UNDEFINED,
    MAX_UNDEFINED,
    MIN_DOMINATORS,
    MIN_MUTANTS,
    MIN_TASKS,
    NO_DEVIATION,
    NO_PERMUTATION,
    OPAQUE,
    TOO_CLOSE_TO_ONE,
)
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import (
    Calibrated,
    ChosenUsing,
    Direction,
    Estimates,
    Interval,
    PermutationTest,
    PracticalValue,
)


@dataclass(frozen=True)
class InferenceSettings:
    """How inference is done: replicates, seed, how the subsets were chosen, attempts to draw again, processes."""

    n_replicates: int
    seed: int
    chosen_using: ChosenUsing = "none"
    redraw: Redraw | None = None
    processes: int = 1


@dataclass(frozen=True)
class RedrawOf:
    """Draws kills from resampled attempts on the tasks a metric measured; a class, so that processes can share it."""

    redraw: Redraw
    tasks: NDArray[np.bool_]

    def __call__(self, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Returns one redrawn kill matrix of those tasks."""
        return self.redraw(rng)[self.tasks]


@dataclass(frozen=True)
class Inference:
    """What was inferred about one metric; `p_value` is one-sided in the asked direction, `None` without a test."""

    p_value: float | None
    test: PermutationTest | None
    which_items: PermutationTest | None
    interval: Interval | None
    calibrated: Calibrated | None
    practical: PracticalValue | None
    limits: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())


def infer(
    case: CaseArrays,
    metric: MetricArrays,
    estimates: Estimates,
    settings: InferenceSettings,
    *,
    n_dominators: int,
    direction: Direction,
    level: float,
) -> Inference:
    """Runs the test and the interval that this metric and these subsets allow.

    Args:
        case: the case's arrays.
        metric: the metric's arrays.
        estimates: of this metric, for the reason why the primary one is undefined.
        settings: replicates, seed, how subsets were chosen.
        n_dominators: distinct minimal faults of the case.
        direction: of the hypothesis, `greater` where there is none.
        level: of the interval.
    """
    primary = RankStatistic.given(case.size[metric.rows]).name
    by_task_value = metric.kind == "opaque" and metric.task_values is not None
    value = getattr(estimates, primary)
    undefined = value.reason if isinstance(value, Undefined) and not by_task_value else None
    limits: list[str] = []
    if n_dominators < MIN_DOMINATORS:
        limits.append(FEW_DOMINATORS)
    permutations, which, boot = _compute(case, metric, settings, is_undefined=undefined is not None)
    if settings.chosen_using == "both":
        limits.append(CHOSEN_USING_BOTH)
    elif metric.kind == "opaque" and not by_task_value:
        limits.append(OPAQUE)
    elif permutations is not None and math.isnan(permutations.observed):
        limits.append("constant_coverage" if _is_constant(metric) else "constant_mutation_score")
    interval, interval_limits = _interval(boot, level, n_tasks=_n_tasks(case, metric), n_mutants=case.kills.shape[1])
    limits += interval_limits
    calibrated = None
    if interval and permutations is not None:
        if math.isnan(permutations.null_mean):
            limits.append(NO_PERMUTATION)
        else:
            calibrated = calibrate(permutations, interval)
    test = _test_record(permutations, direction)
    return Inference(
        p_value=test.p_value if test else None,
        test=test,
        which_items=_test_record(which, direction),
        interval=interval,
        calibrated=calibrated,
        practical=_practical(case, metric, settings.seed),
        limits=(undefined,) if undefined else tuple(dict.fromkeys(limits)),
        notes=_notes(metric, by_task_value),
    )


def calibrate(permutations: Permutations, interval: Interval) -> Calibrated:
    """Subtracts what unrelated coverage gives, the mean of the permutation replicates; ends stay within +-1."""
    null = permutations.null_mean
    return Calibrated(
        estimate=permutations.observed - null,
        low=max(interval.low - null, -1.0),
        high=min(interval.high - null, 1.0),
        null_mean=null,
    )


def _compute(
    case: CaseArrays, metric: MetricArrays, settings: InferenceSettings, *, is_undefined: bool
) -> tuple[Permutations | None, Permutations | None, Bootstrap | None]:
    n, seed = settings.n_replicates, settings.seed
    if metric.kind == "opaque":
        if metric.task_values is not None:
            values = metric.task_values
            permutations = (
                task_value_test(case.kills, values, seed=seed, n_replicates=n)
                if settings.chosen_using != "both"
                else None
            )
            return permutations, None, task_value_bootstrap(case.kills, values, seed=seed, n_replicates=n)
        if is_undefined or not len(metric.rows):
            return None, None, None
        boot = mutant_bootstrap(case.membership[metric.rows], case.kills, metric.coverage, seed=seed, n_replicates=n)
        return None, None, boot
    if is_undefined or metric.cover is None:
        return None, None, None
    known = metric.measured
    matrices = (case.membership[metric.rows][:, known], case.kills[known], metric.cover[known])
    permutations = which = None
    if settings.chosen_using != "both":
        # Subsets chosen by their coverage carry the cover matrix in their very membership: then kills must
        # move.
        permuted: Literal["coverage", "kills"] = "kills" if settings.chosen_using == "coverage" else "coverage"
        permutations, which = (
            test(*matrices, seed=seed, n_replicates=n, permuted=permuted, processes=settings.processes)
            for test in (task_permutation_test, which_items_test)
        )
    redraw = RedrawOf(settings.redraw, known) if settings.redraw is not None else None
    boot = two_way_bootstrap(*matrices, seed=seed, n_replicates=n, redraw=redraw, processes=settings.processes)
    return permutations, which, boot


def _interval(
    boot: Bootstrap | None, level: float, *, n_tasks: int, n_mutants: int
) -> tuple[Interval | None, list[str]]:
    if boot is None or math.isnan(boot.observed):
        return None, []
    reasons: list[str] = []
    if n_tasks < MIN_TASKS and boot.resampled != "mutants":
        reasons.append(FEW_TASKS)
    if n_mutants < MIN_MUTANTS:
        reasons.append(FEW_MUTANTS)
    if boot.n_undefined > MAX_UNDEFINED * len(boot.replicates):
        reasons.append(MANY_UNDEFINED)
    if abs(boot.observed) >= CLIP:
        return None, [*reasons, TOO_CLOSE_TO_ONE]
    if not boot.stderr_z > 0:  # NaN as well
        return None, [*reasons, NO_DEVIATION]
    low, high = boot.interval(level)
    interval = Interval(
        low=low,
        high=high,
        level=level,
        stderr_z=boot.stderr_z,
        approximate=bool(reasons),
        n_replicates=len(boot.replicates),
        n_undefined=boot.n_undefined,
        resampled=boot.resampled,
        reasons=reasons,
    )
    return interval, reasons


def _n_tasks(case: CaseArrays, metric: MetricArrays) -> int:
    return int(metric.measured.sum()) if metric.kind == "items" else len(case.tasks)


def _test_record(found: Permutations | None, direction: Direction) -> PermutationTest | None:
    if found is None or math.isnan(found.observed):
        return None
    return PermutationTest(
        statistic=found.observed,
        p_value=found.p_value(direction),
        n_permutations=len(found.replicates),
        exact=found.exact,
        statistic_name=found.statistic_name,
        direction=direction,
        permuted=found.permuted,
        null_mean=None if math.isnan(found.null_mean) else found.null_mean,
        n_undefined=found.n_undefined,
    )


def _practical(case: CaseArrays, metric: MetricArrays, seed: int) -> PracticalValue | None:
    if len(metric.rows) < 2:
        return None
    return estimate_practical_value(case.membership[metric.rows], case.kills, metric.coverage, seed=seed)


def _is_constant(metric: MetricArrays) -> bool:
    values = metric.task_values if metric.task_values is not None else metric.coverage
    return len(np.unique(values)) < 2


def _notes(metric: MetricArrays, by_task_value: bool) -> tuple[str, ...]:
    if by_task_value:
        return (
            "the metric is opaque: test and interval are of its values on single tasks, the estimates of its "
            "values on "
            "subsets",
        )
    if metric.kind == "opaque":
        return ("the metric is opaque: no test, and the interval only redraws mutants",)
    return ()
