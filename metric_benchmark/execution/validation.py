# SPDX-License-Identifier: Apache-2.0
"""Compares a variant's native Harbor folders with everything that was planned and recorded of them."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metric_benchmark.errors import EvidenceError, Problem
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.execution.inventory import Inventory, Run, read_json, take_inventory
from metric_benchmark.execution.plan import FoundTrial, choose_trials
from metric_benchmark.execution.recorded import compare_files, compare_trial, compare_with_records, other_digests
from metric_benchmark.execution.task_digests import TaskDigests, digests_of_task
from metric_benchmark.execution.variant import Variant
from metric_benchmark.hashing import digest_json
from metric_benchmark.keys import config_hash
from metric_benchmark.records.execution import RawResults, Trial

#: What of a trial's record is recomputed. Its `reason` is left out: it is wording, which may improve.
_RECOMPUTED = (
    "status", "reward", "native_reward", "started_at", "duration_s", "cost_usd", "n_input_tokens", "n_output_tokens",
    "exception", "flags", "task_checksum", "task_digest",
)  # fmt: skip


@dataclass
class NativeCheck:
    """What validating variants found: counts, and every deviation in the order it was found."""

    n_trials: int = 0
    n_files: int = 0
    n_other_runs: int = 0
    problems: list[Problem] = field(default_factory=lambda: [])

    def add(self, other: NativeCheck) -> None:
        """Adds what another variant's check found."""
        self.n_trials += other.n_trials
        self.n_files += other.n_files
        self.n_other_runs += other.n_other_runs
        self.problems += other.problems


def require_native(root: EvidenceRoot, variant: Variant, results: RawResults, *, remedy: str | None = None) -> None:
    """Compares a variant's new record with its native folders; nothing enters an index before.

    Args:
        root: the evidence root.
        variant: the variant.
        results: its new record.
        remedy: what can be done besides restoring a backup (default: to run the whole variant again).

    Raises:
        EvidenceError: they differ; every deviation is named, and what can be done.
    """
    tasks = {
        task.id: digests_of_task(
            task.id, task.path, task.sha256, [trial for trial in results.trials if trial.task == task.id]
        )
        for task in variant.tasks
    }
    check = validate_variant(root, results, tasks, reward_key=results.reward_key or "")
    if check.problems:
        where = root.relative(root.variant(variant.case_id, variant.variant_id))
        told = remedy or "without a backup: remove this folder, and the whole variant is run again"
        raise EvidenceError([*check.problems, Problem(where, told)])


def validate_variant(
    root: EvidenceRoot, results: RawResults, tasks: Mapping[str, TaskDigests], *, reward_key: str
) -> NativeCheck:
    """Recomputes everything a variant's record says from its native folders.

    Args:
        root: the evidence root.
        results: the variant's record.
        tasks: what is known of the digests of the case's tasks, by id.
        reward_key: the reward that counts, for records that do not say it.

    Returns:
        Every deviation; nothing is raised for one.
    """
    found = take_inventory(root, results.case, results.variant, results.reward_key or reward_key)
    check = NativeCheck(problems=list(found.problems))
    keys = _trial_keys(results, found)
    wanted = set(keys.values())
    current = [run for run in found.runs if not wanted.isdisjoint(task.trial_key for task in run.plan.tasks)]
    check.n_other_runs = len(found.runs) - len(current)
    check.problems += _compare_record(root, results, found, keys, check)
    # No result rests on records of other settings, but trials in them may count again.
    folder = root.variant(results.case, results.variant)
    current_record = root.config(results.case, results.variant, results.config_hash) / "raw-results.json"
    check.problems += compare_with_records(root, folder, found.trials, without=current_record)
    trials: dict[tuple[str, str], list[FoundTrial]] = defaultdict(list)
    for trial in found.trials:
        trials[trial.folder, trial.run].append(trial)
    for run in current:
        of_run = trials[run.folder, run.plan.run]
        check.n_trials += len(of_run)
        # A trial under an older key is of an older task; nothing that is current rests on it.
        check.problems += _check_run(root, run, [t for t in of_run if t.trial_key in wanted], tasks)
    check.problems = list(dict.fromkeys(check.problems))
    return check


def _trial_keys(results: RawResults, found: Inventory) -> dict[str, str]:
    """Returns the keys the record was made under, by task; from the plans where no trial has one."""
    planned = {
        task.task: task.trial_key
        for run in found.runs
        if run.plan.config_hash == results.config_hash
        for task in run.plan.tasks
    }
    recorded = {trial.task: trial.trial_key for trial in results.trials}
    return {task: key for task in results.tasks if (key := recorded.get(task) or planned.get(task))}


def _compare_record(
    root: EvidenceRoot, results: RawResults, found: Inventory, keys: Mapping[str, str], check: NativeCheck
) -> Iterator[Problem]:
    folder = root.variant(results.case, results.variant)
    record = root.relative(root.config(results.case, results.variant, results.config_hash) / "raw-results.json")
    if len(keys) == len(results.tasks) and config_hash(keys, results.attempts) != results.config_hash:
        yield Problem(record, "its config hash is not that of its trial keys and attempts")
    there = {(trial.folder, trial.run, trial.outcome.trial): trial for trial in found.trials}
    for trial in results.trials:
        where = folder / trial.folder / "jobs" / trial.run / trial.trial
        yield from compare_trial(root, where, trial, there.get(_place(trial)))
        check.n_files += 1 + len(trial.files_sha256) + (trial.trajectory_sha256 is not None)
    yield from compare_files(root, folder, results.evidence)
    check.n_files += len(results.evidence)
    chosen = choose_trials(keys, results.attempts, found.trials)
    now = other_digests(folder, keys, found.trials, results.trials) if not found.problems else {}
    for name in sorted(set(now) - set(results.evidence)):
        yield Problem(root.relative(folder / name), f"is not in {record}; `metric-benchmark run-evals` would record it")
    gone = {(trial.task, trial.attempt) for trial in results.trials if _place(trial) not in there}
    yield from _compare_choice(root, folder, record, results, chosen, gone)


