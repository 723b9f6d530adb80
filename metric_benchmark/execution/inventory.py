# SPDX-License-Identifier: Apache-2.0
"""Finds all native trials of a variant and matches them with the plans that asked for them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.execution.outcomes import read_outcome
from metric_benchmark.execution.plan import FoundTrial
from metric_benchmark.records.execution import RunPlan

PLAN_SUFFIX = ".plan.json"


def find_trials(root: EvidenceRoot, case_id: str, variant_id: str, reward_key: str) -> list[FoundTrial]:
    """Reads every trial of a variant, under the current and all superseded configurations.

    Raises:
        EvidenceError: there are job or trial folders no plan asked for; all are named.
    """
    folder = root.variant(case_id, variant_id)
    found: list[FoundTrial] = []
    foreign: list[str] = []
    if not folder.is_dir():
        return found
    for config in sorted(p for p in folder.iterdir() if p.is_dir()):
        plans = {p.name.removesuffix(PLAN_SUFFIX): p for p in config.glob("run-*" + PLAN_SUFFIX)}
        jobs = config / "jobs"
        for job in sorted(jobs.iterdir()) if jobs.is_dir() else ():
            if job.name in plans:
                found += _job_trials(job, read_record(plans[job.name], RunPlan), reward_key, foreign)
            else:
                foreign.append(f"{root.relative(job)}: no plan asked for this job")
    _refuse(foreign)
    return found


def read_run(
    root: EvidenceRoot, case_id: str, variant_id: str, folder: str, run: str, reward_key: str
) -> list[FoundTrial]:
    """Reads the trials of one run; none where it died before it had a plan or a job folder.

    Raises:
        EvidenceError: there are trials the plan did not ask for; all are named.
    """
    config = root.variant(case_id, variant_id) / folder
    plan, job = config / f"{run}{PLAN_SUFFIX}", config / "jobs" / run
    if not plan.exists() or not job.is_dir():
        return []
    foreign: list[str] = []
    found = _job_trials(job, read_record(plan, RunPlan), reward_key, foreign)
    _refuse(foreign)
    return found


def _refuse(foreign: list[str]) -> None:
    if foreign:
        raise EvidenceError([*foreign, "trials nobody planned are never counted; move them out of the evidence"])


def _job_trials(job: Path, plan: RunPlan, reward_key: str, foreign: list[str]) -> list[FoundTrial]:
    by_path = {planned.path: planned for planned in plan.tasks}
    asked = {planned.task: plan.attempts for planned in plan.tasks}
    found: list[FoundTrial] = []
    for folder in sorted(p for p in job.iterdir() if p.is_dir()):
        if not _is_whole(folder / "config.json") and not _is_whole(folder / "result.json"):
            continue  # Harbor died, or the disk was full, before a file of it was whole: there is no trial in it.
        outcome = read_outcome(folder, reward_key)
        planned = by_path.get(outcome.task_path)
        if planned is None:
            foreign.append(f"{folder}: its task {outcome.task_path} is not in the plan of {plan.run}")
            continue
        found.append(FoundTrial(planned.task, planned.trial_key, job.parent.parent.name, plan.run, outcome))
    for task, count in Counter(trial.task for trial in found).items():
        if count > asked[task]:
            foreign.append(f"{job}: {count} trials of task {task}, but the plan asked for {asked[task]}")
    return found


def _is_whole(path: Path) -> bool:
    """Whether a JSON file was written to its end; Harbor writes in place."""
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return True


def next_run(config: Path) -> str:
    """Returns the first unused name `run-N` of a configuration's folder."""
    used = [p.name.removesuffix(PLAN_SUFFIX) for p in config.glob("run-*" + PLAN_SUFFIX)]
    jobs = config / "jobs"
    used += [p.name for p in jobs.iterdir()] if jobs.is_dir() else []
    numbers = [int(name.removeprefix("run-")) for name in used if name.removeprefix("run-").isdigit()]
    return f"run-{max(numbers, default=0) + 1}"
