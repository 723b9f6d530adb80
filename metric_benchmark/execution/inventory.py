# SPDX-License-Identifier: Apache-2.0
"""Finds all native trials of a variant and matches them with the plans that asked for them, and with old records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metric_benchmark.errors import EvidenceError, Problem
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.execution.outcomes import read_outcome
from metric_benchmark.execution.plan import FoundTrial
from metric_benchmark.execution.recorded import PLAN_SUFFIX, compare_with_records
from metric_benchmark.records.execution import RunPlan

_ADVICE = "trials nobody planned are never counted; move them out of the evidence"


@dataclass(frozen=True)
class Run:
    """One run of a variant: its plan, and where its job is (or would be, had it started)."""

    plan: RunPlan
    folder: str
    job: Path

    @property
    def plan_path(self) -> Path:
        """The plan's file."""
        return self.job.parent.parent / f"{self.plan.run}{PLAN_SUFFIX}"


@dataclass
class Inventory:
    """What a variant's folders hold: runs, their trials, and everything that should not be there."""

    runs: list[Run] = field(default_factory=lambda: [])
    trials: list[FoundTrial] = field(default_factory=lambda: [])
    problems: list[Problem] = field(default_factory=lambda: [])
    is_foreign: bool = False

    def add(self, place: str, message: str) -> None:
        """Notes something that makes the evidence unusable."""
        self.problems.append(Problem(place, message))

    def foreign(self, place: str, message: str) -> None:
        """Notes something nobody planned."""
        self.is_foreign = True
        self.add(place, message)

    def refuse(self) -> None:
        """Raises with all problems, if there are any.

        Raises:
            EvidenceError: there are trials nobody planned, or something is damaged; all are named.
        """
        if self.problems:
            advice = [Problem("", _ADVICE)] if self.is_foreign else []
            raise EvidenceError([*dict.fromkeys(self.problems), *advice])


def find_trials(root: EvidenceRoot, case_id: str, variant_id: str, reward_key: str) -> list[FoundTrial]:
    """Reads every trial of a variant, under the current and all superseded configurations.

    What was recorded before must still be there as it was recorded: a trial that counts is never run again because its
    folder was damaged, and never counted with another outcome.

    Raises:
        EvidenceError: there are job or trial folders no plan asked for, or recorded trials are missing or have changed;
            all are named.
    """
    found = take_inventory(root, case_id, variant_id, reward_key)
    folder = root.variant(case_id, variant_id)
    found.problems += compare_with_records(root, folder, found.trials)
    if found.problems and not found.is_foreign:
        found.add(root.relative(folder), "without a backup: remove this folder, and the whole variant is run again")
    found.refuse()
    return found.trials


def read_run(
    root: EvidenceRoot, case_id: str, variant_id: str, folder: str, run: str, reward_key: str
) -> list[FoundTrial]:
    """Reads the trials of one run; none where it died before it had a plan or a job folder.

    Raises:
        EvidenceError: there are trials the plan did not ask for; all are named.
    """
    config = root.variant(case_id, variant_id) / folder
    job = config / "jobs" / run
    if not (config / f"{run}{PLAN_SUFFIX}").exists() or not job.is_dir():
        return []
    found = Inventory()
    _take_run(root, config, run, reward_key, found)
    found.refuse()
    return found.trials


def take_inventory(root: EvidenceRoot, case_id: str, variant_id: str, reward_key: str) -> Inventory:
    """Reads every run of a variant and collects all that is wrong instead of raising.

    Args:
        root: the evidence root.
        case_id: the case.
        variant_id: the variant.
        reward_key: the reward that counts.
    """
    folder = root.variant(case_id, variant_id)
    found = Inventory()
    if not folder.is_dir():
        return found
    for config in sorted(p for p in folder.iterdir() if p.is_dir()):
        planned = {p.name.removesuffix(PLAN_SUFFIX) for p in config.glob("run-*" + PLAN_SUFFIX)}
        jobs = config / "jobs"
        there = {p.name for p in jobs.iterdir()} if jobs.is_dir() else set[str]()
        for run in sorted(planned | there):
            if run in planned:
                _take_run(root, config, run, reward_key, found)
            else:
                found.foreign(root.relative(jobs / run), "no plan asked for this job")
    return found


