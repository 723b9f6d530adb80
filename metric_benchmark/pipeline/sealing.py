# SPDX-License-Identifier: Apache-2.0
"""Seals: the execution once its inventory is complete, the experiment once everything was re-checked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.index import complete_manifest, read_execution_manifest, write_manifest
from metric_benchmark.evidence.ledger import append_entry
from metric_benchmark.evidence.locks import lock_ledger
from metric_benchmark.evidence.reader import read_case_results, read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import implementation, require_current
from metric_benchmark.pipeline.saved import note_execution_source
from metric_benchmark.pipeline.secrets import referenced_variables, search_secrets, search_states
from metric_benchmark.pipeline.validation import check_native, current_validation, require_valid, write_validation
from metric_benchmark.records.analysis import CaseSeal, ExperimentInputs, ExperimentSeal
from metric_benchmark.records.base import comparable
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.execution import ExecutionManifest, RawResults, Role
from metric_benchmark.records.validation import SecretState, ValidationReport
from metric_benchmark.variants import resolve_variants


def seal_execution(run: ExperimentRun) -> ExecutionManifest:
    """Writes `execution.json` of a complete inventory, and `validation.json` of what was compared before.

    Pins are verified once more, the native folders are compared with what was recorded of them, and the evidence is
    searched for the values of secrets: fresh evidence is never scored unvalidated.

    Raises:
        EvidenceError: native files differ from the records; every deviation is named.
        ExecutionError: the inventory is not complete; every open variant is named.
        PinError: an input changed while the experiment ran.
        SecretError: evidence holds the value of a secret.
    """
    load_experiment(run.experiment.source.path, level="execution")
    manifest = complete_inventory(run)
    report = check_native(run, {case.case_id: run.index(case.case_id) for case in run.experiment.cases})
    require_valid(run.root, report)
    secrets = search_secrets(
        referenced_variables(run.experiment),
        [run.root.execution_root / "execution", run.root.execution_inputs, run.root.ledger],
    )
    manifest = write_manifest(run.root, manifest)
    write_validation(run.root, report, secrets)
    return manifest


def complete_inventory(run: ExperimentRun) -> ExecutionManifest:
    """Makes the manifest, if every variant has its results under today's inputs; writes nothing.

    Raises:
        ExecutionError: the inventory is not complete; every open variant is named.
    """
    expected: dict[str, dict[str, tuple[Role, str]]] = {case.case_id: {} for case in run.experiment.cases}
    for variant in resolve_variants(run.experiment):
        expected[variant.case_id][variant.variant_id] = (variant.role, variant.config_hash)
    return complete_manifest(
        run.root,
        run_id=run.run_id,
        cases_sha256=run.experiment.cases_sha256,
        expected=expected,
        max_without_verdict=run.experiment.execution.max_trials_without_verdict,
        implementation=implementation("execution"),
    )


def check_saved_execution(run: ExperimentRun) -> ExecutionManifest:
    """Checks run id, cases digest, case inventory and every record of saved evidence; writes nothing.

    Raises:
        EvidenceError: the evidence is missing, damaged or of another run.
    """
    case_ids = {case.case_id for case in run.experiment.cases}
    manifest = read_execution_manifest(run.root, run.run_id, run.experiment.cases_sha256, case_ids)
    for case_id in case_ids:
        read_case_results(run.root, manifest, case_id)
    return manifest


def guard_analysis(run: ExperimentRun, manifest: ExecutionManifest) -> None:
    """Writes `experiment-inputs.json` after execution and manifest were checked."""
    note_execution_source(run)
    guard = ExperimentInputs(
        run_id=run.run_id,
        name=run.experiment.name,
        cases_sha256=manifest.cases_sha256,
        gates=run.experiment.analysis.gates.model_dump(mode="json"),
        inputs={"execution": run.experiment.execution_sha256, "analysis": run.experiment.analysis_sha256},
        evidence={"execution.json": digest_file(run.root.manifest)},
        implementation=implementation("execution"),
    )
    path = run.root.experiment_inputs
    if not path.exists() or not read_record(path, ExperimentInputs).same_substance(guard):
        write_record(path, guard)


def seal_experiment(run: ExperimentRun) -> ExperimentSeal:
    """Writes `experiment.json` last, after all evidence and every case's correlation were verified again.

    Raises:
        EvidenceError: something is missing, damaged or out of date.
    """
    manifest = check_saved_execution(run)
    guard_analysis(run, manifest)
    cases: dict[str, CaseSeal] = {}
    evidence = {"execution.json": digest_file(run.root.manifest)}
    environments: set[str] = set()
    n_trials = n_without = 0
    for case in run.experiment.cases:
        correlation = read_record(run.root.correlation(case.case_id), Correlation)
        for name, path in (
            ("mutant-scores", run.root.mutant_scores(case.case_id)),
            ("coverage", run.root.coverage(case.case_id)),
        ):
            if not path.exists():
                raise EvidenceError(f"{path}: missing; run its stage again")
            require_current(run.root.correlation(case.case_id), correlation.evidence.get(name), digest_file(path))
            evidence[run.root.relative(path)] = digest_file(path)
        path = run.root.correlation(case.case_id)
        evidence[run.root.relative(path)] = digest_file(path)
        verdicts = {name: metric.verdict.verdict for name, metric in correlation.metrics.items()}
        cases[case.case_id] = CaseSeal(verdicts=dict(verdicts))
        for results in read_case_results(run.root, manifest, case.case_id).values():
            n_trials += len(results.trials)
            n_without += results.n_without_verdict
            environments |= _environments(results)
    validation = current_validation(run.root)
    seal = ExperimentSeal(
        run_id=run.run_id,
        name=run.experiment.name,
        cases_sha256=manifest.cases_sha256,
        cases=cases,
        native_validation="not_done" if validation is None else "done" if validation.passed else "failed",
        validated_at=validation.validated_at if validation else None,
        secrets=_search_evidence(run, validation),
        sealed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        n_trials=n_trials,
        n_without_verdict=n_without,
        environments=sorted(environments),
        inputs={"execution": run.experiment.execution_sha256, "analysis": run.experiment.analysis_sha256},
        evidence=evidence,
        implementation=implementation("correlation"),
    )
    return _write_once(run, seal)


def _environments(results: RawResults) -> set[str]:
    """Returns where a variant's trials ran; imported ones may have run elsewhere."""
    own = str(results.environment.get("type") or results.environment.get("import_path"))
    imported: Any = results.environment.get("imported") or []
    is_mixed = not imported or any("imported" not in trial.flags for trial in results.trials)
    return {*({own} if is_mixed else ()), *(str(name) for name in imported)}


def _search_evidence(run: ExperimentRun, validation: ValidationReport | None) -> dict[str, SecretState]:
    """Searches all evidence for secrets; not that of the execution again where its own seal has searched it."""
    names = referenced_variables(run.experiment)
    states = search_states(names)
    execution = run.root.execution_root / "execution"
    is_searched = validation is not None and all(
        validation.secrets.get(name) == "searched" for name, state in states.items() if state == "searched"
    )
    is_elsewhere = run.root.execution_path is not None and not is_searched
    search_secrets(
        names,
        [run.root.path, *([execution] if is_elsewhere else [])],
        without=[run.root.locks, *([execution] if is_searched else [])],
    )
    return states


def _write_once(run: ExperimentRun, seal: ExperimentSeal) -> ExperimentSeal:
    """Keeps the seal that is there when only its time would differ."""
    path = run.root.experiment
    if path.exists():
        found = read_record(path, ExperimentSeal)
        if comparable(found) == comparable(seal) and found.evidence == seal.evidence:
            return found
    with lock_ledger(run.root):
        append_entry(run.root, "seal", evidence_sha256=seal.evidence["execution.json"])
    write_record(path, seal)
    return seal
