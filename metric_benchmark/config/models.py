# SPDX-License-Identifier: Apache-2.0
"""The YAML files of an experiment as frozen models; what one file alone can get wrong is refused here."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from metric_benchmark.config.fields import (
    ELSEWHERE,
    CaseSlug,
    Config,
    Fraction,
    FreeSlug,
    Int,
    Pinned,
    Positive,
    RelativePath,
    Reward,
    Slug,
    require_unique,
)


class ExperimentConfig(Config):
    """`experiment.yaml`: names the experiment and its three files."""

    schema_name: Literal["metric-benchmark/experiment/v1"] = Field(alias="schema")
    name: Slug
    description: str = ""
    cases: RelativePath
    execution: RelativePath
    analysis: RelativePath
    roots: tuple[str, ...] = ()


class CasesConfig(Config):
    """`cases.yaml`: the pinned case files of an experiment."""

    schema_name: Literal["metric-benchmark/cases/v1"] = Field(alias="schema")
    cases: tuple[Pinned, ...] = Field(min_length=1)


class RuntimeSpec(Config):
    """The environment of a bundle's own: its Python, and a lock of its packages."""

    python: str = Field(pattern=r"^3\.\d+(\.\d+)?$")
    requirements: Pinned

    @field_validator("python", mode="after")
    @classmethod
    def _harbor_runs_on_it(cls, python: str) -> str:
        if int(python.split(".")[1]) < 12:
            raise ValueError(f"found {python!r}; expected '3.12' or later: the agent runs in Harbor's process")
        return python


class AgentSpec(Config):
    """Which agent runs: exactly one of `name`, `import_path`, or `bundle` with `entry`."""

    name: str | None = None
    import_path: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    bundle: Pinned | None = None
    entry: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    runtime: RuntimeSpec | None = None
    model_name: str | None = None
    kwargs: dict[str, Any] = {}
    env: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("name", "import_path", "bundle") if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(f"`{key}`" for key in given) or "none of them"
            raise ValueError(f"found {found}; expected exactly one of `name`, `import_path`, or `bundle` with `entry`")
        if (self.bundle is None) != (self.entry is None):
            raise ValueError('`bundle` and `entry` go together; write `entry: "file:Class"` beside the bundle')
        if self.runtime is not None and self.bundle is None:
            raise ValueError("only a `bundle` has a `runtime`; an installed agent runs with what is installed")
        return self


class OperatorSpec(Config):
    """What makes a mutant: an operator of ours, or `external/<label>` for a mutant that brings its own agent."""

    name: str
    params: dict[str, Any] = {}
    seed: Int = Field(default=0, ge=0)

    @property
    def is_external(self) -> bool:
        """Whether the mutant brings its own agent."""
        return self.name.startswith("external/")


