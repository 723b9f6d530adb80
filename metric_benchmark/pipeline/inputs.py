# SPDX-License-Identifier: Apache-2.0
"""Freezes the inputs of a case's analysis, so that every stage of it uses the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from metric_benchmark.config import Case, Experiment
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_case
from metric_benchmark.evidence.reader import read_index, read_record
from metric_benchmark.evidence.writes import rename, write_record
from metric_benchmark.records.analysis import CaseDescription, CoverageConfig, FrozenSubsets, Selection
from metric_benchmark.records.base import Record
from metric_benchmark.records.execution import CaseIndex
from metric_benchmark.variants import variant_roles


@dataclass(frozen=True)
class ExperimentRun:
    """An experiment and the evidence root it is run in."""

    experiment: Experiment
    root: EvidenceRoot
    run_id: str
    _frozen: dict[str, CaseInputs] = field(default_factory=lambda: {}, init=False, repr=False, compare=False)

    def index(self, case_id: str) -> CaseIndex:
        """Reads the index of a case of this run."""
        return read_index(self.root, case_id, run_id=self.run_id)

    def inputs(self, case_id: str) -> CaseInputs:
        """Returns the inputs of a case's analysis: written and verified once, then the same for every stage."""
        found = self._frozen.get(case_id)
        if found is None or not all((self.root.analysis(case_id) / name).is_file() for name in found.files()):
            found = self._frozen[case_id] = freeze_inputs(self, case_id)
        return found


@dataclass(frozen=True)
class CaseInputs:
    """The frozen inputs of a case's analysis and their digests."""

    selection: Selection
    subsets: FrozenSubsets
    metrics: CoverageConfig
    description: CaseDescription

    @property
    def subset_tasks(self) -> dict[str, list[str]]:
        """Task ids by subset."""
        return {subset: list(tasks) for subset, tasks in self.subsets.subsets.items()}

    def files(self) -> dict[str, Record]:
        """The files they are frozen in, below the case's analysis."""
        return {
            "subsets.json": self.subsets,
            "coverage-config.json": self.metrics,
            "case-description.json": self.description,
            "selection.json": self.selection,
        }


def freeze_inputs(run: ExperimentRun, case_id: str) -> CaseInputs:
    """Writes the inputs of a case's analysis; an analysis made from other settings is moved aside, not overwritten.

    A changed list of variants alone moves nothing: what was computed for the other variants still holds.
    """
    case = run.experiment.case(case_id)
    inputs = case_inputs(run.experiment, case)
    folder = run.root.analysis(case_id)
    files = inputs.files()
    with lock_case(run.root, case_id):
        if folder.exists() and any(_differs(folder / name, record) for name, record in files.items()):
            for number in itertools.count(1):
                target = folder.with_name(f"{case_id}.superseded-{number}")
                if not target.exists():
                    rename(folder, target)
                    break
        for name, record in files.items():
            if not (folder / name).exists() or read_record(folder / name, type(record)) != record:
                write_record(folder / name, record)
    return inputs


def case_inputs(experiment: Experiment, case: Case) -> CaseInputs:
    """Returns the inputs of a case's analysis as the experiment's files have them now; writes nothing."""
    analysis = experiment.analysis
    case_id = case.case_id
    return CaseInputs(
        selection=Selection(
            case=case_id,
            tasks=tuple(task.id for task in case.config.tasks),
            variants=dict(variant_roles(case.config, experiment.execution.roles)),
            scoring=analysis.scoring.model_dump(mode="json"),
            correlation=analysis.correlation.model_dump(mode="json"),
        ),
        subsets=FrozenSubsets(
            case=case_id,
            chosen_using=case.subsets.chosen_using,
            generator=case.subsets.generator,
            subsets={subset.id: subset.tasks for subset in case.subsets.subsets},
        ),
        metrics=CoverageConfig(case=case_id, metrics=tuple(m.model_dump(mode="json") for m in analysis.coverage)),
        description=CaseDescription(
            case=case_id, description=case.description.model_dump(mode="json", exclude={"schema_name"})
        ),
    )


def _differs(path: Path, record: Record) -> bool:
    """Tells whether a frozen input on disk asks for another analysis than `record`."""
    if not path.exists():
        return False
    old, new = read_record(path, type(record)).to_json(), record.to_json()
    for ignored in ("variants", "tasks") if isinstance(record, Selection) else ():
        del old[ignored], new[ignored]
    return old != new


def raw_digests(index: CaseIndex, *variants: str) -> dict[str, str]:
    """Returns the digests of variants' raw results, as evidence of what is computed from them."""
    return {v: index.variants[v].raw_results_sha256 for v in variants if v in index.variants}
