# SPDX-License-Identifier: Apache-2.0
"""The one reader of records: manifest -> index -> raw results, with safe paths, schemas, digests and run id checked."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.hashing import digest_bytes
from metric_benchmark.records.base import Record
from metric_benchmark.records.execution import (
    CaseIndex,
    ExecutionInputs,
    ExecutionManifest,
    IndexEntry,
    RawResults,
)

MAX_BYTES = 1 << 30
_MAX_DEPTH = 200


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
    if sha256 is not None and digest_bytes(data) != sha256:
        raise EvidenceError(
            f"{path}: damaged or exchanged: its SHA-256 is {digest_bytes(data)[:16]}..., recorded {sha256[:16]}...; "
            "restore it from a backup, or run the stage again"
        )
    value = parse_json(data, str(path))
    found = value.get("schema")
    if found != model.SCHEMA:
        raise EvidenceError(f"{path}: schema is {found!r}; this version reads {model.SCHEMA!r}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        item = error.errors()[0]
        where = ".".join(str(part) for part in item["loc"])
        raise EvidenceError(f"{path}: damaged at {where or 'its top'}: {item['msg']}") from None


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
        raise EvidenceError(f"{where}: not a record: {error}") from None
    if not isinstance(value, dict):
        raise EvidenceError(f"{where}: not a record: expected a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _depth(data: bytes) -> int:
    """Counts brackets, an upper bound of the nesting that costs no recursion."""
    deepest = depth = 0
    in_string = escaped = False
    if data.count(b"[") + data.count(b"{") <= _MAX_DEPTH:
        return 0
    for byte in data:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            if depth > _MAX_DEPTH:
                return depth
            deepest = max(deepest, depth)
        elif byte in (0x5D, 0x7D):
            depth -= 1
    return deepest


def safe_path(root: EvidenceRoot, relative: str, named_in: Path) -> Path:
    """Resolves a path a record of the execution names; it must stay inside its evidence root, links included.

    Raises:
        EvidenceError: the path is absolute, climbs out, or a link leads out.
    """
    pure = PurePosixPath(relative)
    target = root.execution_root.joinpath(*pure.parts)
    bad = pure.is_absolute() or ".." in pure.parts or not relative or "\\" in relative
    if bad or not target.resolve().is_relative_to(root.execution_root.resolve()):
        raise EvidenceError(
            f"{named_in}: names {relative!r}, which is not a path inside the evidence; the record is not ours"
        )
    return target


def read_run_id(root: EvidenceRoot) -> str | None:
    """Returns the run id of an evidence root; None when it is new."""
    if not root.execution_inputs.exists():
        return None
    return read_record(root.execution_inputs, ExecutionInputs).run_id


def read_index(root: EvidenceRoot, case_id: str, *, run_id: str | None = None, sha256: str | None = None) -> CaseIndex:
    """Reads a case's index.

    Raises:
        EvidenceError: missing, damaged, of another case or another run.
    """
    path = root.index(case_id)
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
    results = read_record(path, RawResults, sha256=entry.raw_results_sha256)
    _same(path, "case", results.case, index.case)
    _same(path, "variant", results.variant, variant_id)
    _same(path, "run id", results.run_id, index.run_id)
    _same(path, "config hash", results.config_hash, entry.config_hash)
    return results


def read_manifest(root: EvidenceRoot, *, run_id: str | None = None) -> ExecutionManifest:
    """Reads the execution manifest.

    Raises:
        EvidenceError: missing, damaged, or of another run.
    """
    if not root.manifest.exists():
        partial = " (partial evidence is there)" if (root.path / "execution").is_dir() else ""
        raise EvidenceError(
            f"{root.manifest}: missing{partial}; `metric-benchmark run-evals EXPERIMENT --output {root.path}` goes on "
            "where it stopped and writes it"
        )
    manifest = read_record(root.manifest, ExecutionManifest)
    if run_id is not None:
        _same(root.manifest, "run id", manifest.run_id, run_id)
    return manifest


def read_case_results(root: EvidenceRoot, manifest: ExecutionManifest, case_id: str) -> dict[str, RawResults]:
    """Reads the raw results of all variants of a case: manifest -> index -> records.

    Raises:
        EvidenceError: something on the way is missing, damaged or another's.
    """
    entry = manifest.cases.get(case_id)
    if entry is None:
        raise EvidenceError(f"{root.manifest}: has no case {case_id!r}; it has: {', '.join(sorted(manifest.cases))}")
    path = safe_path(root, entry.index, root.manifest)
    if path != root.index(case_id):
        raise EvidenceError(
            f"{root.manifest}: case {case_id!r} names {entry.index!r}; expected {root.relative(root.index(case_id))!r}"
        )
    index = read_index(root, case_id, run_id=manifest.run_id, sha256=entry.index_sha256)
    return {variant: read_raw_results(root, index, variant) for variant in index.variants}


def _same(path: Path, what: str, found: str, expected: str) -> None:
    if found != expected:
        raise EvidenceError(f"{path}: {what} is {found!r}; expected {expected!r}: this is evidence of another run")
