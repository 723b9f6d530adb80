# SPDX-License-Identifier: Apache-2.0
"""Runs one variant to completion: keeps what counts, runs what is missing, records and indexes the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from metric_benchmark.config.models import ExecutionConfig
from metric_benchmark.evidence import ledger
from metric_benchmark.evidence.index import update_index
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_variant
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.execution.child import ChildDiedError, Event, HarborChild, job_config
from metric_benchmark.execution.inventory import PLAN_SUFFIX, find_trials, next_run
from metric_benchmark.execution.plan import FoundTrial, JobPlan, choose_trials, missing_attempts, plan_jobs
from metric_benchmark.execution.variant import Variant
from metric_benchmark.execution.worker import JobRequest
from metric_benchmark.hashing import digest_json
from metric_benchmark.records.base import Implementation
from metric_benchmark.records.execution import PlannedTask, RawResults, RunPlan


@dataclass(frozen=True)
class Progress:
    """One step of a variant, for a progress bar or a log.

    Attributes:
        key: the variant's partition key.
        kind: `kept` (trials that were there already), `trial_start` or `trial_end`.
        n_done: trials that count or were tried in this run, so far.
        n_total: trials the variant asks for.
        cost_usd: what this run's trials cost so far, where they say.
    """

    key: str
    kind: str
    n_done: int
    n_total: int
    task: str | None = None
    reward: float | None = None
    exception: str | None = None
    cost_usd: float | None = None


#: (environment, task digest) of tasks that some job of this process ran: Harbor accepts them, no need to ask again.
_checked_tasks: set[tuple[str, str]] = set()

type OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class VariantRun:
    """What running a variant came to."""

    results: RawResults
    n_run: int
    n_kept: int
    is_changed: bool
    stopped: str | None = None


@dataclass
class _Tally:
    """Counts a run's trials for progress."""

    variant: Variant
    on_progress: OnProgress
    n_done: int = 0
    n_run: int = 0
    cost_usd: float | None = None
    task_ids: dict[str, str] = field(default_factory=lambda: {})

    def event(self, event: Event) -> None:
        if event["event"] == "trial_end":
            self.n_done += 1
            self.n_run += 1
            if event["cost_usd"] is not None:
                self.cost_usd = (self.cost_usd or 0.0) + event["cost_usd"]
        self.say(event["event"], self.task_ids.get(event["task_path"]), event["reward"], event["exception"])

    def say(
        self, kind: str, task: str | None = None, reward: float | None = None, exception: str | None = None
    ) -> None:
        total = self.variant.n_trials
        done = min(self.n_done, total)
        self.on_progress(Progress(self.variant.key, kind, done, total, task, reward, exception, self.cost_usd))


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
    with lock_variant(root, variant.case_id, variant.variant_id):
        found = find_trials(root, variant.case_id, variant.variant_id, settings.reward_key)
        _settle_interrupted(root, variant, settings, found)
        tally = _Tally(variant, on_progress, task_ids={str(task.path): task.id for task in variant.tasks})
        n_kept = variant.n_trials - sum(missing_attempts(variant.trial_keys, variant.attempts, found).values())
        tally.n_done = n_kept
        tally.say("kept")
        stopped: str | None = None
        with ExitStack() as stack:
            child: HarborChild | None = None
            for _ in range(settings.infrastructure_retries + 1):
                missing = missing_attempts(variant.trial_keys, variant.attempts, found)
                left = ledger.trials_left(root, settings.budget)
                jobs = plan_jobs(missing, max_trials=left)
                if not jobs:
                    break
                tally.n_done = variant.n_trials - sum(missing.values())
                child = child or stack.enter_context(HarborChild())
                for job in jobs:
                    child = _run_job(root, variant, settings, job, run_id, implementation, tally, child, stack)
                found = find_trials(root, variant.case_id, variant.variant_id, settings.reward_key)
        missing = missing_attempts(variant.trial_keys, variant.attempts, found)
        if any(missing.values()):
            stopped = _why_stopped(root, settings, sum(missing.values()))
        results = RawResults(
            run_id=run_id,
            case=variant.case_id,
            variant=variant.variant_id,
            role=variant.role,
            config_hash=variant.config_hash,
            attempts=variant.attempts,
            tasks=tuple(task.id for task in variant.tasks),
            environment=dict(variant.environment.identity),
            trials=choose_trials(variant.trial_keys, variant.attempts, found),
            implementation=implementation,
            inputs={f"task:{task.id}": task.sha256 for task in variant.tasks},
        )
        is_changed = update_index(root, results)
        return VariantRun(results, tally.n_run, n_kept, is_changed, stopped)


