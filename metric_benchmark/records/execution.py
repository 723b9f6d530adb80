# SPDX-License-Identifier: Apache-2.0
"""Records of stage 1: what a run was asked to do, what came of every trial, a case's index, the manifest."""

from __future__ import annotations

from typing import ClassVar, Literal

from metric_benchmark.records.base import Record, Shape

type Role = Literal["baseline", "screening", "control", "mutant"]
type Status = Literal["valid", "agent_error", "infrastructure", "no_verdict", "cancelled"]

#: Trials of these statuses count as attempts; all others are run again.
COUNTED: frozenset[Status] = frozenset({"valid", "agent_error"})


class PlannedTask(Shape):
    """One task of a run: the key of its trials and the folder Harbor was given."""

    task: str
    trial_key: str
    path: str


class RunPlan(Record):
    """`run-N.plan.json`: what run N was asked to do, written before it starts; uniform in attempts.

    `imported_from` is set where nothing was asked for: a job someone had paid for elsewhere was adopted. `attempts` is
    then the most trials a task has in it, `imported_environment` where they ran, and `deviations` in what they differ
    from a run of ours.
    """

    SCHEMA: ClassVar[str] = "metric-benchmark/run-plan/v1"

    run_id: str
    case: str
    variant: str
    role: Role
    config_hash: str
    run: str
    attempts: int
    tasks: tuple[PlannedTask, ...]
    created_at: str
    imported_from: str | None = None
    imported_environment: str | None = None
    deviations: tuple[str, ...] = ()


class Trial(Shape):
    """What came of one (task, attempt).

    `reward` is what stage 2 counts: the verifier's number under the configured key, 0 for an agent error, null where
    there is no verdict. `native_reward` is what Harbor recorded under that key, whatever we made of it. `attempt` is
    the rank by start time, from 1. `task_checksum` and `task_digest` are Harbor's two digests of the task folder: that
    of result.json and that of lock.json.
    """

    task: str
    attempt: int
    status: Status
    reason: str | None = None
    reward: float | None
    native_reward: float | None = None
    trial_key: str
    folder: str
    run: str
    trial: str
    started_at: str | None
    duration_s: float | None
    cost_usd: float | None
    n_input_tokens: int | None = None
    n_output_tokens: int | None = None
    exception: str | None = None
    flags: tuple[str, ...] = ()
    task_checksum: str | None = None
    task_digest: str | None = None
    result_sha256: str | None
    trajectory_sha256: str | None
    files_sha256: dict[str, str] = {}

    @property
    def counts(self) -> bool:
        """Whether the trial is an attempt in the statistics' sense."""
        return self.status in COUNTED


class Archived(Shape):
    """A trial without a verdict that was run again: it stays in its run's folder and counts nowhere."""

    task: str
    status: Status
    reason: str | None
    folder: str
    run: str
    trial: str
    started_at: str | None
    cost_usd: float | None
    exception: str | None


class RawResults(Record):
    """`raw-results.json`: one record per (task, attempt) of a variant.

    `evidence` holds the digests of what no trial's record covers: plans, files of jobs, and trials that were not
    chosen; by path below the variant's folder.
    """

    SCHEMA: ClassVar[str] = "metric-benchmark/raw-results/v1"

    run_id: str
    case: str
    variant: str
    role: Role
    config_hash: str
    attempts: int
    tasks: tuple[str, ...]
    environment: dict[str, object]
    reward_key: str | None = None
    trials: tuple[Trial, ...]
    #: In order of start. It depends on what happened to a run, not on the experiment, so `comparable` leaves it out.
    archived: tuple[Archived, ...] = ()

    @property
    def n_counted(self) -> int:
        """How many attempts count."""
        return sum(trial.counts for trial in self.trials)

    @property
    def n_without_verdict(self) -> int:
        """How many of the asked-for attempts have no verdict, tried or not."""
        return self.attempts * len(self.tasks) - self.n_counted

    @property
    def cost_usd(self) -> float | None:
        """What the chosen trials cost, in USD; null when no trial reports a cost."""
        costs = [trial.cost_usd for trial in self.trials if trial.cost_usd is not None]
        return sum(costs) if costs else None

    def rewards(self) -> dict[str, list[float]]:
        """Returns the rewards of the attempts that count, by task; a task without any is absent."""
        found: dict[str, list[float]] = {}
        for trial in self.trials:
            if trial.counts and trial.reward is not None:
                found.setdefault(trial.task, []).append(trial.reward)
        return found


class IndexEntry(Shape):
    """Where a variant's current raw results are."""

    role: Role
    config_hash: str
    folder: str
    raw_results: str
    raw_results_sha256: str
    n_without_verdict: int


class CaseIndex(Record):
    """`execution/<case>/results.json`: the current raw results of each variant of a case."""

    SCHEMA: ClassVar[str] = "metric-benchmark/case-index/v1"

    run_id: str
    case: str
    variants: dict[str, IndexEntry]


class ManifestEntry(Shape):
    """Where a case's index is."""

    index: str
    index_sha256: str


class ExecutionManifest(Record):
    """`execution.json`: written once the inventory is complete; from it all evidence of a run is reached."""

    SCHEMA: ClassVar[str] = "metric-benchmark/execution/v1"

    run_id: str
    cases_sha256: str
    cases: dict[str, ManifestEntry]


class ExecutionInputs(Record):
    """`execution-inputs.json`: names the run; set once."""

    SCHEMA: ClassVar[str] = "metric-benchmark/execution-inputs/v1"

    run_id: str
