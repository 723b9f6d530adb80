# SPDX-License-Identifier: Apache-2.0
"""Updates a case's index, opens an evidence root, and seals the execution once its inventory is complete."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from metric_benchmark.errors import EvidenceError, ExecutionError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_case, lock_ledger
from metric_benchmark.evidence.reader import (
    check_inventory,
    read_index,
    read_manifest,
    read_record,
    read_run_id,
    safe_path,
)
from metric_benchmark.evidence.writes import rename, write_record
from metric_benchmark.hashing import digest_file
from metric_benchmark.records.analysis import ExperimentInputs
from metric_benchmark.records.base import Implementation
from metric_benchmark.records.execution import (
    CaseIndex,
    ExecutionInputs,
    ExecutionManifest,
    IndexEntry,
    ManifestEntry,
    RawResults,
    Role,
)


def open_root(root: EvidenceRoot, run_id: str, implementation: Implementation) -> None:
    """Names the run of a new root, or checks that an old one is of this run.

    Raises:
        EvidenceError: the root holds evidence of another run; nothing is written.
    """
    check_run_id(root, run_id)
    if read_run_id(root) is None:
        with lock_ledger(root):
            if read_run_id(root) is None:
                write_record(root.execution_inputs, ExecutionInputs(run_id=run_id, implementation=implementation))
        check_run_id(root, run_id)


def check_run_id(root: EvidenceRoot, run_id: str) -> None:
    """Checks that a root is new or of this run; so must be what it holds of an analysis.

    Raises:
        EvidenceError: the root holds evidence of another run.
    """
    found = {root.execution_inputs: read_run_id(root)}
    if root.experiment_inputs.exists():
        found[root.experiment_inputs] = read_record(root.experiment_inputs, ExperimentInputs).run_id
    for path, name in found.items():
        if name is not None and name != run_id:
            raise EvidenceError(
                f"{path}: holds evidence of run {name!r}; expected {run_id!r}. Give another --output, or "
                f"--run-id {name}"
            )


def update_index(root: EvidenceRoot, results: RawResults) -> bool:
    """Writes a variant's raw results and enters them in its case's index.

    Returns:
        Whether the index changed. A change sets aside a sealed experiment and the manifest, which no longer hold.

    Raises:
        StorageError: the disk is full or not writable; the index is the old one.
    """
    folder = root.config(results.case, results.variant, results.config_hash)
    path = folder / "raw-results.json"
    with lock_case(root, results.case):
        old = read_index(root, results.case, run_id=results.run_id) if root.index(results.case).exists() else None
        finish_updates(root, old)
        indexed = old.variants.get(results.variant) if old is not None else None
        written = path
        if path.exists() and read_record(path, RawResults).same_substance(results):
            # Another version of the code found the same: what was computed from the record still holds.
            digest = digest_file(path)
        else:
            if indexed is not None and indexed.raw_results == root.relative(path):
                # The index names this very file by its digest, so it is replaced only after the index.
                written = _successor(path)
            digest = write_record(written, results)
        entry = IndexEntry(
            role=results.role,
            config_hash=results.config_hash,
            folder=folder.name,
            raw_results=root.relative(path),
            raw_results_sha256=digest,
            n_without_verdict=results.n_without_verdict,
        )
        if indexed == entry:
            return False
        variants = {**(old.variants if old else {}), results.variant: entry}
        set_aside_seals(root)
        write_record(
            root.index(results.case),
            CaseIndex(
                run_id=results.run_id,
                case=results.case,
                variants=dict(sorted(variants.items())),
                implementation=results.implementation,
            ),
        )
        if written != path:
            rename(written, path)
    return True


def finish_updates(root: EvidenceRoot, index: CaseIndex | None) -> None:
    """Puts raw results in their place that an update had entered in the index when it was killed.

    The caller holds the case's lock.
    """
    if index is None:
        return
    for entry in index.variants.values():
        path = safe_path(root, entry.raw_results, root.index(index.case))
        successor = _successor(path)
        if not successor.exists():
            continue
        if digest_file(successor) == entry.raw_results_sha256:
            rename(successor, path)
        else:
            successor.unlink()


def _successor(path: Path) -> Path:
    return path.with_name(f"next-{path.name}")


def set_aside_seals(root: EvidenceRoot) -> None:
    """Renames experiment.json and removes the manifest's authority before an index changes."""
    with lock_ledger(root):
        if root.experiment.exists():
            for number in itertools.count(1):
                target = root.path / f"experiment.superseded-{number}.json"
                if not target.exists():
                    rename(root.experiment, target)
                    break
        # The manifest names the index by digest; it is written anew by the next seal.
        root.manifest.unlink(missing_ok=True)


