# SPDX-License-Identifier: Apache-2.0
"""Adopts Harbor jobs someone paid for elsewhere as runs of a variant."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.evidence.index import open_root, update_index
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import IMPORT_UNDONE, append_entry
from metric_benchmark.evidence.locks import lock_ledger, lock_root, lock_variant
from metric_benchmark.evidence.writes import (
    make_folder,
    rename,
    storage_errors,
    sync_file_system,
    write_bytes,
    write_record,
)
from metric_benchmark.execution.importing import Adoption, assess_job, copy_job, environment_name, find_jobs
from metric_benchmark.execution.inventory import find_trials, next_run, read_json
from metric_benchmark.execution.outcomes import part
from metric_benchmark.execution.recorded import PLAN_SUFFIX, record_results
from metric_benchmark.execution.task_digests import digests_of_task
from metric_benchmark.execution.validation import require_native
from metric_benchmark.execution.variant import Variant
from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.pipeline.saved import require_own_execution
from metric_benchmark.records.execution import PlannedTask, RawResults, RunPlan
from metric_benchmark.variants import resolve_variants

_STAGING = ".importing-"


@dataclass(frozen=True)
class ImportedRun:
    """A job that was adopted."""

    run: str
    job: str
    n_trials: int
    n_counted: int
    deviations: tuple[str, ...]


@dataclass(frozen=True)
class Import:
    """What importing came to.

    Attributes:
        runs: the jobs that were adopted, as which runs.
        left_out: trials that were not taken, and why.
        results: the variant's record afterwards.
    """

    runs: tuple[ImportedRun, ...]
    left_out: tuple[str, ...]
    results: RawResults
    deviations: tuple[str, ...] = field(default=())


def find_variant(run: ExperimentRun, name: str) -> Variant:
    """Finds a variant by `case|variant`, or by its id alone where there is one case.

    Raises:
        ConfigError: there is no such variant, or the case must be named.
    """
    case_id, _, variant_id = name.rpartition("|")
    if not case_id:
        cases = [case.case_id for case in run.experiment.cases]
        if len(cases) > 1:
            raise ConfigError(
                f"--variant {name}: the experiment has several cases; write CASE|{name}, CASE one of {cases}"
            )
        case_id = cases[0]
    variants = {v.variant_id: v for v in resolve_variants(run.experiment, case_id=run.experiment.case(case_id).case_id)}
    if variant_id not in variants:
        raise ConfigError(f"case {case_id!r} has no variant {variant_id!r}; it has: {', '.join(variants)}")
    return variants[variant_id]


def import_jobs(run: ExperimentRun, variant: Variant, jobs: Path) -> Import:
    """Adopts jobs as runs of a variant; their trials then count like any other.

    A trial is taken when it is finished, its agent is declared as the variant's and both of Harbor's digests of its
    task are those of a task of the case. Everything else about it that differs from a run of ours is listed and kept
    in the run's plan. No reward is looked at.

    Args:
        run: the experiment and its evidence.
        variant: whose runs the jobs become.
        jobs: a Harbor job folder, or a folder of some; it is not changed.

    Raises:
        EvidenceError: there is no job, or none of its trials can be taken; every reason is named, nothing is written.
            Or what was adopted does not hold; then it was removed again.
        LockedError: another process runs this variant.
        StorageError: the disk is full or not writable.
    """
    require_own_execution(run.root)
    reward_key = run.experiment.execution.reward_key
    tasks = {task.id: digests_of_task(task.id, task.path, task.sha256, []) for task in variant.tasks}
    found = [assess_job(job, variant, tasks, reward_key) for job in find_jobs(jobs)]
    with lock_root(run.root, "shared"):
        _leave_out_known(run.root, found)
        left_out = tuple(f"{adoption.job.name}/{text}" for adoption in found for text in adoption.left_out)
        if not any(adoption.trials for adoption in found):
            raise EvidenceError([*left_out, f"{jobs}: no trial in it can be taken as one of {variant.key}"])
        open_root(run.root, run.run_id, implementation("execution"))
        with lock_variant(run.root, variant.case_id, variant.variant_id):
            config = run.root.config(variant.case_id, variant.variant_id, variant.config_hash)
            record = config / "raw-results.json"
            before = record.read_bytes() if record.exists() else None
            runs = tuple(_adopt(run, variant, adoption) for adoption in found if adoption.trials)
            try:
                results = record_results(
                    run.root,
                    variant,
                    find_trials(run.root, variant.case_id, variant.variant_id, reward_key),
                    run_id=run.run_id,
                    reward_key=reward_key,
                    implementation=implementation("execution"),
                )
                require_native(run.root, variant, results, remedy=f"the import was undone; {jobs} is as it was")
            except EvidenceError:
                _undo(run, variant, runs)
                with storage_errors(record):
                    record.unlink(missing_ok=True)
                if before is not None:
                    write_bytes(record, before)
                raise
            update_index(run.root, results)
    return Import(runs, left_out, results)


def _leave_out_known(root: EvidenceRoot, found: list[Adoption]) -> None:
    """Leaves out trials the evidence has already, of whichever variant: nothing is counted twice."""
    known: dict[str, list[Path]] = {}
    for path in (root.execution_root / "execution").glob("*/*/*/jobs/*/*/result.json"):
        known.setdefault(path.parent.name, []).append(path)
    for adoption in found:
        kept: list[int] = []
        for number, (_, outcome) in enumerate(adoption.trials):
            same = [p for p in known.get(outcome.trial, []) if digest_file(p) == outcome.result_sha256]
            if same:
                adoption.left_out.append(
                    f"{outcome.trial}: is in the evidence already, as {root.relative(same[0].parent)}"
                )
            else:
                kept.append(number)
        adoption.trials = [adoption.trials[number] for number in kept]


def _adopt(run: ExperimentRun, variant: Variant, adoption: Adoption) -> ImportedRun:
    """Copies a job beside the runs, then plans it, then puts it in its place: a crash leaves nothing half adopted."""
    config = run.root.config(variant.case_id, variant.variant_id, variant.config_hash)
    with storage_errors(config):
        for stale in config.glob(f"{_STAGING}*"):
            shutil.rmtree(stale)
        name = next_run(config)
        staged = config / f"{_STAGING}{name}"
        make_folder(config / "jobs")
        copy_job(adoption, staged)
    sync_file_system(staged)
    plan = RunPlan(
        run_id=run.run_id,
        case=variant.case_id,
        variant=variant.variant_id,
        role=variant.role,
        config_hash=variant.config_hash,
        run=name,
        attempts=adoption.attempts,
        tasks=tuple(
            PlannedTask(task=task, trial_key=variant.trial_keys[task], path=path)
            for path, task in sorted(adoption.task_paths().items())
        ),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        imported_from=str(adoption.job.absolute()),
        imported_environment=_environment(variant, adoption.job),
        deviations=tuple(adoption.deviations),
        implementation=implementation("execution"),
    )
    write_record(config / f"{name}{PLAN_SUFFIX}", plan)
    # Before they count: trials that were adopted must never pass for ones run under the claims on record.
    with lock_ledger(run.root):
        append_entry(
            run.root, "import", case=variant.case_id, variant=variant.variant_id, folder=config.name, run=name,
            n_trials=len(adoption.trials),
        )  # fmt: skip
    rename(staged, config / "jobs" / name)
    return ImportedRun(name, str(adoption.job), len(adoption.trials), adoption.n_counted, tuple(adoption.deviations))


def _undo(run: ExperimentRun, variant: Variant, runs: tuple[ImportedRun, ...]) -> None:
    """Removes copies of which no trial entered an index, then takes back in the ledger that they were adopted."""
    config = run.root.config(variant.case_id, variant.variant_id, variant.config_hash)
    for done in runs:
        staged = config / f"{_STAGING}{done.run}"
        rename(config / "jobs" / done.run, staged)
        with storage_errors(config):
            (config / f"{done.run}{PLAN_SUFFIX}").unlink()
            shutil.rmtree(staged)
        with lock_ledger(run.root):
            append_entry(
                run.root, IMPORT_UNDONE, case=variant.case_id, variant=variant.variant_id, folder=config.name,
                run=done.run,
            )  # fmt: skip


def _environment(variant: Variant, job: Path) -> str:
    """Names where a job ran: as we do where it is the environment this experiment uses."""
    place = environment_name(part(read_json(job / "config.json"), "environment"))
    return variant.environment.kind if place == environment_name(dict(variant.environment.harbor)) else place
