# SPDX-License-Identifier: Apache-2.0
"""Which folder an analysis is written to and which one its execution is read from, when the two differ."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.evidence.writes import make_folder, storage_errors, write_record
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.records.analysis import ExecutionSource


def evidence_root(output: Path | None, results: Path | None = None) -> EvidenceRoot:
    """Names the evidence root of a command; writes nothing.

    Args:
        output: where the command writes (default: to the evidence it reads).
        results: saved evidence whose execution is analysed (default: what `output` holds or already points to).

    Raises:
        ConfigError: neither is given, or saved evidence is to be analysed in a folder that holds something else.
        EvidenceError: `results` does not exist, or `output` holds an execution of its own.
    """
    if results is not None and not results.is_dir():
        raise EvidenceError(f"{results}: no such folder; --results names the evidence of an earlier run")
    if output is None or (results is not None and _same(output, results)):
        if results is None:
            raise ConfigError("no evidence folder is named; give --output, or --results for saved evidence")
        return follow_pointer(EvidenceRoot(_normal(results)))
    root = EvidenceRoot(_normal(output))
    if results is None:
        return follow_pointer(root)
    if root.execution_inputs.exists():
        raise EvidenceError(
            f"{output}: holds an execution of its own, so the analysis of {results} cannot be written there; give "
            "another --output, or leave it out to write into --results"
        )
    require_evidence_or_nothing(root)
    return EvidenceRoot(root.path, execution_path=_normal(results))


def saved_root(folder: Path) -> EvidenceRoot:
    """Returns the evidence root in a folder that is only read.

    Raises:
        EvidenceError: there is no such folder; see also `follow_pointer`.
    """
    if not folder.is_dir():
        raise EvidenceError(
            f"{folder}: no such folder; expected one that `metric-benchmark run-experiment --output` wrote to"
        )
    return follow_pointer(EvidenceRoot(_normal(folder)))


def follow_pointer(root: EvidenceRoot) -> EvidenceRoot:
    """Returns a root with the execution it says it analyses, if it says so.

    Raises:
        EvidenceError: that execution is not there any more, or its run has another name.
    """
    if not root.execution_pointer.exists():
        return root
    source = read_record(root.execution_pointer, ExecutionSource)
    target = Path(os.path.normpath(root.path / source.path))
    if not target.is_dir():
        raise EvidenceError(
            f"{root.execution_pointer}: the evidence that was analysed here is no longer in {target}; say where it is "
            "with --results"
        )
    return EvidenceRoot(root.path, execution_path=target)


def require_own_execution(root: EvidenceRoot) -> None:
    """Checks that trials may be run into a root.

    Raises:
        ConfigError: the folder holds something else; see `require_evidence_or_nothing`.
        EvidenceError: the root only holds the analysis of another root's execution.
    """
    require_evidence_or_nothing(root)
    if root.execution_path is not None:
        raise EvidenceError(
            f"{root.path}: holds an analysis of the evidence in {root.execution_path}; give another --output to run "
            "trials, or --results to analyse that evidence again"
        )


def require_evidence_or_nothing(root: EvidenceRoot) -> None:
    """Checks that a folder is new, empty or evidence, so that nothing is mixed with files of other kinds.

    Raises:
        ConfigError: it holds something else.
    """
    if not root.path.is_dir() or root.is_evidence:
        return
    # What a file system or a file manager puts into a folder by itself is nobody's work.
    some = sorted(path.name for path in root.path.iterdir() if path.name[0] != "." and path.name != "lost+found")
    if some:
        shown = ", ".join(some[:3]) + (" ..." if len(some) > 3 else "")
        raise ConfigError(
            f"{root.path}: is neither empty nor evidence (it holds {shown}); nothing was written. Give a new or empty "
            f"folder, such as --output {root.path / 'runs'}"
        )


def note_execution_source(run: ExperimentRun) -> None:
    """Writes down, once everything was checked, which other root's execution is analysed here."""
    if run.root.execution_path is None:
        return
    source = ExecutionSource(run_id=run.run_id, path=os.path.relpath(run.root.execution_path, run.root.path))
    path = run.root.execution_pointer
    if not path.exists() or read_record(path, ExecutionSource) != source:
        write_record(path, source)


def recall_answers(run: ExperimentRun, case_id: str) -> None:
    """Brings the metrics' answers cached with the saved evidence to where the analysis looks for them."""
    if run.root.execution_path is None:
        return
    saved = EvidenceRoot(run.root.execution_path).answers(case_id)
    for path in sorted(saved.glob("*/*.json")):
        target = run.root.answers(case_id) / path.relative_to(saved)
        if not target.exists():
            with storage_errors(target):
                make_folder(target.parent)
                temporary = target.with_name(f".{target.name}.tmp")
                shutil.copyfile(path, temporary)
                temporary.replace(target)


def _normal(path: Path) -> Path:
    """Returns an absolute path without `..`, as a reader would write it; but where a link is on the way, as it is."""
    plain = Path(os.path.normpath(path.absolute()))
    return plain if plain.resolve() == path.resolve() else path.absolute()


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