def _compare_choice(
    root: EvidenceRoot,
    folder: Path,
    record: str,
    results: RawResults,
    chosen: tuple[Trial, ...],
    gone: set[tuple[str, int]],
) -> Iterator[Problem]:
    """Compares the recorded choice with that of today; what is `gone` was named already."""
    then = {(trial.task, trial.attempt): trial for trial in results.trials}
    today = {(trial.task, trial.attempt): trial for trial in chosen}
    for key in sorted((then.keys() | today.keys()) - gone):
        task, attempt = key
        old, new = then.get(key), today.get(key)
        if old is None or new is None or _place(old) != _place(new):
            yield Problem(
                record,
                f"task {task}, attempt {attempt}: recorded is {_name(old)}; the native folders give {_name(new)}",
            )
            continue
        where = root.relative(folder / old.folder / "jobs" / old.run / old.trial)
        for name in _RECOMPUTED:
            recorded, native = getattr(old, name), getattr(new, name)
            if recorded != native and not (name == "task_digest" and recorded is None):
                yield Problem(f"{where}/result.json", f"{name} is {native!r}; recorded {recorded!r}")


def _place(trial: Trial) -> tuple[str, str, str]:
    return trial.folder, trial.run, trial.trial


def _name(trial: Trial | None) -> str:
    return "none" if trial is None else f"{trial.folder}/jobs/{trial.run}/{trial.trial}"


def _check_run(
    root: EvidenceRoot, run: Run, trials: list[FoundTrial], tasks: Mapping[str, TaskDigests]
) -> Iterator[Problem]:
    locked = locked_trials(run.job)
    if locked is None and trials:
        yield Problem(root.relative(run.job / "lock.json"), "missing or damaged; restore it from a backup")
    job, where_job = os.fspath(run.job), root.relative(run.job)
    for trial in trials:
        folder, where = f"{job}/{trial.outcome.trial}", f"{where_job}/{trial.outcome.trial}"
        # Files against one another first, then against the task: the order a reader narrows it down in.
        yield from check_trial_files(where, folder, where_job, locked, counts=trial.counts)
        if (task := tasks.get(trial.task)) is not None:
            yield from task.check(f"{where}/lock.json", "content", trial.outcome.task_digest)
            yield from task.check(f"{where}/result.json", "checksum", trial.outcome.task_checksum)


def check_trial_files(
    where: str, folder: str, where_job: str, locked: set[str] | None, *, counts: bool
) -> Iterator[Problem]:
    """Compares the files of a trial with one another and with its job's lock.

    Args:
        where: what the trial's folder is called in messages.
        folder: the trial's folder.
        where_job: what the job's folder is called.
        locked: digests of the trials in the job's lock; None where it cannot be read.
        counts: whether the trial counts; of one that does not, no more is asked than whose it is.
    """
    lock, config, result = (read_json(f"{folder}/{name}") for name in ("lock.json", "config.json", "result.json"))
    if locked is not None and lock and digest_json(lock) not in locked:
        yield Problem(f"{where}/lock.json", f"is not among the trials of {where_job}/lock.json")
    if not counts:
        return
    if not lock:
        yield Problem(f"{where}/lock.json", "missing or damaged; restore it from a backup")
    if result.get("config") != config:
        yield Problem(f"{where}/result.json", "the configuration in it is not that of config.json")
    yield from check_rewards(where, folder, result)


def locked_trials(job: Path) -> set[str] | None:
    """Returns the digests of the trials in a job's lock; None where it cannot be read."""
    trials = read_json(job / "lock.json").get("trials")
    if not isinstance(trials, list):
        return None
    return {digest_json(trial) for trial in trials}  # pyright: ignore[reportUnknownVariableType]


def check_rewards(where: str, folder: str, result: Mapping[str, Any]) -> Iterator[Problem]:
    """Compares what verifiers wrote with what Harbor made of it; where it made nothing, there is a reason on record."""
    steps: list[dict[str, Any]] = result.get("step_results") or []
    parts = [(f"steps/{step.get('step_name')}/verifier", step) for step in steps] or [("verifier", result)]
    for below, phase in parts:
        verified: dict[str, Any] | None = phase.get("verifier_result")
        rewards = verified.get("rewards") if verified else None
        if rewards is None:
            continue
        for name in ("reward.json", "reward.txt"):
            if os.path.isfile(path := f"{folder}/{below}/{name}"):  # noqa: PTH113 - asked of every trial
                written = _written_rewards(path)
                if written != rewards:
                    yield Problem(
                        f"{where}/{below}/{name}",
                        f"says {_shown(written)}, but result.json says {_shown(rewards)}; restore them from a backup",
                    )
                break


def _written_rewards(path: str) -> Any:
    try:
        data = Path(path).read_bytes()
        value: Any = json.loads(data) if path.endswith(".json") else {"reward": float(data)}
    except (OSError, ValueError, RecursionError):
        return None
    return value


def _shown(rewards: Any) -> str:
    if not isinstance(rewards, dict):
        return "nothing readable" if rewards is None else repr(rewards)
    return ", ".join(f"{key}={value}" for key, value in rewards.items()) or "no reward"  # pyright: ignore[reportUnknownVariableType]
