# SPDX-License-Identifier: Apache-2.0
"""Plans runs: which trials of a variant are missing, and how they go into jobs uniform in attempts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metric_benchmark.execution.outcomes import Outcome
from metric_benchmark.records.execution import COUNTED, Archived, Trial


@dataclass(frozen=True)
class FoundTrial:
    """A native trial of this variant, and where its folder is.

    `imported_environment` is where a trial ran that was adopted from elsewhere; None for our own.
    """

    task: str
    trial_key: str
    folder: str
    run: str
    outcome: Outcome
    imported_environment: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it is an attempt in the statistics' sense."""
        return self.outcome.status in COUNTED


@dataclass(frozen=True)
class JobPlan:
    """One Harbor job: every task of it is attempted equally often."""

    attempts: int
    tasks: tuple[str, ...]

    @property
    def n_trials(self) -> int:
        """How many trials the job runs."""
        return self.attempts * len(self.tasks)


def plan_jobs(missing: Mapping[str, int], *, max_trials: int | None = None) -> tuple[JobPlan, ...]:
    """Groups missing attempts into jobs; the fewest jobs that are each uniform in attempts.

    Args:
        missing: attempts still to run, by task id.
        max_trials: how many trials may be started at most (what is left of a budget).

    Returns:
        Jobs in order of falling attempts; tasks keep their order.
    """
    left = max_trials
    jobs: list[JobPlan] = []
    for attempts in sorted({n for n in missing.values() if n > 0}, reverse=True):
        tasks = [task for task, n in missing.items() if n == attempts]
        if left is not None:
            tasks = tasks[: left // attempts]
            left -= attempts * len(tasks)
        if tasks:
            jobs.append(JobPlan(attempts, tuple(tasks)))
    return tuple(jobs)


def missing_attempts(trial_keys: Mapping[str, str], attempts: int, found: Sequence[FoundTrial]) -> dict[str, int]:
    """Returns how many attempts each task still lacks: trials that count, under today's keys, are kept."""
    have: dict[str, int] = defaultdict(int)
    for trial in found:
        if trial.counts and trial_keys.get(trial.task) == trial.trial_key:
            have[trial.task] += 1
    return {task: max(0, attempts - have[task]) for task in trial_keys}


def choose_trials(trial_keys: Mapping[str, str], attempts: int, found: Sequence[FoundTrial]) -> tuple[Trial, ...]:
    """Chooses one trial per (task, attempt) by a rule that does not look at rewards: those that count, by start time.

    Ranks that no counting trial fills are filled with the latest trials that have no verdict, so that the record says
    what became of them; a rank nobody tried is absent.
    """
    by_task: dict[str, list[FoundTrial]] = {task: [] for task in trial_keys}
    for trial in found:
        if trial_keys.get(trial.task) == trial.trial_key:
            by_task[trial.task].append(trial)
    chosen: list[Trial] = []
    for task, trials in by_task.items():
        ordered = sorted(trials, key=lambda t: (t.outcome.started_at or "", t.run, t.outcome.trial))
        counting = [t for t in ordered if t.counts][:attempts]
        others = [t for t in ordered if not t.counts]
        lacking = attempts - len(counting)
        rest = others[-lacking:] if lacking else []
        chosen += [_record(task, rank, trial) for rank, trial in enumerate(counting + rest, start=1)]
    return tuple(chosen)


def archive_trials(
    trial_keys: Mapping[str, str], found: Sequence[FoundTrial], chosen: Sequence[Trial]
) -> tuple[Archived, ...]:
    """Lists the trials without a verdict that were run again, in order of start."""
    recorded = {(trial.folder, trial.run, trial.trial) for trial in chosen}
    archived = [
        Archived(
            task=trial.task,
            status=trial.outcome.status,
            reason=trial.outcome.reason,
            folder=trial.folder,
            run=trial.run,
            trial=trial.outcome.trial,
            started_at=trial.outcome.started_at,
            cost_usd=trial.outcome.cost_usd,
            exception=trial.outcome.exception,
        )
        for trial in found
        if trial_keys.get(trial.task) == trial.trial_key
        and not trial.counts
        and (trial.folder, trial.run, trial.outcome.trial) not in recorded
    ]
    return tuple(sorted(archived, key=lambda trial: (trial.started_at or "", trial.run, trial.trial)))


def _record(task: str, attempt: int, found: FoundTrial) -> Trial:
    outcome = found.outcome
    return Trial(
        task=task,
        attempt=attempt,
        status=outcome.status,
        reason=outcome.reason,
        reward=outcome.reward,
        native_reward=outcome.native_reward,
        trial_key=found.trial_key,
        folder=found.folder,
        run=found.run,
        trial=outcome.trial,
        started_at=outcome.started_at,
        duration_s=outcome.duration_s,
        cost_usd=outcome.cost_usd,
        n_input_tokens=outcome.n_input_tokens,
        n_output_tokens=outcome.n_output_tokens,
        exception=outcome.exception,
        flags=outcome.flags if found.imported_environment is None else (*outcome.flags, "imported"),
        task_checksum=outcome.task_checksum,
        task_digest=outcome.task_digest,
        result_sha256=outcome.result_sha256,
        trajectory_sha256=outcome.trajectory_sha256,
        files_sha256=outcome.files_sha256,
    )
