# SPDX-License-Identifier: Apache-2.0
"""Compares two finished experiments: a new suite against an old one, or one metric against another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.limits import MAX_UNDEFINED, MIN_MUTANTS, MIN_TASKS
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import MetricCorrelation
from metric_benchmark.records.scores import MutantScores
from metric_benchmark.reporting.data import CaseReport, ReportData
from metric_benchmark.reporting.gate import suite_coverage, suite_score
from metric_benchmark.reporting.numbers import cover_matrix, kill_matrix
from metric_benchmark.reporting.paired import PairedDesign, bootstrap_difference, mcnemar_exact, tango_interval


@dataclass(frozen=True)
class Difference:
    """One quantity in both experiments.

    Attributes:
        case: id of the case.
        what: what is compared, e.g. `mutant score of the whole suite`.
        a: its value in A, None where there is none.
        b: its value in B.
        ci_low: of B - A; None without an interval.
        ci_high: of B - A.
        p_value: two-sided, of no difference.
        n: units the comparison rests on, named in `unit`.
        unit: `mutants`, `subsets`, `items` or `controls`.
        is_paired: whether the same units were seen by both sides.
        note: how the interval was made, or why there is none.
    """

    case: str
    what: str
    a: float | None
    b: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    n: int
    unit: str
    is_paired: bool
    note: str

    @property
    def estimate(self) -> float | None:
        """B - A."""
        return None if self.a is None or self.b is None else self.b - self.a


@dataclass(frozen=True)
class CaseComparison:
    """One case in both experiments; `gained` are mutants only B's suite kills, `lost` those only A's does."""

    case: str
    differences: tuple[Difference, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    verdicts: tuple[tuple[str, str, str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Two experiments side by side; `level` is that of all intervals."""

    name_a: str
    name_b: str
    level: float
    cases: tuple[CaseComparison, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def compare(
    a: ReportData,
    b: ReportData,
    rng: np.random.Generator,
    *,
    metrics: Mapping[str, str] | None = None,
    level: float = 0.95,
    replicates: int = 1000,
) -> Comparison:
    """Compares all cases that both experiments have.

    Args:
        a: the old one.
        b: the new one; the same evidence may be given twice to compare two of its metrics.
        rng: for the bootstrap of associations.
        metrics: metric of A -> metric of B it is compared with; by default every metric with itself.
        level: of two-sided intervals.
        replicates: of the bootstrap.

    Raises:
        EvidenceError: an experiment is not finished, or they have no case in common.
        ConfigError: a metric that is to be compared was not measured.
    """
    for data in (a, b):
        if not data.is_sealed:
            raise EvidenceError(f"{data.root.path}: cannot be compared. {data.completeness}")
    in_a, in_b = ({case.case_id: case for case in data.cases} for data in (a, b))
    common = [case for case in in_a if case in in_b]
    if not common:
        raise EvidenceError(
            f"{a.root.path} has the cases {', '.join(in_a)}, {b.root.path} has {', '.join(in_b)}: no case in common"
        )
    cases = [_compare_case(in_a[case], in_b[case], metrics, level, replicates, rng) for case in common]
    return Comparison(
        name_a=a.name,
        name_b=b.name,
        level=level,
        cases=tuple(cases),
        only_a=tuple(case for case in in_a if case not in in_b),
        only_b=tuple(case for case in in_b if case not in in_a),
    )


def _compare_case(
    a: CaseReport,
    b: CaseReport,
    metrics: Mapping[str, str] | None,
    level: float,
    replicates: int,
    rng: np.random.Generator,
) -> CaseComparison:
    scores_a, scores_b = _scores(a), _scores(b)
    names = _metric_pairs(a, b, metrics)
    shared = [name for name in scores_a.mutants if name in scores_b.mutants]
    by_a, by_b = ({m for m in shared if scores.mutants[m].killed_by} for scores in (scores_a, scores_b))
    found = [_suite_scores(a.case_id, scores_a, scores_b, shared, level), _false_kills(a.case_id, scores_a, scores_b)]
    found += [_suite_coverage(a, b, old, new) for old, new in names]
    found += [_association(a, b, old, new, level, replicates, rng) for old, new in names]
    return CaseComparison(
        case=a.case_id,
        differences=tuple(found),
        gained=tuple(m for m in shared if m in by_b - by_a),
        lost=tuple(m for m in shared if m in by_a - by_b),
        verdicts=tuple(
            (old, new, _metric(a, old).verdict.verdict, _metric(b, new).verdict.verdict) for old, new in names
        ),
        notes=tuple(_notes(a, b, scores_a, scores_b, shared)),
    )


def _metric_pairs(a: CaseReport, b: CaseReport, metrics: Mapping[str, str] | None) -> list[tuple[str, str]]:
    if metrics is None:
        return [(name, name) for name in a.metric_names if name in b.metric_names]
    for case, wanted in ((a, metrics.keys()), (b, metrics.values())):
        unknown = [name for name in wanted if case.correlation is None or name not in case.correlation.metrics]
        if unknown:
            raise ConfigError(
                f"case {case.case_id!r} has no metric {', '.join(unknown)}; it has: {', '.join(case.metric_names)}"
            )
    return list(metrics.items())


def _suite_scores(case: str, a: MutantScores, b: MutantScores, shared: list[str], level: float) -> Difference:
    """The unit is the mutant: would other mutants of this kind be caught more often by B's suite?"""
    what = "mutant score of the whole suite"
    if not shared:
        note = "no mutant in common, so nothing is paired"
        return Difference(case, what, suite_score(a), suite_score(b), None, None, None, 0, "mutants", False, note)
    killed = [(bool(a.mutants[m].killed_by), bool(b.mutants[m].killed_by)) for m in shared]
    only_b, only_a = killed.count((False, True)), killed.count((True, False))
    low, high = tango_interval(only_b, only_a, len(shared), level)
    return Difference(
        case, what, sum(x for x, _ in killed) / len(shared), sum(y for _, y in killed) / len(shared), low, high,
        mcnemar_exact(only_b, only_a), len(shared), "mutants", True,
        "mutants both have; Tango's score interval, exact McNemar test",
    )  # fmt: skip


def _false_kills(case: str, a: MutantScores, b: MutantScores) -> Difference:
    rates = [scores.noise.suite for scores in (a, b)]
    old, new = (rate.rate if rate else None for rate in rates)
    n = min((rate.n_controls for rate in rates if rate), default=0)
    note = "too few controls for an interval of the difference"
    return Difference(
        case, "false-kill rate of the whole suite", old, new, None, None, None, n, "controls", False, note
    )


def _suite_coverage(a: CaseReport, b: CaseReport, old: str, new: str) -> Difference:
    values: list[float | None] = []
    n_items = 0
    for case, metric in ((a, old), (b, new)):
        measured = case.coverage.metrics[metric] if case.coverage else None
        values.append(suite_coverage(measured, _scores(case).eligible_tasks) if measured else None)
        n_items = len(measured.items) if measured else 0
    note = "all items were looked at, so there is nothing to infer"
    what = f"coverage of the whole suite: {_named(old, new)}"
    return Difference(a.case_id, what, values[0], values[1], None, None, None, n_items, "items", old == new, note)


def _association(
    a: CaseReport, b: CaseReport, old: str, new: str, level: float, replicates: int, rng: np.random.Generator
) -> Difference:
    what = f"association beyond size: {_named(old, new)}"
    first, second = _metric(a, old), _metric(b, new)
    x, y = _effect(first), _effect(second)
    n = min(first.n_subsets, second.n_subsets)
    if x is None or y is None:
        return Difference(
            a.case_id, what, x, y, None, None, None, n, "subsets", False, "undefined on one side at least"
        )
    design = _paired_design(a, b, old, new)
    if design is None:
        return _unpaired(a.case_id, what, first, second, level)
    raw, deviation, n_defined = bootstrap_difference(design, rng, replicates)
    if not (math.isfinite(raw) and deviation > 0):
        note = "the two never differ when tasks and mutants are redrawn" if deviation == 0 else "undefined when redrawn"
        return Difference(a.case_id, what, x, y, None, None, None, n, "subsets", True, note)
    n_tasks, n_mutants = design.kills[0].shape
    is_rough = n_tasks < MIN_TASKS or n_mutants < MIN_MUTANTS or n_defined < (1 - MAX_UNDEFINED) * replicates
    note = f"same subsets; two-way bootstrap over {n_tasks} tasks and {n_mutants} mutants, {n_defined} replicates"
    low, high, p = _normal(y - x, deviation, level)
    return Difference(
        a.case_id, what, x, y, low, high, p, n, "subsets", True, note + ("; approximate" if is_rough else "")
    )


def _unpaired(case: str, what: str, first: MetricCorrelation, second: MetricCorrelation, level: float) -> Difference:
    """Different tasks, mutants or subsets: the two bootstrap errors add up as if the runs were independent."""
    x, y = _effect(first), _effect(second)
    n = min(first.n_subsets, second.n_subsets)
    errors = [
        found.interval.stderr_z * (1 - found.estimates.partial_spearman_given_size.value**2)
        for found in (first, second)
        if found.interval and not isinstance(found.estimates.partial_spearman_given_size, Undefined)
    ]
    if x is None or y is None or len(errors) < 2:
        return Difference(case, what, x, y, None, None, None, n, "subsets", False, "no interval on one side at least")
    low, high, p = _normal(y - x, math.hypot(*errors), level)
    note = "tasks, mutants or subsets differ: intervals combined as if the two were independent"
    return Difference(case, what, x, y, low, high, p, n, "subsets", False, note)


def _normal(difference: float, deviation: float, level: float) -> tuple[float, float, float]:
    z = NormalDist().inv_cdf((1 + level) / 2)
    p = 2 * (1 - NormalDist().cdf(abs(difference) / deviation))
    return max(-2.0, difference - z * deviation), min(2.0, difference + z * deviation), p


def _effect(found: MetricCorrelation) -> float | None:
    """Returns the calibrated estimate, or the plain one where nothing was calibrated."""
    if found.calibrated is not None:
        return found.calibrated.estimate
    value = found.estimates.partial_spearman_given_size
    return None if isinstance(value, Undefined) else value.value


def _paired_design(a: CaseReport, b: CaseReport, old: str, new: str) -> PairedDesign | None:
    """Returns the matrices of both sides, or None unless tasks, mutants and subsets are the same."""
    scores_a, scores_b = _scores(a), _scores(b)
    tasks, mutants = scores_a.eligible_tasks, list(scores_a.mutants)
    measured = [case.coverage.metrics[m] if case.coverage else None for case, m in ((a, old), (b, new))]
    same = tasks == scores_b.eligible_tasks and set(mutants) == set(scores_b.mutants)
    if not same or a.subset_tasks != b.subset_tasks or any(m is None or m.kind == "opaque" for m in measured):
        return None
    if any(set(tasks) - set(m.tasks) for m in measured if m is not None):
        return None
    place = {task: i for i, task in enumerate(tasks)}
    membership = np.zeros((len(scores_a.subsets), len(tasks)), dtype=bool)
    for row, name in enumerate(scores_a.subsets):
        membership[row, [place[task] for task in a.subset_tasks[name] if task in place]] = True
    columns = [list(scores_b.mutants).index(name) for name in mutants]
    covers = [cover_matrix(tasks, m.items, m.tasks) for m in measured if m is not None]
    return PairedDesign(
        membership, (kill_matrix(scores_a)[0], kill_matrix(scores_b)[0][:, columns]), (covers[0], covers[1])
    )


def _notes(
    a: CaseReport, b: CaseReport, scores_a: MutantScores, scores_b: MutantScores, shared: list[str]
) -> list[str]:
    notes: list[str] = []
    if len(shared) < max(len(scores_a.mutants), len(scores_b.mutants)):
        n_a, n_b = len(scores_a.mutants) - len(shared), len(scores_b.mutants) - len(shared)
        notes.append(f"{len(shared)} mutants in common; {n_a} only in A, {n_b} only in B")
    tasks_a, tasks_b = set(scores_a.eligible_tasks), set(scores_b.eligible_tasks)
    if tasks_a != tasks_b:
        notes.append(
            f"{len(tasks_a & tasks_b)} eligible tasks in common; {len(tasks_a - tasks_b)} only in A, "
            f"{len(tasks_b - tasks_a)} only in B"
        )
    operators = [m for m in shared if scores_a.mutants[m].operator != scores_b.mutants[m].operator]
    if operators:
        notes.append(f"of one name but another operator, so not the same mutant: {', '.join(operators)}")
    if a.subset_tasks != b.subset_tasks:
        notes.append("the subsets differ")
    if scores_a.rule != scores_b.rule:
        notes.append(f"the kill rules differ: {scores_a.rule.name} and {scores_b.rule.name}, or their settings")
    return notes


def _scores(case: CaseReport) -> MutantScores:
    if case.scores is None:
        raise EvidenceError(f"case {case.case_id!r}: has no mutant scores; run `metric-benchmark score`")
    return case.scores


def _metric(case: CaseReport, name: str) -> MetricCorrelation:
    if case.correlation is None or name not in case.correlation.metrics:
        raise EvidenceError(f"case {case.case_id!r}: has no correlation of {name!r}; run `metric-benchmark correlate`")
    return case.correlation.metrics[name]


def _named(old: str, new: str) -> str:
    return old if old == new else f"{old} against {new}"
