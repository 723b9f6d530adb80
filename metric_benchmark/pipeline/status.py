# SPDX-License-Identifier: Apache-2.0
"""What of an experiment is missing, failed, stale or fresh, and why: from evidence and inputs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.execution.variant import Variant
from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.base import Record
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.execution import CaseIndex, IndexEntry, RawResults
from metric_benchmark.records.scores import MutantKills, MutantScores
from metric_benchmark.variants import resolve_variants

type State = Literal["missing", "failed", "stale", "fresh"]
type Stage = Literal["raw_results", "mutant_scores", "subset_scores", "coverage", "correlation"]


@dataclass(frozen=True)
class PartitionStatus:
    """One partition of one stage: its key (`case|variant` or `case`), its state and the reason."""

    stage: Stage
    key: str
    state: State
    reason: str
    n_superseded: int = 0


def experiment_status(run: ExperimentRun) -> tuple[PartitionStatus, ...]:
    """Returns the status of every partition, in the order of the stages.

    Raises:
        EvidenceError: an index is damaged or of another run.
    """
    variants = resolve_variants(run.experiment)
    found: list[PartitionStatus] = []
    for case in run.experiment.cases:
        own = [variant for variant in variants if variant.case_id == case.case_id]
        index = run.index(case.case_id) if run.root.index(case.case_id).exists() else None
        found += [_raw_status(run, variant, index) for variant in own]
        found += _analysis_status(run, case.case_id, own, index)
    order = ["raw_results", "mutant_scores", "subset_scores", "coverage", "correlation"]
    return tuple(sorted(found, key=lambda status: order.index(status.stage)))


def inert_mutants(run: ExperimentRun) -> dict[str, list[str]]:
    """Returns the mutants that the scores on disk found inert, by case; cases without any are left out."""
    found: dict[str, list[str]] = {}
    for case in run.experiment.cases:
        path = run.root.mutant_scores(case.case_id)
        try:
            scores = read_record(path, MutantScores) if path.exists() else None
        except EvidenceError:
            continue  # The status of the partition says so.
        names = [name for name, mutant in scores.mutants.items() if mutant.is_inert] if scores else []
        if names:
            found[case.case_id] = names
    return found


def _raw_status(run: ExperimentRun, variant: Variant, index: CaseIndex | None) -> PartitionStatus:
    entry = index.variants.get(variant.variant_id) if index else None
    folder = run.root.variant(variant.case_id, variant.variant_id)
    current = variant.config_hash[:16]
    n_old = sum(p.is_dir() and p.name != current for p in folder.iterdir()) if folder.is_dir() else 0
    state, reason = _raw_state(run, variant, entry, has_runs=folder.is_dir())
    return PartitionStatus("raw_results", variant.key, state, reason, n_old)


def _raw_state(run: ExperimentRun, variant: Variant, entry: IndexEntry | None, *, has_runs: bool) -> tuple[State, str]:
    if entry is None:
        return ("failed", "interrupted before its results were recorded") if has_runs else ("missing", "never run")
    if entry.config_hash != variant.config_hash:
        return "stale", "agent, operator, tasks, environment or attempts have changed since it ran"
    damage = _damage(run, variant, entry)
    if damage is not None:
        return "failed", f"damaged: {damage}"
    if entry.n_without_verdict:
        return "failed", f"{entry.n_without_verdict} trials without a verdict"
    return "fresh", ""


def _damage(run: ExperimentRun, variant: Variant, entry: IndexEntry) -> str | None:
    """Names a file of a variant that is not what the index and the record say; reads no native file."""
    root = run.root
    path = root.config(variant.case_id, variant.variant_id, entry.config_hash) / "raw-results.json"
    if not path.is_file():
        return f"{root.relative(path)} is missing; restore it from a backup, or run the experiment again"
    if digest_file(path) != entry.raw_results_sha256:
        return f"{root.relative(path)} is not the file that was recorded; restore it from a backup"
    try:
        results = read_record(path, RawResults)
    except EvidenceError as error:
        return str(error)
    for trial in results.trials:
        folder = root.trial(variant.case_id, variant.variant_id, trial.folder, trial.run, trial.trial)
        if not folder.is_dir():
            return (
                f"{root.relative(folder)} is missing; restore it from a backup, or remove "
                f"{root.relative(root.variant(variant.case_id, variant.variant_id))} to run the variant again"
            )
    return None


def is_sealed(run: ExperimentRun, partitions: Sequence[PartitionStatus]) -> bool:
    """Whether the experiment's seal is of the records and settings that are there now, and nothing is out of date."""
    path = run.root.experiment
    if not path.exists() or any(found.state != "fresh" for found in partitions):
        return False
    try:
        seal = read_record(path, ExperimentSeal)
    except EvidenceError:
        return False
    now = {"execution": run.experiment.execution_sha256, "analysis": run.experiment.analysis_sha256}
    return seal.inputs == now and all(
        file.is_file() and digest_file(file) == sha256
        for name, sha256 in seal.evidence.items()
        for file in [run.root.manifest if name == run.root.manifest.name else run.root.path / name]
    )


def _analysis_status(
    run: ExperimentRun, case_id: str, variants: list[Variant], index: CaseIndex | None
) -> list[PartitionStatus]:
    root = run.root
    raw = {v: entry.raw_results_sha256 for v, entry in index.variants.items()} if index else {}
    found: list[PartitionStatus] = []
    kills: dict[str, str] = {}
    for variant in variants:
        if variant.role in ("mutant", "control"):
            path = root.mutant_kills(case_id, variant.variant_id)
            state, reason = _record_state(path, MutantKills, "scoring", raw)
            found.append(PartitionStatus("mutant_scores", variant.key, state, reason))
            if path.exists():
                kills[f"mutants/{variant.variant_id}"] = digest_file(path)
    scored = {f"mutants/{v.variant_id}" for v in variants if v.role in ("mutant", "control")}
    scores, coverage = root.mutant_scores(case_id), root.coverage(case_id)
    state, reason = _record_state(scores, MutantScores, "scoring", {**raw, **kills}, needed=scored)
    found.append(PartitionStatus("subset_scores", case_id, state, reason))
    state, reason = _record_state(coverage, CoverageRecord, "coverage", raw)
    found.append(PartitionStatus("coverage", case_id, state, reason))
    upstream = {
        name: digest_file(path) for name, path in (("mutant-scores", scores), ("coverage", coverage)) if path.exists()
    }
    state, reason = _record_state(root.correlation(case_id), Correlation, "correlation", upstream)
    found.append(PartitionStatus("correlation", case_id, state, reason))
    return found


def _record_state[R: Record](
    path: Path, model: type[R], stage: str, current: dict[str, str], needed: set[str] | None = None
) -> tuple[State, str]:
    """Compares a record's provenance with the evidence that is current."""
    if not path.exists():
        return "missing", "never computed"
    try:
        record = read_record(path, model)
    except EvidenceError as error:
        return "failed", str(error)
    if record.implementation is None or record.implementation.stage_sha256 != implementation(stage).stage_sha256:
        return "stale", f"the code of the {stage} stage has changed"
    changed = sorted(name for name, digest in record.evidence.items() if current.get(name) != digest)
    if changed:
        return "stale", f"computed from older evidence of {', '.join(changed)}"
    lacking = sorted((needed or set()) - set(record.evidence))
    if lacking:
        return "stale", f"computed without {', '.join(lacking)}"
    return "fresh", ""
