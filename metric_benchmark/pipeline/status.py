# SPDX-License-Identifier: Apache-2.0
"""What of an experiment is missing, failed, stale or fresh, and why: gathers what `freshness` decides on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from metric_benchmark.config import Case
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import FOLDER_DIGITS, EvidenceRoot
from metric_benchmark.evidence.reader import Head, read_head, read_record
from metric_benchmark.execution.variant import Variant
from metric_benchmark.hashing import digest_bytes, digest_file, digest_json
from metric_benchmark.memory import garbage_kept
from metric_benchmark.pipeline.freshness import STAGES, Found, PartitionStatus, Place, Stage, Wanted, classify
from metric_benchmark.pipeline.inputs import CaseInputs, ExperimentRun, case_inputs
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.pipeline.wanted import Metrics, correlation_inputs, kills_inputs, raw_inputs, scores_inputs
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.base import Record
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.execution import CaseIndex, IndexEntry, RawResults
from metric_benchmark.records.scores import MutantKills, MutantScores
from metric_benchmark.variants import resolve_variants

__all__ = ["PartitionStatus", "experiment_status", "inert_mutants", "is_sealed", "trials_without_verdict"]

type _Partition = tuple[Wanted, Found | None]


@garbage_kept()
def experiment_status(run: ExperimentRun) -> tuple[PartitionStatus, ...]:
    """Returns the status of every partition, in the order of the stages.

    Reads indices and records, and looks whether trial folders are there; no native file is read. Where an index is
    damaged or of another run, all results of its case are failed.

    Raises:
        ConfigError: a variant cannot be resolved.
    """
    by_case = _by_case(run)
    metrics = Metrics.of(run.experiment)
    cases = [_CaseStatus(run, case, by_case.get(case.case_id, []), metrics) for case in run.experiment.cases]
    n_without_verdict = sum(case.n_without_verdict for case in cases)
    partitions = [partition for case in cases for partition in case.partitions(n_without_verdict)]
    order = {stage: number for number, stage in enumerate(STAGES)}
    partitions.sort(key=lambda partition: order[partition[0].place[0]])
    found = {wanted.place: record for wanted, record in partitions if record is not None}
    return classify([wanted for wanted, _ in partitions], found)


def trials_without_verdict(run: ExperimentRun) -> int:
    """Counts the trials without a verdict of all variants that ran under today's inputs; the settings bound this sum.

    Raises:
        ConfigError: a variant cannot be resolved.
        EvidenceError: an index is damaged or of another run.
    """
    return sum(
        _n_without_verdict(run.index(case_id), variants)
        for case_id, variants in _by_case(run).items()
        if run.root.index(case_id).exists()
    )


def _by_case(run: ExperimentRun) -> dict[str, list[Variant]]:
    found: dict[str, list[Variant]] = {}
    for variant in resolve_variants(run.experiment):
        found.setdefault(variant.case_id, []).append(variant)
    return found


def _n_without_verdict(index: CaseIndex, variants: Iterable[Variant]) -> int:
    entries = ((index.variants.get(variant.variant_id), variant.config_hash) for variant in variants)
    return sum(entry.n_without_verdict for entry, now in entries if entry is not None and entry.config_hash == now)


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


class _CaseStatus:
    """Gathers the partitions of one case."""

    def __init__(self, run: ExperimentRun, case: Case, variants: list[Variant], metrics: Metrics) -> None:
        self._run, self._root, self._case_id = run, run.root, case.case_id
        self._folder = str(run.root.case(case.case_id))
        self._variants = variants
        self._metrics = metrics
        self._inputs: CaseInputs = case_inputs(run.experiment, case)
        self._index: CaseIndex | None = None
        self._damage: str | None = None
        # One damaged index is no reason to say nothing of the other cases.
        try:
            self._index = run.index(case.case_id) if run.root.index(case.case_id).exists() else None
        except EvidenceError as error:
            self._damage = str(error)
        self._raw = {v: e.raw_results_sha256 for v, e in self._index.variants.items()} if self._index else {}

    @property
    def n_without_verdict(self) -> int:
        """How many of the case's trials have no verdict, under today's inputs."""
        return _n_without_verdict(self._index, self._variants) if self._index is not None else 0

    def partitions(self, n_without_verdict: int) -> Iterator[_Partition]:
        """Yields what is wanted and what is found of every partition, upstream first.

        Args:
            n_without_verdict: how many trials of the whole experiment have no verdict.
        """
        for variant in self._variants:
            yield self._raw_wanted(variant), self._raw_found(variant, n_without_verdict)
        roles = {variant.variant_id: variant.role for variant in self._variants}
        shared = [v for v, role in roles.items() if role in ("baseline", "screening")]
        scored = [v for v, role in roles.items() if role in ("mutant", "control")]
        settings = kills_inputs(self._inputs)
        folder = str(self._root.mutant_kills(self._case_id, "x").parent)
        kills: dict[str, str] = {}
        for variant in scored:
            names = [*shared, variant]
            upstream = [self._place("raw_results", name) for name in names]
            wanted = self._wanted("mutant_scores", variant, "scoring", settings, self._evidence(names), upstream)
            found, head = _analysis_found(f"{folder}/{variant}.json", MutantKills)
            if head is not None:
                kills[f"mutants/{variant}"] = head.sha256
            yield wanted, found
        yield from self._case_partitions(shared, scored, kills)

    def _case_partitions(self, shared: list[str], scored: list[str], kills: dict[str, str]) -> Iterator[_Partition]:
        root, case_id, inputs = self._root, self._case_id, self._inputs
        # What is not there is lacking all the same.
        evidence = {f"mutants/{v}": kills.get(f"mutants/{v}", "missing") for v in scored}
        evidence |= self._evidence([v for v in shared if v == "screening"])
        upstream = [self._place("mutant_scores", v) for v in scored]
        wanted = self._wanted("subset_scores", None, "scoring", scores_inputs(inputs), evidence, upstream)
        found, scores = _analysis_found(root.mutant_scores(case_id), MutantScores)
        yield wanted, found
        settings = self._metrics.inputs(self._run.experiment, inputs)
        upstream = [self._place("raw_results", "baseline")]
        wanted = self._wanted("coverage", None, "coverage", settings, self._evidence(["baseline"]), upstream)
        found, coverage = _analysis_found(root.coverage(case_id), CoverageRecord)
        yield wanted, found
        evidence = {name: head.sha256 for name, head in (("mutant-scores", scores), ("coverage", coverage)) if head}
        settings = correlation_inputs(inputs, len(self._run.experiment.cases))
        places: list[Place] = [("subset_scores", case_id), ("coverage", case_id)]
        wanted = self._wanted("correlation", None, "correlation", settings, evidence, places)
        yield wanted, _analysis_found(root.correlation(case_id), Correlation)[0]

    def _place(self, stage: Stage, variant: str | None) -> Place:
        return stage, self._case_id if variant is None else f"{self._case_id}|{variant}"

    def _evidence(self, variants: Iterable[str]) -> dict[str, str]:
        return {variant: self._raw[variant] for variant in variants if variant in self._raw}

    def _wanted(
        self,
        stage: Stage,
        variant: str | None,
        code: str,
        inputs: Mapping[str, str],
        evidence: Mapping[str, str],
        upstream: Iterable[Place],
    ) -> Wanted:
        place = self._place(stage, variant)
        return Wanted(place, inputs, evidence, code=implementation(code).stage_sha256, upstream=tuple(upstream))

    def _raw_wanted(self, variant: Variant) -> Wanted:
        entry = self._index.variants.get(variant.variant_id) if self._index else None
        is_same = entry is not None and entry.config_hash == variant.config_hash
        # What the hash sums up is asked for only where it differs.
        inputs = {} if is_same else raw_inputs(variant, self._run.experiment.execution.reward_key)
        return Wanted(("raw_results", variant.key), inputs, {}, summary=variant.config_hash)

    def _raw_found(self, variant: Variant, n_without_verdict: int) -> Found | None:
        if self._damage is not None:
            return Found({}, {}, problem=self._damage)
        entry = self._index.variants.get(variant.variant_id) if self._index else None
        folder = f"{self._folder}/{variant.variant_id}"
        n_old = _n_superseded(folder, variant.config_hash)
        if entry is None:
            if n_old is None:
                return None
            return Found({}, {}, problem="interrupted before its results were recorded", n_superseded=n_old)
        problem, note, inputs = None, "", dict[str, str]()
        if entry.config_hash != variant.config_hash:
            inputs = self._recorded_inputs(variant, entry)
        else:
            problem, note = self._raw_problem(folder, entry, n_without_verdict)
        return Found(inputs, {}, entry.config_hash, problem=problem, note=note, n_superseded=n_old or 0)

    def _raw_problem(self, folder: str, entry: IndexEntry, n_without_verdict: int) -> tuple[str | None, str]:
        damage = _damage(self._root, folder, entry)
        if damage is not None:
            return f"damaged: {damage}", ""
        if not entry.n_without_verdict:
            return None, ""
        told = f"{entry.n_without_verdict} trials without a verdict"
        tolerated = self._run.experiment.execution.max_trials_without_verdict
        if n_without_verdict <= tolerated:
            return None, f"{told}, which the settings tolerate"
        is_alone = entry.n_without_verdict == n_without_verdict
        return told if is_alone else f"{told}, {n_without_verdict} in all ({tolerated} tolerated)", ""

    def _recorded_inputs(self, variant: Variant, entry: IndexEntry) -> dict[str, str]:
        """Returns what an out-of-date record says it was made from; nothing where it cannot be read."""
        path = self._root.config(variant.case_id, variant.variant_id, entry.config_hash) / "raw-results.json"
        try:
            record = read_record(path, RawResults)
        except EvidenceError:
            return {}
        environment = {name: value for name, value in record.environment.items() if name != "imported"}
        named = {"attempts": str(record.attempts), "environment": digest_json(environment)}
        if record.reward_key is not None:
            named["reward_key"] = record.reward_key
        if record.implementation is not None:
            named["harbor"] = record.implementation.harbor
        return named | record.inputs


# Both are asked of every variant, where building `Path`s would take most of the time: paths are plain texts here.


def _n_superseded(folder: str, config_hash: str) -> int | None:
    """Counts a variant's configurations besides the current one; None where it has none at all."""
    try:
        with os.scandir(folder) as entries:
            return sum(entry.name != config_hash[:FOLDER_DIGITS] and entry.is_dir() for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _damage(root: EvidenceRoot, folder: str, entry: IndexEntry) -> str | None:
    """Names a file of a variant that is not what the index and the record say; reads no native file."""
    path = f"{folder}/{entry.config_hash[:FOLDER_DIGITS]}/raw-results.json"
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123
            data = stream.readall()
    except FileNotFoundError:
        return f"{root.relative(Path(path))} is missing; restore it from a backup, or run the experiment again"
    except OSError as error:
        return f"{root.relative(Path(path))} cannot be read: {error.strerror}"
    if digest_bytes(data) != entry.raw_results_sha256:
        return f"{root.relative(Path(path))} is not the file that was recorded; restore it from a backup"
    # The digest is that of what was written, so its form needs no second look.
    for trial in json.loads(data)["trials"]:
        native = f"{folder}/{trial['folder']}/jobs/{trial['run']}/{trial['trial']}"
        if not os.path.isdir(native):  # noqa: PTH112
            return (
                f"{root.relative(Path(native))} is missing; restore it from a backup, or remove "
                f"{root.relative(Path(folder))} to run the variant again"
            )
    return None


def _analysis_found(path: str | Path, model: type[Record]) -> tuple[Found | None, Head | None]:
    """Reads what a record of the analysis says of its origin; its head is there where it can be read."""
    try:
        head = read_head(path, model)
    except EvidenceError as error:
        return (Found({}, {}, problem=str(error)), None) if Path(path).exists() else (None, None)
    inputs = dict(head.inputs)
    for name, metric in head.value.get("metrics", {}).items() if model is CoverageRecord else ():
        if metric.get("files_sha256"):
            inputs[f"files:{name}"] = digest_json(metric["files_sha256"])
    return Found(inputs, head.evidence, code=head.code), head