def _run_job(
    root: EvidenceRoot,
    variant: Variant,
    settings: ExecutionConfig,
    job: JobPlan,
    run_id: str,
    implementation: Implementation,
    tally: _Tally,
    child: HarborChild,
    stack: ExitStack,
) -> HarborChild:
    """Plans and runs one job; returns the child to use next, a new one where the old one died."""
    config = root.config(variant.case_id, variant.variant_id, variant.config_hash)
    run = next_run(config)
    paths = {task.id: str(task.path) for task in variant.tasks}
    digests = {task.id: task.sha256 for task in variant.tasks}
    environment = digest_json(dict(variant.environment.identity))
    reservation = ledger.Reservation(variant.case_id, variant.variant_id, config.name, run, job.n_trials)
    if not ledger.reserve(root, settings.budget, reservation):
        return child
    plan = RunPlan(
        run_id=run_id,
        case=variant.case_id,
        variant=variant.variant_id,
        role=variant.role,
        config_hash=variant.config_hash,
        run=run,
        attempts=job.attempts,
        tasks=tuple(PlannedTask(task=t, trial_key=variant.trial_keys[t], path=paths[t]) for t in job.tasks),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        implementation=implementation,
    )
    write_record(config / f"{run}{PLAN_SUFFIX}", plan)
    request = JobRequest(
        job=job_config(
            jobs_dir=config / "jobs",
            run=run,
            attempts=job.attempts,
            task_paths=[paths[task] for task in job.tasks],
            agent=dict(variant.agent),
            environment=dict(variant.environment.harbor),
            concurrency=settings.concurrency,
            multipliers={
                "agent": settings.timeouts.agent_multiplier,
                "verifier": settings.timeouts.verifier_multiplier,
                "setup": settings.timeouts.setup_multiplier,
            },
        ),
        timeout_s=settings.timeouts.job_s,
        reward_key=settings.reward_key,
        sandbox=variant.environment.kind == "local",
        check=tuple(paths[task] for task in job.tasks if (environment, digests[task]) not in _checked_tasks),
    )
    before = (tally.n_run, tally.cost_usd or 0.0)
    try:
        child.run_job(request, tally.event)
        _checked_tasks.update((environment, digests[task]) for task in job.tasks)
    except ChildDiedError:
        # Its finished trials count; the round after this one runs the others, in a new process.
        child = stack.enter_context(HarborChild())
    finally:
        cost = None if tally.cost_usd is None else tally.cost_usd - before[1]
        ledger.settle(root, reservation, n_trials=tally.n_run - before[0], cost_usd=cost)
    return child


def _settle_interrupted(
    root: EvidenceRoot, variant: Variant, settings: ExecutionConfig, found: Sequence[FoundTrial]
) -> None:
    """Settles runs that died before they could: what was started is counted as spent."""
    for run in ledger.spent(root, settings.budget).open.values():
        if (run.case, run.variant) != (variant.case_id, variant.variant_id):
            continue
        trials = [trial for trial in found if (trial.folder, trial.run) == (run.folder, run.run)]
        costs = [trial.outcome.cost_usd for trial in trials if trial.outcome.cost_usd is not None]
        ledger.settle(root, run, n_trials=len(trials), cost_usd=sum(costs) if costs else None)


def _why_stopped(root: EvidenceRoot, settings: ExecutionConfig, n_missing: int) -> str:
    left = ledger.trials_left(root, settings.budget)
    if left is not None and left < n_missing:
        return (
            f"the budget is reached with {n_missing} trials to go; raise `budget` in the execution file and run again"
        )
    return (
        f"{n_missing} trials have no verdict after {settings.infrastructure_retries} retries; run again to retry them"
    )