def _take_run(root: EvidenceRoot, config: Path, run: str, reward_key: str, found: Inventory) -> None:
    path = config / f"{run}{PLAN_SUFFIX}"
    try:
        plan = read_record(path, RunPlan)
    except EvidenceError as error:
        found.problems += error.problems
        return
    variant = config.parent
    told = (plan.case, plan.variant, plan.config_hash[: len(config.name)], plan.run)
    if told != (variant.parent.name, variant.name, config.name, run):
        found.foreign(root.relative(path), f"is the plan of {'/'.join(told)}, not of this folder")
        return
    job = config / "jobs" / run
    found.runs.append(Run(plan, config.name, job))
    if job.is_dir():
        _take_job(root, job, plan, reward_key, found)


def _take_job(root: EvidenceRoot, job: Path, plan: RunPlan, reward_key: str, found: Inventory) -> None:
    if job.is_symlink():
        found.add(root.relative(job), "a link; put the job's folder itself there")
        return
    by_path = {planned.path: planned for planned in plan.tasks}
    asked = {planned.task: plan.attempts for planned in plan.tasks}
    owner = JobOwner.read(job)
    counts: Counter[str] = Counter()
    for folder in sorted(p for p in job.iterdir() if p.is_dir()):
        if folder.is_symlink():
            found.add(root.relative(folder), "a link; put the trial's folder itself there")
            continue
        try:
            outcome = read_outcome(folder, reward_key)
        except EvidenceError as error:
            if is_whole(folder / "config.json") or is_whole(folder / "result.json"):
                found.problems += error.problems
            # Else Harbor died, or the disk was full, before a file of it was whole: there is no trial in it.
            continue
        where = root.relative(folder)
        planned = by_path.get(outcome.task_path)
        if planned is None:
            found.foreign(where, f"its task {outcome.task_path} is not in the plan of {plan.run}")
        elif outcome.native_name not in (None, folder.name):
            found.foreign(where, f"is the trial {outcome.native_name} under another name")
        elif (reason := owner.disowns(outcome.job_id, outcome.agent)) is not None:
            found.foreign(where, reason)
        else:
            counts[planned.task] += 1
            where_run = plan.imported_environment
            config = job.parent.parent.name
            found.trials.append(FoundTrial(planned.task, planned.trial_key, config, plan.run, outcome, where_run))
    for task, count in counts.items():
        if count > asked[task]:
            found.foreign(root.relative(job), f"{count} trials of task {task}, but the plan asked for {asked[task]}")


@dataclass(frozen=True)
class JobOwner:
    """What a job says of itself, as far as it lived to say it; its trials must be of it."""

    job_id: str | None
    agents: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, job: Path) -> JobOwner:
        """Reads what a job's own files say."""
        config, result = read_json(job / "config.json"), read_json(job / "result.json")
        agents: Any = config.get("agents")
        return cls(result.get("id"), tuple(agents) if isinstance(agents, list) else ())  # pyright: ignore[reportUnknownArgumentType]

    def disowns(self, job_id: str | None, agent: Mapping[str, Any]) -> str | None:
        """Says why a trial is not of this job; None when it may be."""
        if self.job_id is not None and job_id is not None and job_id != self.job_id:
            return f"is a trial of job {job_id}, not of this job, {self.job_id}"
        if self.agents and agent and not any(same_agent(agent, own) for own in self.agents):
            return "its agent is not the job's"
        return None


def same_agent(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two agents in Harbor's form are declared alike, as far as a trial's outcome goes."""
    return all(
        (one.get(key) or None) == (other.get(key) or None) for key in ("name", "import_path", "model_name", "kwargs")
    )


def is_whole(path: Path) -> bool:
    """Whether a JSON file was written to its end; Harbor writes in place."""
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return True


def read_json(path: Path | str) -> dict[str, Any]:
    """Reads a JSON object of Harbor's; one that is missing, damaged or no object is empty."""
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - asked of every trial; pathlib costs more
            value = json.loads(stream.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def next_run(config: Path) -> str:
    """Returns the first unused name `run-N` of a configuration's folder."""
    used = [p.name.removesuffix(PLAN_SUFFIX) for p in config.glob("run-*" + PLAN_SUFFIX)]
    jobs = config / "jobs"
    used += [p.name for p in jobs.iterdir()] if jobs.is_dir() else []
    numbers = [int(name.removeprefix("run-")) for name in used if name.removeprefix("run-").isdigit()]
    return f"run-{max(numbers, default=0) + 1}"
