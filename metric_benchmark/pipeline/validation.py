# SPDX-License-Identifier: Apache-2.0
"""Native validation of an evidence root: the native folders against the records, the plans and the task folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from metric_benchmark.config import Case
from metric_benchmark.errors import EvidenceError, Problem
from metric_benchmark.evidence.index import read_execution_manifest
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger
from metric_benchmark.evidence.locks import lock_root, watch_root
from metric_benchmark.evidence.reader import read_manifest_index, read_raw_results, read_record
from metric_benchmark.evidence.writes import is_writable, write_record
from metric_benchmark.execution.task_digests import TaskDigests, digests_of_task
from metric_benchmark.execution.validation import NativeCheck, validate_variant
from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.records.execution import CaseIndex, RawResults
from metric_benchmark.records.validation import Deviation, SecretState, ValidationReport
from metric_benchmark.variants import variant_roles


@dataclass(frozen=True)
class Validation:
    """What validating saved evidence came to.

    Attributes:
        report: what was found.
        not_saved: why the report could not be written into the evidence; None where it was.
    """

    report: ValidationReport
    not_saved: str | None = None


def validate_results(run: ExperimentRun) -> Validation:
    """Compares saved evidence with its native folders and writes what came of it as `validation.json`.

    Task folders are compared where they are there and are what the case pins. Evidence in a folder that cannot be
    written is compared all the same, unless somebody who can is writing.

    Returns:
        The report; its deviations are not raised, `require_valid` does that.

    Raises:
        EvidenceError: run id, cases digest, case inventory, the manifest or an index is not this experiment's or is
            damaged; nothing is written.
        LockedError: another run uses the evidence.
        StorageError: the disk is full.
    """
    case_ids = {case.case_id for case in run.experiment.cases}
    manifest = read_execution_manifest(run.root, run.run_id, run.experiment.cases_sha256, case_ids)

    def check() -> ValidationReport:
        return check_native(run, {case: read_manifest_index(run.root, manifest, case) for case in manifest.cases})

    if not is_writable(run.root.path):
        with watch_root(run.root):
            return Validation(check(), not_saved=f"{run.root.path} cannot be written")
    with lock_root(run.root, "exclusive"):
        return Validation(write_validation(run.root, check()))


def check_native(run: ExperimentRun, indices: Mapping[str, CaseIndex]) -> ValidationReport:
    """Compares native folders with records; writes nothing, and raises for no deviation.

    Args:
        run: the experiment and its evidence.
        indices: the current index of each case.
    """
    total = NativeCheck()
    try:
        read_ledger(EvidenceRoot(run.root.execution_root))
    except EvidenceError as error:
        total.problems += error.problems
    tasks: dict[str, TaskDigests] = {}
    n_variants = 0
    for case in run.experiment.cases:
        results = _read_all(run.root, case, indices[case.case_id], run, total)
        known = _task_digests(case, results.values())
        tasks |= {f"{case.case_id}/{task}": digests for task, digests in known.items()}
        total.problems += [digests.problem for digests in known.values() if digests.problem is not None]
        n_variants += len(results)
        for record in results.values():
            total.add(validate_variant(run.root, record, known, reward_key=run.experiment.execution.reward_key))
    return ValidationReport(
        run_id=run.run_id,
        passed=not total.problems,
        validated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        n_variants=n_variants,
        n_trials=total.n_trials,
        n_files=total.n_files,
        n_other_runs=total.n_other_runs,
        tasks={name: digests.source for name, digests in tasks.items()},
        deviations=tuple(Deviation(place=p.place, message=p.message) for p in dict.fromkeys(total.problems)),
        implementation=implementation("execution"),
    )


def _read_all(
    root: EvidenceRoot, case: Case, index: CaseIndex, run: ExperimentRun, check: NativeCheck
) -> dict[str, RawResults]:
    """Reads the records of a case's variants; a damaged one is a deviation like any other."""
    where = root.relative(root.index(case.case_id))
    for variant in variant_roles(case.config, run.experiment.execution.roles):
        if variant not in index.variants:
            check.problems.append(Problem(where, f"has no results of variant {variant!r}"))
    found: dict[str, RawResults] = {}
    for variant, entry in index.variants.items():
        try:
            record = found[variant] = read_raw_results(root, index, variant)
        except EvidenceError as error:
            check.problems += error.problems
            continue
        told = {"role": record.role, "n_without_verdict": record.n_without_verdict}
        for name, value in told.items():
            if getattr(entry, name) != value:
                check.problems.append(
                    Problem(
                        where, f"variant {variant!r}: {name} is {getattr(entry, name)!r}; its record says {value!r}"
                    )
                )
    return found


def _task_digests(case: Case, results: Iterable[RawResults]) -> dict[str, TaskDigests]:
    records = list(results)
    return {
        task.id: digests_of_task(
            task.id,
            case.path_of(task),
            task.sha256 or "",
            [
                trial
                for record in records
                if record.inputs.get(f"task:{task.id}") == task.sha256
                for trial in record.trials
                if trial.task == task.id
            ],
        )
        for task in case.config.tasks
    }


def write_validation(
    root: EvidenceRoot, report: ValidationReport, secrets: Mapping[str, SecretState] | None = None
) -> ValidationReport:
    """Writes a report as that of the manifest that is there now.

    Raises:
        StorageError: it cannot be written.
    """
    update: dict[str, object] = {"evidence": {"execution.json": digest_file(root.manifest)}, "secrets": secrets or {}}
    report = report.model_copy(update=update)
    write_record(root.validation, report)
    return report


def current_validation(root: EvidenceRoot) -> ValidationReport | None:
    """Returns the report that holds for the manifest that is there now; None when there is none.

    An analysis in a folder of its own goes by that of the evidence it analyses.

    Raises:
        EvidenceError: a report is damaged.
    """
    if not root.manifest.exists():
        return None
    manifest = digest_file(root.manifest)
    for path in dict.fromkeys((root.validation, EvidenceRoot(root.execution_root).validation)):
        if path.exists():
            report = read_record(path, ValidationReport)
            if report.evidence.get("execution.json") == manifest:
                return report
    return None


def require_valid(root: EvidenceRoot, report: ValidationReport) -> None:
    """Raises with every deviation of a report.

    Raises:
        EvidenceError: there are deviations.
    """
    if report.passed:
        return
    n = len(report.deviations)
    raise EvidenceError(
        [
            *(Problem(deviation.place, deviation.message) for deviation in report.deviations),
            f"{root.execution_root}: the native evidence differs from its records in {n} "
            f"{'place' if n == 1 else 'places'}; nothing computed from them can be trusted",
        ]
    )
