# SPDX-License-Identifier: Apache-2.0
"""Seals: the execution once its inventory is complete, the experiment once everything was re-checked."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.evidence.index import complete_manifest, read_execution_manifest, write_manifest
from metric_benchmark.evidence.ledger import append_entry
from metric_benchmark.evidence.locks import lock_ledger
from metric_benchmark.evidence.reader import read_case_results, read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline.conclusion import conclude_cases, pool_cases
from metric_benchmark.pipeline.correlation import verified_coverage, verified_scores
from metric_benchmark.pipeline.inputs import ExperimentRun, case_inputs
from metric_benchmark.pipeline.provenance import implementation, require_current
from metric_benchmark.pipeline.saved import note_execution_source, require_own_execution
from metric_benchmark.pipeline.secrets import referenced_variables, search_secrets, search_states
from metric_benchmark.pipeline.validation import check_native, current_validation, require_valid, write_validation
from metric_benchmark.records.analysis import ExperimentInputs, ExperimentSeal
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
        EvidenceError: native files differ from the records; every deviation is named. Or the root only holds the
            analysis of another root's execution.
        ExecutionError: the inventory is not complete; every open variant is named.
        PinError: an input changed while the experiment ran.
        SecretError: evidence holds the value of a secret.
    """
    require_own_execution(run.root)
    load_experiment(run.experiment.source.path, level="execution")
    manifest = complete_inventory(run)
    report = check_native(run, {case.case_id: run.index(case.case_id) for case in run.experiment.cases})
    require_valid(run.root, report)
    secrets = search_secrets(
        referenced_variables(run.experiment),
        [run.root.execution_root / "execution", run.root.execution_inputs, run.root.ledger],
        public=run.experiment.execution.public_variables,
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
    return _read_saved(run)[0]


def _read_saved(run: ExperimentRun) -> tuple[ExecutionManifest, list[RawResults]]:
    case_ids = {case.case_id for case in run.experiment.cases}
    manifest = read_execution_manifest(run.root, run.run_id, run.experiment.cases_sha256, case_ids)
    return manifest, [r for case_id in case_ids for r in read_case_results(run.root, manifest, case_id).values()]


def guard_analysis(run: ExperimentRun, manifest: ExecutionManifest) -> None:
    """Writes `experiment-inputs.json` after execution and manifest were checked."""
    note_execution_source(run)
    guard = ExperimentInputs(
        run_id=run.run_id,
        name=run.experiment.name,
        cases_sha256=manifest.cases_sha256,
        gates=run.experiment.analysis.gates.model_dump(mode="json", exclude_unset=True),
        inputs={"execution": run.experiment.execution_sha256, "analysis": run.experiment.analysis_sha256},
        evidence={"execution.json": digest_file(run.root.manifest)},
        implementation=implementation("execution"),
    )
    path = run.root.experiment_inputs
    if not path.exists() or not read_record(path, ExperimentInputs).same_substance(guard):
        write_record(path, guard)


def seal_experiment(run: ExperimentRun) -> ExperimentSeal:
    """Writes `experiment.json` last, after inputs, evidence and every record of the analysis were verified again.

    Raises:
        ConfigError: an input file changed meanwhile.
        EvidenceError: something is missing, damaged or out of date.
        SecretError: evidence holds the value of a secret.
    """
    _check_inputs(run)
    manifest, results = _read_saved(run)
    correlations: dict[str, Correlation] = {}
    evidence = {"execution.json": digest_file(run.root.manifest)}
    for case in run.experiment.cases:
        correlations[case.case_id], files = _verify_analysis(run, case.case_id)
        evidence |= {run.root.relative(path): digest_file(path) for path in files}
    guard_analysis(run, manifest)
    validation = current_validation(run.root)
    seal = ExperimentSeal(
        run_id=run.run_id,
        name=run.experiment.name,
        cases_sha256=manifest.cases_sha256,
        cases=conclude_cases(correlations),
        pooled=pool_cases(run, correlations),
        native_validation="not_done" if validation is None else "done" if validation.passed else "failed",
        validated_at=validation.validated_at if validation else None,
        secrets=_search_evidence(run, validation),
        sealed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        n_trials=sum(len(record.trials) for record in results),
        n_without_verdict=sum(record.n_without_verdict for record in results),
        environments=sorted({name for record in results for name in _environments(record)}),
        inputs={"execution": run.experiment.execution_sha256, "analysis": run.experiment.analysis_sha256},
        evidence=evidence,
        implementation=implementation("correlation"),
    )
    return _write_once(run, seal)


def _check_inputs(run: ExperimentRun) -> None:
    """Checks that the files of the experiment are still those that were loaded."""
    now = load_experiment(run.experiment.source.path, level="analysis")
    pairs = {
        run.experiment.cases_source.path: (run.experiment.cases_sha256, now.cases_sha256),
        run.experiment.execution_source.path: (run.experiment.execution_sha256, now.execution_sha256),
        run.experiment.analysis_source.path: (run.experiment.analysis_sha256, now.analysis_sha256),
    }
    changed = [path for path, (then, today) in pairs.items() if then != today]
    if changed:
        raise ConfigError([f"{path}: changed while it was in use; run the same command again" for path in changed])


def _verify_analysis(run: ExperimentRun, case_id: str) -> tuple[Correlation, list[Path]]:
    """Reads every record of a case's analysis and checks that each was computed from what is there now.

    Returns:
        The correlation, and all files.
    """
    root = run.root
    folder = root.analysis(case_id)
    frozen = case_inputs(run.experiment, run.experiment.case(case_id)).files()
    for name, record in frozen.items():
        if read_record(folder / name, type(record)) != record:
            raise EvidenceError(
                f"{folder / name}: the analysis was made of other inputs than the experiment has now; run its stages "
                "again"
            )
    scores = verified_scores(run, case_id)
    kills = [root.mutant_kills(case_id, variant) for variant in (*scores.mutants, *scores.controls)]
    verified_coverage(run, case_id)
    path = root.correlation(case_id)
    correlation = read_record(path, Correlation)
    for name, upstream in (("mutant-scores", root.mutant_scores(case_id)), ("coverage", root.coverage(case_id))):
        require_current(path, correlation.evidence.get(name), digest_file(upstream))
    files = [folder / name for name in frozen]
    return correlation, [*files, *kills, root.mutant_scores(case_id), root.coverage(case_id), path]


def _environments(results: RawResults) -> set[str]:
    """Returns where a variant's trials ran; imported ones may have run elsewhere."""
    own = str(results.environment.get("type") or results.environment.get("import_path"))
    imported: Any = results.environment.get("imported") or []
    is_mixed = not imported or any("imported" not in trial.flags for trial in results.trials)
    return {*({own} if is_mixed else ()), *(str(name) for name in imported)}


def _search_evidence(run: ExperimentRun, validation: ValidationReport | None) -> dict[str, SecretState]:
    """Searches all evidence for secrets; not that of the execution again where its own seal has searched it."""
    names, public = referenced_variables(run.experiment), run.experiment.execution.public_variables
    states = search_states(names, public=public)
    execution = run.root.execution_root / "execution"
    is_searched = validation is not None and all(
        validation.secrets.get(name) == "searched" for name, state in states.items() if state == "searched"
    )
    is_elsewhere = run.root.execution_path is not None and not is_searched
    search_secrets(
        names,
        [run.root.path, *([execution] if is_elsewhere else [])],
        without=[run.root.locks, *([execution] if is_searched else [])],
        public=public,
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