def seal_execution(
    root: EvidenceRoot,
    *,
    run_id: str,
    cases_sha256: str,
    expected: Mapping[str, Mapping[str, tuple[Role, str]]],
    max_without_verdict: int,
    implementation: Implementation,
) -> ExecutionManifest:
    """Writes `execution.json` when the inventory is complete; see `complete_manifest` and `write_manifest`."""
    manifest = complete_manifest(
        root,
        run_id=run_id,
        cases_sha256=cases_sha256,
        expected=expected,
        max_without_verdict=max_without_verdict,
        implementation=implementation,
    )
    return write_manifest(root, manifest)


def complete_manifest(
    root: EvidenceRoot,
    *,
    run_id: str,
    cases_sha256: str,
    expected: Mapping[str, Mapping[str, tuple[Role, str]]],
    max_without_verdict: int,
    implementation: Implementation,
) -> ExecutionManifest:
    """Makes the manifest of a complete inventory; writes nothing.

    Args:
        root: the evidence root; the caller holds it.
        run_id: the run it must be of.
        cases_sha256: digest of `cases.yaml`.
        expected: role and config hash of each variant of each case, by ids.
        max_without_verdict: how many trials without a verdict are tolerated over all.
        implementation: what writes the manifest.

    Raises:
        ExecutionError: variants are missing, out of date or have trials without a verdict; all are named.
        EvidenceError: an index is damaged or of another run.
    """
    missing: list[str] = []
    without: dict[str, int] = {}
    cases: dict[str, ManifestEntry] = {}
    for case_id, variants in expected.items():
        path = root.index(case_id)
        if not path.exists():
            missing.append(f"{case_id}: nothing has been run")
            continue
        index = read_index(root, case_id, run_id=run_id)
        for variant_id, (_, config_hash) in variants.items():
            entry = index.variants.get(variant_id)
            if entry is None:
                missing.append(f"{case_id}|{variant_id}: not run")
            elif entry.config_hash != config_hash:
                missing.append(f"{case_id}|{variant_id}: its inputs have changed since it ran")
            elif entry.n_without_verdict:
                without[f"{case_id}|{variant_id}"] = entry.n_without_verdict
        cases[case_id] = ManifestEntry(index=root.relative(path), index_sha256=digest_file(path))
    if sum(without.values()) > max_without_verdict:
        missing += [f"{key}: {n} trials without a verdict" for key, n in without.items()]
    if missing:
        raise ExecutionError(
            [
                f"execution is incomplete; run `metric-benchmark run-evals` again to continue ({len(missing)} open):",
                *missing,
            ]
        )
    return ExecutionManifest(run_id=run_id, cases_sha256=cases_sha256, cases=cases, implementation=implementation)


def write_manifest(root: EvidenceRoot, manifest: ExecutionManifest) -> ExecutionManifest:
    """Writes `execution.json`; one that says the same, whichever version of the code wrote it, stays."""
    if root.manifest.exists() and read_record(root.manifest, ExecutionManifest).same_substance(manifest):
        return read_record(root.manifest, ExecutionManifest)
    write_record(root.manifest, manifest)
    return manifest


def read_execution_manifest(
    root: EvidenceRoot, run_id: str, cases_sha256: str, case_ids: set[str]
) -> ExecutionManifest:
    """Reads the manifest for an analysis: run id, cases digest and case inventory must be this experiment's.

    Raises:
        EvidenceError: naming what differs; nothing has been written.
    """
    manifest = read_manifest(root, run_id=run_id)
    if manifest.cases_sha256 != cases_sha256:
        raise EvidenceError(
            f"{root.manifest}: was made from another cases.yaml ({manifest.cases_sha256[:16]}..., now "
            f"{cases_sha256[:16]}...); restore that file, or run `metric-benchmark run-evals` with the new one"
        )
    check_inventory(root.manifest, manifest.cases, case_ids)
    return manifest
