# SPDX-License-Identifier: Apache-2.0
"""The record of stage 4, and the part of a coverage record that stage 4 reads."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import field_validator

from metric_benchmark.records.base import Defined, Number, Record, Shape, Undefined

VerdictWord = Literal["supported", "refuted", "inconclusive", "blocked", "not_tested"]
Direction = Literal["greater", "less"]
#: What was looked at when the subsets were chosen.
ChosenUsing = Literal["none", "coverage", "kills", "both"]
#: Whether the hypotheses, and how they are judged, were on record before the first trial of a mutant.
Registration = Literal["before_data", "after_data", "unknown"]


class SubsetCoverage(Shape):
    """Coverage of one subset, `Undefined` where the metric could not say."""

    coverage: float | Undefined

    @field_validator("coverage", mode="before")
    @classmethod
    def _unwrap(cls, value: Any) -> Any:
        if isinstance(value, Defined):
            return value.value
        if isinstance(value, dict):
            given: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return given.get("value") if given.get("status") == "ok" else given
        return Undefined(reason="not_measured") if value is None else value


class CoverageInput(Shape):
    """One metric of `coverage.json` as stage 4 reads it; validates from that part of the record.

    An `items` metric has its cover matrix in `tasks`; an `opaque` one has a value per subset only, and in
    `task_coverage` one per task where it was measured on single tasks, too.
    """

    kind: Literal["items", "opaque"]
    items: list[str] = []
    tasks: dict[str, list[str]] = {}
    subsets: dict[str, SubsetCoverage]
    task_coverage: dict[str, float] = {}
    unmeasured_tasks: list[str] = []


class Pair(Shape):
    """One subset: its eligible size, its mutant score and its coverage by metric."""

    subset: str
    size: int
    mutant_score: float
    coverage: dict[str, float | Undefined]


class Estimates(Shape):
    """Association of coverage and mutant score over subsets, described in `correlation.estimators`."""

    pearson: Number
    spearman: Number
    kendall_tau_b: Number
    kendall_tau_c: Number
    somers_d: Number
    goodman_kruskal_gamma: Number
    partial_spearman_given_size: Number


class PermutationTest(Shape):
    """Task permutation test; `p_value` is one-sided in the hypothesis' direction, else `greater`.

    `permuted` is the matrix whose rows were dealt out anew; `statistic_name` the estimator it was made with.
    """

    statistic: float
    p_value: float
    n_permutations: int
    exact: bool
    statistic_name: str
    direction: Direction
    permuted: Literal["coverage", "kills", "task_values"]
    null_mean: float | None = None
    n_undefined: int = 0


class Interval(Shape):
    """Two-way bootstrap interval of the same statistic, on its own scale."""

    low: float
    high: float
    level: float
    stderr_z: float
    approximate: bool
    n_replicates: int
    n_undefined: int
    resampled: Literal["tasks_and_mutants", "mutants", "tasks_mutants_and_attempts"]
    reasons: list[str] = []


class Calibrated(Shape):
    """Estimate and interval ends minus the mean of the permutation replicates."""

    estimate: float
    low: float
    high: float
    null_mean: float


class Verdict(Shape):
    """The verdict in one word, the reason in a few, an explanation for everyone, and what would change it.

    `p_adjusted` is Holm's over the `n_family` pre-registered claims of the experiment; where other cases were
    not at hand their p-values count as 1, which can only make it larger. Intervals are per metric and not
    adjusted. `minimum_effect` is there wherever something was claimed, also where the verdict is `blocked`.
    """

    verdict: VerdictWord
    reason: str
    explanation: str = ""
    remedy: str = ""
    minimum_shown: bool | None = None
    p_adjusted: float | None = None
    direction: Direction | None = None
    minimum_effect: float | None = None
    alpha: float | None = None
    n_family: int | None = None


class Conclusion(Shape):
    """What the experiment as a whole says about one metric of one case: adjusted over the claims of all its cases.

    The verdict of `correlation.json` counts the other cases' p-values as 1; this one knows them.
    """

    verdict: Verdict
    p_exploratory: float | None = None


class SizeConcordance(Shape):
    """Pairs of subsets of one size: does the one with more coverage also have the higher mutant score?

    `concordance` is (concordant - discordant) / (concordant + discordant), `agreement` the share of
    concordant pairs.
    """

    concordance: Number
    agreement: Number
    n_pairs: int
    n_tied: int


class PracticalValue(Shape):
    """What knowing coverage is worth for choosing a suite (secondary, descriptive)."""

    within_size: SizeConcordance
    agreement: Number
    n_agreement_pairs: int
    heldout_r2_gain: Number
    top_decile_gain: Number
    n_top_decile: int


class MetricCorrelation(Shape):
    """All that stage 4 says about one metric.

    `finding` says whether *which* items matter could be told from how many. `limits` lists what bars any
    verdict but `inconclusive`. `p_exploratory` is Benjamini-Hochberg's over the metrics without a registered
    hypothesis, except those of cases whose kills are noise.
    """

    kind: Literal["items", "opaque"]
    n_subsets: int
    n_tasks: int
    left_out: dict[str, str] = {}
    notes: list[str] = []
    estimates: Estimates
    primary: str
    test: PermutationTest | None = None
    which_items: PermutationTest | None = None
    finding: Literal["which items", "not separable from volume"] | None = None
    interval: Interval | None = None
    calibrated: Calibrated | None = None
    practical: PracticalValue | None = None
    p_exploratory: float | None = None
    limits: list[str] = []
    verdict: Verdict


class Correlation(Record):
    """`analysis/<case>/correlation.json`."""

    SCHEMA: ClassVar[str] = "metric-benchmark/correlation/v1"

    case: str | None = None
    n_subsets: int
    n_tasks: int
    n_mutants: int
    n_dominators: int
    seed: int
    replicates: int
    chosen_using: ChosenUsing
    registration: Registration = "unknown"
    registration_changes: list[str] = []
    blocked: str | None = None
    pairs: list[Pair]
    metrics: dict[str, MetricCorrelation]
    warnings: list[str] = []


class CaseEffect(Shape):
    """One case's association, ready to be pooled."""

    estimate: float
    stderr_z: float
    n_mutants: int
    null_mean: float = 0.0


