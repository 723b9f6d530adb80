# SPDX-License-Identifier: Apache-2.0
"""Runs one variant to completion: keeps what counts, runs what is missing, records and indexes the result."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from metric_benchmark import faults
from metric_benchmark.config.models import ExecutionConfig
from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark.evidence import ledger
from metric_benchmark.evidence.index import update_index
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import Held, lock_variant
from metric_benchmark.evidence.writes import sync_file_system, write_record
from metric_benchmark.execution.checking import note_tasks, request_for, unchecked_tasks
from metric_benchmark.execution.child import ChildDiedError, Event, ReplaceableChild
from metric_benchmark.execution.docker_leftovers import label_variables, remove_of_variant
from metric_benchmark.execution.interrupted import settle_interrupted, settle_run, tidy_case
from metric_benchmark.execution.inventory import PLAN_SUFFIX, find_trials, next_run, read_run
from metric_benchmark.execution.plan import FoundTrial, JobPlan, missing_attempts, plan_jobs
from metric_benchmark.execution.progress import OnProgress, Progress, Tally
from metric_benchmark.execution.recorded import record_results
from metric_benchmark.execution.runtimes import ensure_runtime
from metric_benchmark.execution.stopping import Lacking, describe_stop
from metric_benchmark.execution.validation import require_native
from metric_benchmark.execution.variant import Variant
from metric_benchmark.execution.worker import JobRequest
from metric_benchmark.records.base import Implementation
from metric_benchmark.records.execution import PlannedTask, RawResults, RunPlan

__all__ = ["OnProgress", "Progress", "VariantRun", "VariantSession", "run_variant"]


@dataclass(frozen=True)
class VariantRun:
    """What running a variant came to."""

    results: RawResults
    n_run: int
    n_kept: int
    is_changed: bool
    stopped: str | None = None


def run_variant(
    root: EvidenceRoot,
    variant: Variant,
    settings: ExecutionConfig,
    *,
    run_id: str,
    implementation: Implementation,
    on_progress: OnProgress = lambda _: None,
) -> VariantRun:
    """Runs what a variant still lacks and records all of it.

    Trials that count and whose key is still today's are kept, from whichever configuration they were paid under.
    Trials without a verdict stay where they are and are run again as a new run, up to the configured limit.

    Args:
        root: the evidence; the caller holds it, shared or exclusive.
        variant: what to run.
        settings: how.
        run_id: the run the evidence belongs to.
        implementation: recorded in what is written.
        on_progress: told about every trial.

    Returns:
        The variant's results; `stopped` says why some attempts still lack a verdict.

    Raises:
        ConfigError: a task or agent is refused before any trial starts.
        EvidenceError: there are trials no plan asked for.
        ExecutionError: Harbor cannot run the job at all.
        LockedError: another process runs this variant.
        StorageError: the disk is full or not writable.
    """
    with VariantSession(
        root, variant, settings, run_id=run_id, implementation=implementation, on_progress=on_progress
    ) as session:
        session.run()
        return session.finish()


class VariantSession:
    """Holds a variant from the first look at its trials to the record of them; use as a context manager.

    `run` may be called more than once, for more attempts each time; other variants may have their turn in between. For
    arguments and errors see `run_variant`.
    """

    def __init__(
        self,
        root: EvidenceRoot,
        variant: Variant,
        settings: ExecutionConfig,
        *,
        run_id: str,
        implementation: Implementation,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self._root = root
        self.variant = self._variant = variant
        self._settings = settings
        self._run_id = run_id
        self._implementation = implementation
        self._tally = Tally(variant, on_progress, task_ids={str(task.path): task.id for task in variant.tasks})
        self._stack = ExitStack()
        self._held: Held | None = None
        self._found: list[FoundTrial] = []
        self._n_kept = 0
        self._given_up: set[str] = set()
        self._config = root.config(variant.case_id, variant.variant_id, variant.config_hash)
        self._job: Path | None = None

    def __enter__(self) -> Self:
        root, variant = self._root, self._variant
        with ExitStack() as stack:
            self._held = stack.enter_context(lock_variant(root, variant.case_id, variant.variant_id))
            tidy_case(root, variant.case_id)
            self._settle()
            self._found = find_trials(root, variant.case_id, variant.variant_id, self._settings.reward_key)
            self._remove_containers()
            self._stack = stack.pop_all()
        self._n_kept = variant.n_trials - sum(self._missing().values())
        self._tally.n_done = self._n_kept
        self._tally.say("kept")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if error is not None:
                # What was cut short is settled by what it left; if that fails as well, the next run does it.
                with suppress(MetricBenchmarkError, OSError):
                    self._settle()

    def run(self, attempts: int | None = None) -> None:
        """Runs what is missing of the first `attempts` attempts of every task (default: of all)."""
        runtime = self._variant.runtime if self._todo(attempts) else None
        python = None if runtime is None else ensure_runtime(runtime)
        uses_model = bool(self._variant.agent.get("model_name"))
        with closing(ReplaceableChild(self._held, self._remove_containers, python, uses_model)) as child:
            for _ in range(self._settings.infrastructure_retries + 1):
                todo = self._todo(attempts)
                if not todo or not self._run_all(todo, child):
                    return
                # A verifier that does not write the key will not write it next time.
                self._given_up |= {trial.task for trial in self._without_verdict() if trial.outcome.lacks_reward_key}
            # What had no verdict so often is not tried again with the attempts after these.
            self._given_up |= set(self._todo(attempts))

    @property
    def is_hopeless(self) -> bool:
        """Whether trials ended and not one of them has a verdict."""
        keys = self._variant.trial_keys
        is_any = any(trial.counts for trial in self._found if keys.get(trial.task) == trial.trial_key)
        return not is_any and bool(self._without_verdict())

    def finish(self) -> VariantRun:
        """Records what there is, compares the record with the native folders, and indexes it.

        Raises:
            EvidenceError: they differ; the index stays what it was.
        """
        variant = self._variant
        n_missing = sum(self._missing().values())
        results = record_results(
            self._root,
            variant,
            self._found,
            run_id=self._run_id,
            reward_key=self._settings.reward_key,
            implementation=self._implementation,
        )
        # Whoever reads the index scores what it names, so that what is wrong must not get there.
        require_native(self._root, variant, results)
        is_changed = update_index(self._root, results)
        return VariantRun(results, self._tally.n_run, self._n_kept, is_changed, self._why_stopped(n_missing))

    def _missing(self, attempts: int | None = None) -> dict[str, int]:
        wanted = self._variant.attempts if attempts is None else min(attempts, self._variant.attempts)
        return missing_attempts(self._variant.trial_keys, wanted, self._found)

    def _todo(self, attempts: int | None) -> dict[str, int]:
        return {task: n for task, n in self._missing(attempts).items() if n and task not in self._given_up}

    def _run_all(self, todo: dict[str, int], child: ReplaceableChild) -> bool:
        """Runs every missing trial once, in jobs of what the budget still has; whether it had enough."""
        while todo:
            reserved = self._reserve(todo)
            if reserved is None:
                return False
            job, reservation = reserved
            faults.point("run.reserved")
            self._run_job(job, reservation.run, child)
            found = self._read_run(reservation.folder, reservation.run)
            self._found += found
            settle_run(self._root, reservation, found)
            todo = {task: n - (job.attempts if task in job.tasks else 0) for task, n in todo.items()}
            todo = {task: n for task, n in todo.items() if n}
        return True

    def _reserve(self, todo: dict[str, int]) -> tuple[JobPlan, ledger.Reservation] | None:
        variant, run = self._variant, next_run(self._config)
        jobs: list[JobPlan] = []

        def fit(left: int | None) -> ledger.Reservation | None:
            job = next_job(todo, left)
            if job is None:
                return None
            jobs.append(job)
            return ledger.Reservation(variant.case_id, variant.variant_id, self._config.name, run, job.n_trials)

        reservation = ledger.reserve_fitting(self._root, self._settings.budget, fit)
        return None if reservation is None else (jobs[0], reservation)

    def _run_job(self, job: JobPlan, run: str, child: ReplaceableChild) -> None:
        """Plans and runs one job; a process that died while it ran is replaced by the next job's."""
        variant = self._variant
        plan = self._plan(job, run)
        write_record(self._config / f"{run}{PLAN_SUFFIX}", plan)
        faults.point("run.planned")
        paths = unchecked_tasks(variant, set(job.tasks))
        self._tally.n_done = variant.n_trials - sum(self._missing().values())
        self._job = self._config / "jobs" / run
        try:
            child.process().run_job(self._request(plan, paths), self._event)
            note_tasks(variant, set(job.tasks))
        except ChildDiedError:
            # Its finished trials count; the round after this one runs the others, in a new process.
            child.close()
        if self._job.is_dir():
            # What is recorded next must not outlive what it was recorded of.
            sync_file_system(self._job)
        faults.point("run.ended")

    def _event(self, event: Event) -> None:
        faults.point(f"run.{event['event']}")
        self._tally.event(event)

    def _plan(self, job: JobPlan, run: str) -> RunPlan:
        variant = self._variant
        paths = {task.id: str(task.path) for task in variant.tasks}
        return RunPlan(
            run_id=self._run_id,
            case=variant.case_id,
            variant=variant.variant_id,
            role=variant.role,
            config_hash=variant.config_hash,
            run=run,
            attempts=job.attempts,
            tasks=tuple(PlannedTask(task=t, trial_key=variant.trial_keys[t], path=paths[t]) for t in job.tasks),
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            implementation=self._implementation,
        )

    def _request(self, plan: RunPlan, check: tuple[str, ...]) -> JobRequest:
        variant = self._variant
        return request_for(
            variant,
            self._settings,
            jobs_dir=self._config / "jobs",
            run=plan.run,
            attempts=plan.attempts,
            task_paths=[planned.path for planned in plan.tasks],
            check=check,
            variables=label_variables(self._root.path, variant.key) if self._has_containers else {},
        )

    def _read_run(self, folder: str, run: str) -> list[FoundTrial]:
        variant = self._variant
        return read_run(self._root, variant.case_id, variant.variant_id, folder, run, self._settings.reward_key)

    def _settle(self) -> None:
        settle_interrupted(self._root, self._settings.budget, self._settings.reward_key, held=self._variant.key)

    @property
    def _has_containers(self) -> bool:
        return self._variant.environment.kind == "docker"

    def _remove_containers(self) -> None:
        """Removes what a run that was killed left in Docker; nothing of this variant runs now."""
        if self._has_containers:
            cut_short = [trial.outcome.trial for trial in self._found if trial.outcome.status == "cancelled"]
            if self._job is not None and self._job.is_dir():
                cut_short += [path.name for path in self._job.iterdir() if path.is_dir()]
            remove_of_variant(self._root.path, self._variant.key, cut_short)

    def _why_stopped(self, n_missing: int) -> str | None:
        if not n_missing:
            return None
        left = ledger.trials_left(self._root, self._settings.budget)
        if left is not None and left < n_missing:
            return (
                f"the budget is reached with {n_missing} trials to go; raise `budget` in the execution file and run "
                "again"
            )
        lacking = [
            Lacking(
                trial.task, trial.outcome, self._config.parent / trial.folder / "jobs" / trial.run / trial.outcome.trial
            )
            for trial in self._without_verdict()
        ]
        return describe_stop(n_missing, self._settings, lacking)

    def _without_verdict(self) -> list[FoundTrial]:
        """Returns the trials of tasks that lack attempts, as far as they are today's and have no verdict."""
        missing, keys = self._missing(), self._variant.trial_keys
        return [
            trial
            for trial in self._found
            if missing.get(trial.task) and keys[trial.task] == trial.trial_key and not trial.counts
        ]


def next_job(todo: dict[str, int], left: int | None) -> JobPlan | None:
    """Returns the next job of what is to be run that fits into what is left of a budget; None when none does.

    A task whose attempts do not all fit is given those that do.

    Args:
        todo: attempts to run, by task id.
        left: how many trials may be started; None where there is no limit.
    """
    jobs = plan_jobs(todo, max_trials=left)
    if jobs:
        return jobs[0]
    task = next((task for task, n in todo.items() if n > 0), None)
    return JobPlan(min(todo[task], left), (task,)) if task is not None and left else None
