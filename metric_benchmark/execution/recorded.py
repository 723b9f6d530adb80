# SPDX-License-Identifier: Apache-2.0
"""Makes a variant's raw results of the trials that were found, and compares what is found later with such a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from metric_benchmark.errors import EvidenceError, Problem
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.execution.plan import FoundTrial, archive_trials, choose_trials
from metric_benchmark.execution.variant import Variant
from metric_benchmark.hashing import digest_file
from metric_benchmark.records.base import Implementation
from metric_benchmark.records.execution import RawResults, RunPlan, Trial

PLAN_SUFFIX = ".plan.json"
#: What Harbor writes into a job's folder besides trials; `job.log` is a log, and no record covers it.
JOB_FILES = ("config.json", "lock.json", "result.json")


def record_results(
    root: EvidenceRoot,
    variant: Variant,
    found: Sequence[FoundTrial],
    *,
    run_id: str,
    reward_key: str,
    implementation: Implementation,
) -> RawResults:
    """Makes a variant's raw results: the chosen trials, and digests of all native files the choice rests on.

    Args:
        root: the evidence root.
        variant: what was asked for.
        found: all native trials of the variant.
        run_id: the run the evidence belongs to.
        reward_key: the reward that counts.
        implementation: recorded in the result.
    """
    chosen = choose_trials(variant.trial_keys, variant.attempts, found)
    folder = root.variant(variant.case_id, variant.variant_id)
    return RawResults(
        run_id=run_id,
        case=variant.case_id,
        variant=variant.variant_id,
        role=variant.role,
        config_hash=variant.config_hash,
        attempts=variant.attempts,
        tasks=tuple(task.id for task in variant.tasks),
        environment=_environment(variant, found, chosen),
        reward_key=reward_key,
        trials=chosen,
        archived=archive_trials(variant.trial_keys, found, chosen),
        implementation=implementation,
        inputs=variant.inputs,
        evidence=other_digests(folder, variant.trial_keys, found, chosen),
    )


def _environment(variant: Variant, found: Sequence[FoundTrial], chosen: Sequence[Trial]) -> dict[str, object]:
    """Returns where the trials ran; those that were imported may have run elsewhere."""
    recorded = {(trial.folder, trial.run, trial.trial) for trial in chosen}
    imported = {
        trial.imported_environment
        for trial in found
        if trial.imported_environment is not None and (trial.folder, trial.run, trial.outcome.trial) in recorded
    }
    return {**variant.environment.identity, **({"imported": sorted(imported)} if imported else {})}


def other_digests(
    folder: Path, trial_keys: Mapping[str, str], found: Sequence[FoundTrial], chosen: Sequence[Trial]
) -> dict[str, str]:
    """Digests the files no trial's record covers: plans, files of jobs, and trials that were not chosen.

    Only runs that were asked for trials of today's keys matter: no other can have been chosen from.

    Args:
        folder: the variant's folder.
        trial_keys: today's, by task id.
        found: all native trials.
        chosen: the records of those that were chosen.

    Returns:
        Digests by path below `folder`.
    """
    keys = set(trial_keys.values())
    digests: dict[str, str] = {}
    for path in sorted(folder.glob(f"*/run-*{PLAN_SUFFIX}")):
        plan = read_record(path, RunPlan)
        if keys.isdisjoint(task.trial_key for task in plan.tasks):
            continue
        config = path.parent
        digests[f"{config.name}/{path.name}"] = digest_file(path)
        job = config / "jobs" / plan.run
        for name in JOB_FILES:
            if (job / name).is_file():
                digests[f"{config.name}/jobs/{plan.run}/{name}"] = digest_file(job / name)
    recorded = {(trial.folder, trial.run, trial.trial) for trial in chosen}
    for trial in found:
        outcome = trial.outcome
        if trial.trial_key in keys and (trial.folder, trial.run, outcome.trial) not in recorded:
            where = f"{trial.folder}/jobs/{trial.run}/{outcome.trial}"
            files = dict(outcome.files_sha256)
            if outcome.result_sha256 is not None:
                files["result.json"] = outcome.result_sha256
            digests |= {f"{where}/{name}": digest for name, digest in files.items()}
    return dict(sorted(digests.items()))


def compare_with_records(
    root: EvidenceRoot, folder: Path, found: Sequence[FoundTrial], *, without: Path | None = None
) -> Iterator[Problem]:
    """Yields in what a variant's native files differ from the records that were made of them.

    Only trials that count are compared: one without a verdict is run again anyway. A job's result.json is left out:
    the process of a run that was killed may still have been writing it.

    Args:
        root: the evidence root.
        folder: the variant's folder.
        found: all its native trials.
        without: a record to leave out.
    """
    there = {(trial.folder, trial.run, trial.outcome.trial): trial for trial in found}
    for path in sorted(folder.glob("*/raw-results.json")):
        if path == without:
            continue
        try:
            record = read_record(path, RawResults)
        except EvidenceError as error:
            yield from error.problems
            continue
        for trial in record.trials:
            if trial.counts:
                where = folder / trial.folder / "jobs" / trial.run / trial.trial
                yield from compare_trial(root, where, trial, there.get((trial.folder, trial.run, trial.trial)))
        lasting = {name: sha256 for name, sha256 in record.evidence.items() if _is_lasting(name)}
        yield from compare_files(root, folder, lasting)


def _is_lasting(name: str) -> bool:
    """Whether a recorded path is that of a plan, or of a job's config.json or lock.json."""
    return name.endswith(PLAN_SUFFIX) or (name.count("/") == 3 and not name.endswith("/result.json"))


def compare_trial(root: EvidenceRoot, folder: Path, recorded: Trial, now: FoundTrial | None) -> Iterator[Problem]:
    """Yields which native files of a trial differ from what was recorded of them.

    Args:
        root: the evidence root.
        folder: the trial's folder.
        recorded: its record.
        now: the trial as it was found; None when it was not.
    """
    results = {} if recorded.result_sha256 is None else {"result.json": recorded.result_sha256}
    if now is None:
        if folder.is_dir():
            yield from compare_files(root, folder, results | recorded.files_sha256)
            return
        yield Problem(
            root.relative(folder),
            f"missing, but recorded as attempt {recorded.attempt} of task {recorded.task}; restore it from a backup",
        )
        return
    outcome = now.outcome
    pairs = {"result.json": (recorded.result_sha256, outcome.result_sha256)}
    names = [*recorded.files_sha256, *(name for name in outcome.files_sha256 if "/reward." in name)]
    pairs |= {name: (recorded.files_sha256.get(name), outcome.files_sha256.get(name)) for name in names}
    if not any("trajectory" in name for name in names):
        pairs["agent/trajectory.json"] = (recorded.trajectory_sha256, outcome.trajectory_sha256)
    for name, (then, today) in pairs.items():
        if then != today:
            yield _difference(f"{root.relative(folder)}/{name}", then, today)


def compare_files(root: EvidenceRoot, folder: Path, recorded: Mapping[str, str]) -> Iterator[Problem]:
    """Yields which files below a folder differ from their recorded digests."""
    for name, then in recorded.items():
        path = folder / name
        today = digest_file(path) if path.is_file() else None
        if then != today:
            yield _difference(root.relative(path), then, today)


def _difference(place: str, then: str | None, today: str | None) -> Problem:
    if today is None:
        return Problem(place, "missing, but recorded; restore it from a backup")
    if then is None:
        return Problem(place, "was not there when the trial was recorded; move it out of the evidence")
    return Problem(
        place,
        f"damaged or exchanged: its SHA-256 is {today[:16]}..., recorded {then[:16]}...; restore it from a backup",
    )