def _operator(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _inherit(value: Any) -> Any:
    return None if value == "inherit" else value


class BaselineConfig(Config):
    """The agent whose faulty versions the mutants are."""

    agent: AgentSpec


class MutantConfig(Config):
    """One mutant: the inherited agent with an operator, or an agent of its own."""

    id: FreeSlug
    operator: Annotated[OperatorSpec, BeforeValidator(_operator)]
    agent: Annotated[AgentSpec | None, BeforeValidator(_inherit)] = None

    @model_validator(mode="after")
    def _agent_fits_operator(self) -> Self:
        if self.operator.is_external and self.agent is None:
            raise ValueError(f"operator {self.operator.name!r} only names a fault; give the mutant its own `agent`")
        if not self.operator.is_external and self.agent is not None:
            raise ValueError(
                f"operator {self.operator.name!r} acts on the baseline's agent; write `agent: inherit`, or name the "
                "fault `external/<label>` to bring an own agent"
            )
        return self


class TaskEntry(Pinned):
    """One Harbor task folder of a case."""

    id: Slug


class CaseConfig(Config):
    """`case.yaml`: one agent, its mutants, its tasks and its subsets."""

    schema_name: Literal["metric-benchmark/case/v1"] = Field(alias="schema")
    case_id: CaseSlug
    description: Pinned
    subsets: Pinned
    tasks: tuple[TaskEntry, ...] = Field(min_length=1)
    baseline: BaselineConfig
    mutants: tuple[MutantConfig, ...] = Field(min_length=1)

    @field_validator("tasks", mode="after")
    @classmethod
    def _tasks_unique(cls, tasks: tuple[TaskEntry, ...]) -> tuple[TaskEntry, ...]:
        require_unique((task.id for task in tasks), "id")
        return tasks

    @field_validator("mutants", mode="after")
    @classmethod
    def _mutants_unique(cls, mutants: tuple[MutantConfig, ...]) -> tuple[MutantConfig, ...]:
        require_unique((mutant.id for mutant in mutants), "id")
        return mutants


class DescriptionConfig(Config):
    """A case's description: what a coverage metric may know besides traces and subsets."""

    schema_name: Literal["metric-benchmark/description/v1"] = Field(alias="schema")
    title: str
    text: str = ""
    tools: tuple[str, ...] = ()


class SubsetConfig(Config):
    """A named set of task ids: one candidate eval suite."""

    id: Slug
    tasks: tuple[Slug, ...] = Field(min_length=1)

    @field_validator("tasks", mode="after")
    @classmethod
    def _tasks_unique(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        require_unique(tasks)
        return tasks


class SubsetsConfig(Config):
    """`subsets.yaml`: the subsets of a case and how they were chosen."""

    schema_name: Literal["metric-benchmark/subsets/v1"] = Field(alias="schema")
    chosen_using: Literal["none", "coverage", "kills", "both"] = "none"
    generator: dict[str, Any] | None = None
    subsets: tuple[SubsetConfig, ...] = Field(min_length=1)

    @field_validator("subsets", mode="after")
    @classmethod
    def _unique_ids(cls, subsets: tuple[SubsetConfig, ...]) -> tuple[SubsetConfig, ...]:
        require_unique((subset.id for subset in subsets), "id")
        return subsets


class RoleConfig(Config):
    """How often every task is attempted by a role's variants."""

    attempts: Int = Field(ge=1, le=10_000)


class ControlConfig(RoleConfig):
    """How many A/A runs of the baseline there are, and their attempts."""

    count: Int = Field(ge=0, le=1000)


class RolesConfig(Config):
    """Attempts per role; a role left out is not run (baseline and mutant always are)."""

    baseline: RoleConfig
    mutant: RoleConfig
    screening: RoleConfig | None = None
    control: ControlConfig | None = None


class TimeoutsConfig(Config):
    """Limits in seconds, and factors on the timeouts the tasks declare."""

    agent_multiplier: Positive = 1.0
    verifier_multiplier: Positive = 1.0
    setup_multiplier: Positive = 1.0
    job_s: Positive | None = None


class BudgetConfig(Config):
    """What an experiment may cost; reaching it leaves a state that can be continued."""

    max_trials: Int | None = Field(default=None, ge=1)
    max_cost_usd: Positive | None = None
    cost_bound_per_trial_usd: Positive | None = None

    @model_validator(mode="after")
    def _cost_needs_bound(self) -> Self:
        if self.max_cost_usd is not None and self.cost_bound_per_trial_usd is None:
            raise ValueError("`max_cost_usd` needs `cost_bound_per_trial_usd`: the most one trial can cost")
        return self


class EnvironmentSpec(Config):
    """Where trials run: `auto`, `local`, `docker`, any other Harbor environment, or one by import path."""

    type: str | None = None
    import_path: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    kwargs: dict[str, Any] = {}
    env: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.type is None) == (self.import_path is None):
            raise ValueError("expected exactly one of `type` and `import_path`")
        return self


def _environment(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


class ExecutionConfig(Config):
    """`execution.yaml`: how stage 1 runs."""

    schema_name: Literal["metric-benchmark/execution/v1"] = Field(alias="schema")
    roles: RolesConfig
    concurrency: Int = Field(default=2, ge=1, le=1000)
    #: Run the first attempts of all variants of a case before the second ones, so that a provider that changes a model
    #: in between changes it for all of them.
    interleave: bool = False
    environment: Annotated[EnvironmentSpec, BeforeValidator(_environment)] = EnvironmentSpec(type="auto")
    timeouts: TimeoutsConfig = TimeoutsConfig()
    infrastructure_retries: Int = Field(default=2, ge=0, le=100)
    reward_key: str = Field(min_length=1)
    budget: BudgetConfig = BudgetConfig()
    max_trials_without_verdict: Int = Field(default=0, ge=0)
    #: Variables that are referred to and hold no secret, so that their values may stand in the evidence.
    public_variables: tuple[str, ...] = ()


class KillRuleConfig(Config):
    """How a task tells a mutant from the baseline (3-statistics, stage 2)."""

    name: Literal["exact", "deterministic", "threshold"]
    test: Literal["boschloo", "fisher"] = "boschloo"
    alpha: float = Field(default=0.05, gt=0, lt=1)
    drop: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _drop_belongs_to_threshold(self) -> Self:
        if (self.name == "threshold") != (self.drop is not None):
            raise ValueError("`drop` (the mean reward drop that counts as a kill) goes with the rule `threshold` only")
        return self


class ScoringConfig(Config):
    """Settings of stage 2."""

    kill_rule: KillRuleConfig
    min_pass_share: Fraction = 0.8
    min_valid_attempts: Int | None = Field(default=None, ge=1)
    pass_reward: Reward = 1.0


class MetricConfig(Config):
    """One coverage metric: `name` is its label, `metric` what implements it (default: the built-in of that name)."""

    name: Slug
    metric: str | None = None
    settings: dict[str, Any] = {}


class HypothesisConfig(Config):
    """A claim made before the data: the association of a metric with the mutant score, at least this large."""

    metric: Slug
    direction: Literal["greater", "less"] = "greater"
    minimum_effect: float = Field(gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)


class CorrelationConfig(Config):
    """Settings of stage 4."""

    replicates: Int = Field(default=2000, ge=100, le=1_000_000)
    seed: Int = Field(default=0, ge=0)
    #: Draw attempts again as well for intervals; for rewards of 0 and 1. It widens them little.
    resample_attempts: bool = False
    hypotheses: tuple[HypothesisConfig, ...] = ()


class GatesConfig(Config):
    """What `check` demands of a finished experiment.

    `metrics` names the metrics whose verdict must be one of `accept`; empty, these are all with a registered
    hypothesis, and to write `accept` or `require_registration` where there is none is a demand that fails. Suite means
    all eligible tasks of a case together.
    """

    accept: tuple[Literal["supported", "refuted", "inconclusive", "blocked", "not_tested"], ...] = ("supported",)
    metrics: tuple[Slug, ...] = ()
    min_suite_score: Fraction | None = None
    min_suite_coverage: dict[Slug, Fraction] = {}
    max_false_kill_rate: Fraction | None = None
    max_trials_without_verdict: Int | None = Field(default=None, ge=0)
    require_registration: bool = False
    require_native_validation: bool = False


class AnalysisConfig(Config):
    """`analysis.yaml`: stages 2, 3 and 4, and what `check` demands."""

    schema_name: Literal["metric-benchmark/analysis/v1"] = Field(alias="schema")
    scoring: ScoringConfig
    coverage: tuple[MetricConfig, ...] = Field(min_length=1)
    correlation: CorrelationConfig = CorrelationConfig()
    gates: GatesConfig = GatesConfig()

    @field_validator("coverage", mode="after")
    @classmethod
    def _unique_names(cls, metrics: tuple[MetricConfig, ...]) -> tuple[MetricConfig, ...]:
        require_unique((metric.name for metric in metrics), "name")
        return metrics

    @model_validator(mode="after")
    def _names_match(self) -> Self:
        known = {metric.name for metric in self.coverage}
        named: list[tuple[tuple[str | int, ...], str]] = [
            (("correlation", "hypotheses", i, "metric"), hypothesis.metric)
            for i, hypothesis in enumerate(self.correlation.hypotheses)
        ]
        named += [(("gates", "metrics", i), name) for i, name in enumerate(self.gates.metrics)]
        named += [(("gates", "min_suite_coverage", name), name) for name in self.gates.min_suite_coverage]
        wrong = [
            (at, f"metric {name!r} is not listed under `coverage`; expected one of: {', '.join(sorted(known))}")
            for at, name in named
            if name not in known
        ]
        if wrong:
            names = ", ".join(sorted({name for _, name in named} - known))
            raise PydanticCustomError(
                ELSEWHERE, "metrics that `coverage` does not list: {names}", {"names": names, "problems": wrong}
            )
        return self