class PooledEstimate(Shape):
    """Association over several cases; the numbers are `None` where `reason` says why cases are only listed.

    `left_out` says why a case has no part in it, `notes` what must be known about those that have. `p_value` is
    two-sided, of `estimate` against `null_mean`, and adjusted for nothing.
    """

    n_cases: int
    level: float
    cases: dict[str, CaseEffect]
    left_out: dict[str, str] = {}
    notes: list[str] = []
    reason: str | None = None
    n_mutants: int | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    prediction_low: float | None = None
    prediction_high: float | None = None
    tau: float | None = None
    stderr_z: float | None = None
    null_mean: float | None = None
    p_value: float | None = None


class PowerPoint(Shape):
    """Power of one design at one true link, by simulation: the share of experiments whose claim is supported.

    `effect` is the mean calibrated estimate such an experiment sees, `stderr` the simulation error of `power`.
    """

    link: float
    effect: float | None
    power: float
    stderr: float
    p_refuted: float | None = None
    n_simulations: int
    n_trials: int


class PowerOption(Shape):
    """One way to enlarge a design: what changes, what it costs, and the power it reaches at the planned link.

    Of a claim that stayed open, `power` is the share of experiments that settle it.
    """

    change: str
    n_tasks: int
    n_mutants: int
    n_subsets: int
    n_baseline: int
    n_mutant: int
    n_trials: int
    extra_trials: int
    power: float
    stderr: float


class PowerPlan(Shape):
    """What an experiment can show before it is paid for: how often the strictest of its claims is supported.

    Claims are decided at `alpha` with `minimum_effect`, 0 where nothing is claimed, as one of `n_family`. The size of
    the design is that of the case, in tasks, mutants, subsets and attempts. `smallest_effect` is the association found
    with 80% power, `None` where even the strongest simulated link is missed more often. `options` are single changes,
    sorted by power gained per extra trial, then combinations of them where no single one suffices; `advice` names the
    cheapest that does.
    """

    seed: int
    target_power: float
    alpha: float
    planned_link: float
    curve: list[PowerPoint]
    smallest_effect: float | None
    options: list[PowerOption]
    advice: str
    notes: list[str] = []
    n_tasks: int | None = None
    n_mutants: int | None = None
    n_subsets: int | None = None
    n_baseline: int | None = None
    n_mutant: int | None = None
    minimum_effect: float = 0.0
    n_family: int = 1


class Settling(Shape):
    """What would settle a claim that stayed open: the share of experiments that support or refute it, by their size.

    They are simulated where an experiment of this size sees the association `effect` that was estimated, in the claim's
    direction; at the strongest link where none could be.
    """

    effect: float | None
    minimum_effect: float
    share: float
    stderr: float
    options: list[PowerOption]
    advice: str


class PowerPlans(Record):
    """`power.json`: what the design of each case could show, by simulation; no evidence, and no part of the seal.

    `settling` has, by case and metric, the claims that stayed open and that more data could settle. `inputs` holds, by
    case and by `case metric`, the digest of all that was simulated for.
    """

    SCHEMA: ClassVar[str] = "metric-benchmark/power/v1"

    cases: dict[str, PowerPlan]
    settling: dict[str, dict[str, Settling]] = {}
