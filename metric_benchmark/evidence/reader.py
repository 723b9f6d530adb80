# SPDX-License-Identifier: Apache-2.0
"""The one reader of records: manifest -> index -> raw results, with safe paths, schemas, digests and run id checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.stamps import stamp_problem
from metric_benchmark.hashing import digest_bytes
from metric_benchmark.records.base import Record
from metric_benchmark.records.execution import (
    CaseIndex,
    ExecutionInputs,
    ExecutionManifest,
    IndexEntry,
    RawResults,
    Trial,
)

MAX_BYTES = 1 << 30
_MAX_DEPTH = 200
#: What of a JSON text cannot change its nesting: whole strings, and everything that is no bracket.
_NOT_NESTING = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^][{}"]++', re.DOTALL)
_RESTORE = "restore it from a backup, or move it away and run its stage again"


def read_record[R: Record](path: Path, model: type[R], *, sha256: str | None = None) -> R:
    """Reads one record and checks its form.

    Args:
        path: the file.
        model: which record it must be.
        sha256: the digest it must have.

    Raises:
        EvidenceError: the file is missing, damaged, of another schema or of another digest.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise EvidenceError(f"{path}: larger than {MAX_BYTES} bytes; this is not a record of ours")
        data = path.read_bytes()
    except FileNotFoundError:
        raise EvidenceError(
            f"{path}: missing; run the stage that writes it (`metric-benchmark status` shows which)"
        ) from None
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror}") from None
    if sha256 is not None and (found := digest_bytes(data)) != sha256:
        raise EvidenceError(
            f"{path}: damaged or exchanged: its SHA-256 is {found[:16]}..., recorded {sha256[:16]}...; {_RESTORE}"
        )
    value = parse_json(data, str(path))
    _check_schema(path, value, model.SCHEMA)
    problem = stamp_problem(data, value)
    if problem is not None:
        raise EvidenceError(f"{path}: damaged: {problem}; {_RESTORE}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        item = error.errors()[0]
        where = ".".join(str(part) for part in item["loc"])
        raise EvidenceError(f"{path}: damaged at {where or 'its top'}: {item['msg']}") from None


@dataclass(frozen=True)
class Head:
    """What a record says of its origin; `sha256` is the file's, `value` its JSON as it stands, of unchecked form."""

    sha256: str
    code: str | None
    inputs: Mapping[str, str]
    evidence: Mapping[str, str]
    value: Mapping[str, Any]


def read_head(path: str | Path, model: type[Record]) -> Head:
    """Reads only what a record says of its origin; a whole record takes ten times as long.

    Args:
        path: the file; of thousands a text, since making a `Path` takes as long as reading it.
        model: the record's.

    Raises:
        EvidenceError: as `read_record`; the digest a record carries of itself vouches for the form of the rest.
    """
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123
            data = stream.readall()
        value: dict[str, Any] = json.loads(data)
        if value["schema"] == model.SCHEMA and value["implementation"] and stamp_problem(data, value) is None:
            code: str = value["implementation"]["stage_sha256"]
            return Head(digest_bytes(data), code, value["inputs"], value["evidence"], value)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    path = Path(path)
    record = read_record(path, model)
    code_or_none = record.implementation.stage_sha256 if record.implementation else None
    return Head(digest_bytes(path.read_bytes()), code_or_none, record.inputs, record.evidence, record.to_json())


def _check_schema(path: Path, value: dict[str, Any], expected: str) -> None:
    """Records are read by the schema they name; there is one version of each so far."""
    found = value.get("schema")
    if found == expected:
        return
    implementation = value.get("implementation")
    writer: Any = implementation.get("version") if isinstance(implementation, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    by = f", written by metric-benchmark {writer}" if isinstance(writer, str) else ""
    raise EvidenceError(f"{path}: schema is {found!r}{by}; this version reads {expected!r}")


def parse_json(data: bytes, where: str) -> dict[str, Any]:
    """Parses one JSON object strictly: UTF-8 without BOM, no duplicate keys, no NaN, bounded nesting.

    Raises:
        EvidenceError: naming the file and what is wrong with it.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            raise ValueError("a key is given twice")
        return result

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    try:
        depth = _depth(data)
        if depth > _MAX_DEPTH:
            raise ValueError(f"nested {depth} deep; at most {_MAX_DEPTH} is read")
        value = json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{where}: not a record: {error}; {_RESTORE}") from None
    if not isinstance(value, dict):
        raise EvidenceError(f"{where}: not a record: expected a JSON object; {_RESTORE}")
    return value  # pyright: ignore[reportUnknownVariableType]


def _depth(data: bytes) -> int:
    """Counts brackets outside strings, an upper bound of the nesting that costs no recursion."""
    if data.count(b"[") + data.count(b"{") <= _MAX_DEPTH:
        return 0
    deepest = depth = 0
    for byte in _NOT_NESTING.sub(b"", data):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if depth > _MAX_DEPTH:
                break
        else:
            depth -= 1
    return deepest


def safe_path(root: EvidenceRoot, relative: str, named_in: Path) -> Path:
    """Resolves a path a record of the execution names; it must stay inside its evidence root, links included.

    Raises:
        EvidenceError: the path is absolute, climbs out, or a link leads out.
    """
    pure = PurePosixPath(relative)
    target = root.execution_root.joinpath(*pure.parts)
    bad = pure.is_absolute() or ".." in pure.parts or not relative or "\\" in relative or "\0" in relative
    if bad or not _is_inside(root, target):
        raise EvidenceError(
            f"{named_in}: names {relative!r}, which is not a path inside the evidence; the record is not ours"
        )
    return target


def _is_inside(root: EvidenceRoot, path: Path) -> bool:
    return path.resolve().is_relative_to(root.execution_root.resolve())


def _require_inside(root: EvidenceRoot, path: Path) -> None:
    if not _is_inside(root, path):
        raise EvidenceError(f"{path}: a link that leads out of the evidence; put the file itself there")


def read_run_id(root: EvidenceRoot) -> str | None:
    """Returns the run id of an evidence root; None when it is new."""
    if not root.execution_inputs.exists():
        return None
    _require_inside(root, root.execution_inputs)
    return read_record(root.execution_inputs, ExecutionInputs).run_id


def read_index(root: EvidenceRoot, case_id: str, *, run_id: str | None = None, sha256: str | None = None) -> CaseIndex:
    """Reads a case's index.

    Raises:
        EvidenceError: missing, damaged, of another case or another run.
    """
    path = root.index(case_id)
    _require_inside(root, path)
    index = read_record(path, CaseIndex, sha256=sha256)
    _same(path, "case", index.case, case_id)
    if run_id is not None:
        _same(path, "run id", index.run_id, run_id)
    return index


def read_raw_results(root: EvidenceRoot, index: CaseIndex, variant_id: str) -> RawResults:
    """Reads a variant's current raw results through its case's index.

    Raises:
        EvidenceError: the index does not have the variant, or the record is missing, damaged or another's.
    """
    where = root.index(index.case)
    entry = index.variants.get(variant_id)
    if entry is None:
        raise EvidenceError(
            f"{where}: has no results of variant {variant_id!r}; run it with `metric-benchmark run-evals`"
        )
    return _read_entry(root, index, variant_id, entry)


def _read_entry(root: EvidenceRoot, index: CaseIndex, variant_id: str, entry: IndexEntry) -> RawResults:
    where = root.index(index.case)
    path = safe_path(root, entry.raw_results, where)
    expected = root.config(index.case, variant_id, entry.config_hash) / "raw-results.json"
    _names(where, f"variant {variant_id!r}", entry.raw_results, root.relative(expected))
    results = read_record(path, RawResults, sha256=entry.raw_results_sha256)
    _same(path, "case", results.case, index.case)
    _same(path, "variant", results.variant, variant_id)
    _same(path, "run id", results.run_id, index.run_id)
    _same(path, "config hash", results.config_hash, entry.config_hash)
    for trial in results.trials:
        for name in (trial.folder, trial.run, trial.trial):
            if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
                raise EvidenceError(
                    f"{path}: names {name!r} as part of a trial's folder, which is not a plain name; the record is not "
                    "ours"
                )
    return results


def trial_folder(root: EvidenceRoot, results: RawResults, trial: Trial) -> Path:
    """Returns the native folder of a recorded trial; it must stay inside the evidence, links included.

    Raises:
        EvidenceError: a link leads out.
    """
    folder = root.trial(results.case, results.variant, trial.folder, trial.run, trial.trial)
    _require_inside(root, folder)
    return folder


def read_manifest(root: EvidenceRoot, *, run_id: str | None = None) -> ExecutionManifest:
    """Reads the execution manifest and checks all that can be checked of it alone.

    Raises:
        EvidenceError: missing, damaged, of another run, or it names files that are not the indices of its cases.
    """
    path = root.manifest
    if not path.exists():
        partial = " (partial evidence is there)" if (root.execution_root / "execution").is_dir() else ""
        raise EvidenceError(
            f"{path}: missing{partial}; `metric-benchmark run-evals EXPERIMENT --output {root.execution_root}` goes on "
            "where it stopped and writes it"
        )
    _require_inside(root, path)
    manifest = read_record(path, ExecutionManifest)
    if run_id is not None:
        _same(path, "run id", manifest.run_id, run_id)
    used: dict[str, str] = {}
    for case_id, entry in manifest.cases.items():
        safe_path(root, entry.index, path)
        other = used.setdefault(entry.index, case_id)
        if other != case_id:
            raise EvidenceError(
                f"{path}: cases {other!r} and {case_id!r} name one index, {entry.index!r}; the record is not ours"
            )
    for case_id, entry in manifest.cases.items():
        _names(path, f"case {case_id!r}", entry.index, root.relative(root.index(case_id)))
    return manifest


def check_inventory(path: Path, found: Iterable[str], expected: Iterable[str]) -> None:
    """Checks that a manifest has exactly the cases of the experiment.

    Args:
        path: the manifest, for the message.
        found: its cases.
        expected: those of the experiment.

    Raises:
        EvidenceError: naming what is extra and what is missing.
    """
    extra, lacking = sorted(set(found) - set(expected)), sorted(set(expected) - set(found))
    if extra or lacking:
        raise EvidenceError(f"{path}: cases differ: not in the experiment {extra}, not in the evidence {lacking}")


def read_case_results(root: EvidenceRoot, manifest: ExecutionManifest, case_id: str) -> dict[str, RawResults]:
    """Reads the raw results of all variants of a case: manifest -> index -> records.

    Raises:
        EvidenceError: something on the way is missing, damaged or another's.
    """
    index = read_manifest_index(root, manifest, case_id)
    return {variant: read_raw_results(root, index, variant) for variant in index.variants}


def read_manifest_index(root: EvidenceRoot, manifest: ExecutionManifest, case_id: str) -> CaseIndex:
    """Reads the index of a case as the manifest names it; see `read_case_results`."""
    entry = manifest.cases.get(case_id)
    if entry is None:
        raise EvidenceError(f"{root.manifest}: has no case {case_id!r}; it has: {', '.join(sorted(manifest.cases))}")
    return read_index(root, case_id, run_id=manifest.run_id, sha256=entry.index_sha256)


def _names(path: Path, what: str, found: str, expected: str) -> None:
    if found != expected:
        raise EvidenceError(f"{path}: {what} names {found!r}; expected {expected!r}")


def _same(path: Path, what: str, found: str, expected: str) -> None:
    if found != expected:
        raise EvidenceError(f"{path}: {what} is {found!r}; expected {expected!r}: this is evidence of another run")
