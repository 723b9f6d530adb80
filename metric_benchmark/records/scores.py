# SPDX-License-Identifier: Apache-2.0
"""The records of stage 2: one mutant's or control's kills, and a case's mutant scores."""

from __future__ import annotations

from typing import ClassVar, Literal

from metric_benchmark.records.base import Record, Shape, Undefined

Outcome = Literal["killed", "survived", "undetermined"]
MutantRole = Literal["mutant", "control"]


class KillRule(Shape):
    """The kill rule as it was applied; `given` where another tool decided.

    `is_controlled` tells whether it bounds false kills at all.
    """

    name: Literal["exact", "deterministic", "threshold", "given"]
    test: Literal["boschloo", "fisher"] | None = None
    alpha: float | None = None
    drop: float | None = None
    min_valid_attempts: int
    pass_reward: float
    is_controlled: bool


class TaskKill(Shape):
    """What one task says about one mutant; means are of valid attempts' rewards, `None` without any."""

    outcome: Outcome
    n_baseline: int
    n_mutant: int
    n_baseline_passed: int
    n_mutant_passed: int
    mean_baseline: float | None = None
    mean_mutant: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    test: Literal["boschloo", "fisher", "attempt_permutation"] | None = None
    reason: str | None = None


class SuiteTest(Shape):
    """Cochran-Mantel-Haenszel over all tested tasks: finds a fault that no single task shows (secondary)."""

    z: float
    p_value: float
    n_tasks: int


class Eligibility(Shape):
    """Which tasks are reliable enough to be tested, by the screening run alone."""

    screened: bool
    reason: str
    min_pass_share: float
    pass_share: dict[str, float | None] = {}
    eligible_tasks: list[str]
    ineligible: dict[str, str] = {}


class MutantKills(Record):
    """`analysis/<case>/mutants/<variant>.json`: the kills of one mutant or control, task by task."""

    SCHEMA: ClassVar[str] = "metric-benchmark/mutant-kills/v1"

    variant: str
    role: MutantRole
    operator: str | None = None
    rule: KillRule
    status: Outcome
    killed_by: list[str]
    undetermined_tasks: list[str]
    tested_tasks: list[str]
    tasks: dict[str, TaskKill]
    suite_test: SuiteTest | None = None
    warnings: list[str] = []
    is_inert: bool | None = None
    effect: str | None = None


class MutantStatus(Shape):
    """One mutant (or control) in a case's scores.

    `is_inert` is true where no reward and no trajectory ever differed from the baseline's, and null where that cannot
    be told; `effect` says what was seen.
    """

    status: Outcome
    killed_by: list[str]
    undetermined_tasks: list[str]
    is_trivial: bool = False
    is_dominator: bool = False
    is_never_killed: bool = False
    duplicate_of: str | None = None
    operator: str | None = None
    is_inert: bool | None = None
    effect: str | None = None


class SubsetScore(Shape):
    """A subset's mutant score: `size` counts eligible tasks, `score` undetermined mutants as survivors.

    `detected_holm` names the mutants of which "this subset detects it" holds at level alpha with Holm's
    correction within the subset; `None` under rules without p-values.
    """

    size: int
    detected: list[str]
    score: float
    score_low: float
    score_high: float
    score_killable: float | Undefined
    score_dominators: float | Undefined
    detected_holm: list[str] | None = None
    ineligible_tasks: list[str] = []


class FalseKillRate(Shape):
    """Share of controls detected, with a Clopper-Pearson interval whose unit is the control.

    `rate` is the mean over controls of the share of the subsets that detect it, so it need not be a multiple
    of 1 / `n_controls`.
    """

    size: int
    n_subsets: int
    n_controls: int
    rate: float
    low: float
    high: float


class ControlNoise(Shape):
    """What the controls say about the kills: every kill of a control is noise."""

    status: Literal["ok", "not_assessable"]
    reason: str
    n_controls: int
    alpha: float
    level: float = 0.95
    suite: FalseKillRate | None = None
    by_size: list[FalseKillRate] = []
    is_blocking: bool = False


class MutantScores(Record):
    """`analysis/<case>/mutant-scores.json`."""

    SCHEMA: ClassVar[str] = "metric-benchmark/mutant-scores/v1"

    eligible_tasks: list[str]
    eligibility: Eligibility
    rule: KillRule
    mutants: dict[str, MutantStatus]
    controls: dict[str, MutantStatus]
    subsets: dict[str, SubsetScore]
    dropped_subsets: dict[str, str] = {}
    n_mutants: int
    n_dominators: int
    n_undetermined: int
    never_killed: list[str]
    trivial: list[str]
    duplicate_groups: list[list[str]]
    noise: ControlNoise
    notes: list[str] = []
    warnings: list[str] = []
