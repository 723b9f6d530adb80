# SPDX-License-Identifier: Apache-2.0
"""Loads what an evidence root holds, finished or not, into one frozen structure that every kind of report reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger, removed_cases
from metric_benchmark.evidence.plans import read_plans
from metric_benchmark.evidence.reader import read_index, read_manifest, read_raw_results, read_record, read_run_id
from metric_benchmark.hashing import digest_file
from metric_benchmark.records.analysis import (
    CaseDescription,
    CoverageConfig,
    ExperimentInputs,
    ExperimentSeal,
    FrozenSubsets,
    Selection,
)
from metric_benchmark.records.base import Record
from metric_benchmark.records.correlation import Correlation, PooledEstimate, PowerPlan, PowerPlans, Settling
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.execution import CaseIndex, ExecutionManifest, RawResults, Trial
from metric_benchmark.records.scores import MutantKills, MutantScores


@dataclass(frozen=True)
class CaseReport:
    """All records of one case; what has not been computed is None or absent.

    `correlation` has the experiment's final verdicts once it is sealed; before, a case's own, which count the other
    cases' p-values as 1. `stale` says which records were computed from evidence that is no longer current.
    """

    case_id: str
    selection: Selection | None
    subsets: FrozenSubsets | None
    description: CaseDescription | None
    metrics: CoverageConfig | None
    index: CaseIndex | None
    results: dict[str, RawResults]
    kills: dict[str, MutantKills]
    scores: MutantScores | None
    coverage: CoverageRecord | None
    correlation: Correlation | None
    stale: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the case is called in its description, else its id."""
        return str(self.described.get("title") or self.case_id)

    @property
    def described(self) -> dict[str, Any]:
        """The case's description as metrics were given it."""
        return self.description.description if self.description else {}

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Configured metrics, in their order; those of the coverage record where no configuration was frozen."""
        if self.metrics is not None:
            return tuple(str(metric["name"]) for metric in self.metrics.metrics)
        return tuple(self.coverage.metrics) if self.coverage else ()

    def label(self, metric: str) -> str:
        """What a metric must be called so that nobody misreads it, e.g. `wiring test`; empty for an ordinary one."""
        found = self.coverage.metrics.get(metric) if self.coverage else None
        return (found.label if found else None) or ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks of the case, in its order."""
        if self.selection is not None:
            return self.selection.tasks
        return tuple(self.scores.eligible_tasks) if self.scores else ()

    @property
    def subset_tasks(self) -> dict[str, tuple[str, ...]]:
        """Task ids by subset, as frozen."""
        return dict(self.subsets.subsets) if self.subsets else {}


@dataclass(frozen=True)
class ReportData:
    """What a report is made of. `seal` is None for an experiment that is not complete.

    `plans` says, by case, what its design could show, where that was simulated; `settling`, by case and metric, what
    would settle a claim that stayed open; `plan_problem` what is wrong with the file of both.
    """

    root: EvidenceRoot
    run_id: str | None
    name: str
    inputs: ExperimentInputs | None
    manifest: ExecutionManifest | None
    seal: ExperimentSeal | None
    ledger: tuple[dict[str, Any], ...]
    cases: tuple[CaseReport, ...]
    plans: dict[str, PowerPlan] = field(default_factory=dict[str, PowerPlan])
    settling: dict[str, dict[str, Settling]] = field(default_factory=dict[str, dict[str, Settling]])
    plan_problem: str | None = None

    @property
    def is_sealed(self) -> bool:
        """Whether everything was re-checked and sealed, and nothing changed since."""
        return self.seal is not None and not any(case.stale for case in self.cases)

    @property
    def pooled(self) -> dict[str, PooledEstimate]:
        """Each metric's association over the cases; empty before the experiment is sealed."""
        return self.seal.pooled if self.seal is not None and self.is_sealed else {}

    @property
    def completeness(self) -> str:
        """One sentence: complete, or what is open."""
        stale = [text for case in self.cases for text in case.stale]
        if self.seal is not None and not stale:
            return f"Complete: sealed {self.seal.sealed_at} after all evidence was checked again."
        if stale:
            return "Out of date: " + "; ".join(stale) + ". Run the experiment again to bring it up to date."
        open_cases = [case.case_id for case in self.cases if case.correlation is None]
        if open_cases:
            return f"Not complete: no correlation yet for {', '.join(open_cases)}. Numbers shown here may still change."
        return "Not sealed: all stages ran, but the experiment was not checked and sealed as a whole."


def load_report(root: EvidenceRoot | Path, *, cases: tuple[str, ...] | None = None) -> ReportData:
    """Reads all records of an evidence root, finished or partly finished; writes nothing.

    Args:
        root: the evidence root.
        cases: which cases to read; all of them by default.

    Raises:
        EvidenceError: the folder holds no evidence, a case is unknown, or a record is damaged.
    """
    root = root if isinstance(root, EvidenceRoot) else EvidenceRoot(root)
    manifest = read_manifest(root) if root.manifest.exists() else None
    seal = _optional(root.experiment, ExperimentSeal)
    found = _case_ids(root, manifest, seal)
    if not found:
        raise EvidenceError(
            f"{root.path}: holds no evidence to report; expected a folder that `metric-benchmark run-experiment "
            "--output` wrote to"
        )
    unknown = [case for case in cases or () if case not in found]
    if unknown:
        raise EvidenceError(f"{root.path}: has no case {', '.join(unknown)}; it has: {', '.join(found)}")
    inputs = _optional(root.experiment_inputs, ExperimentInputs)
    run_id = read_run_id(root) or (seal.run_id if seal else None)
    loaded = tuple(_conclude(root, _load_case(root, case), seal) for case in (cases or found))
    power, plan_problem = read_plans(root)
    planned = _plans(power, loaded)
    return ReportData(
        root=root,
        run_id=run_id,
        name=(seal.name if seal else None) or (inputs.name if inputs else None) or run_id or root.path.name,
        inputs=inputs,
        manifest=manifest,
        seal=seal,
        ledger=_ledgers(root),
        cases=loaded,
        plans=planned,
        settling={case.case_id: _settling(power, case) for case in loaded if power and case.case_id in planned},
        plan_problem=plan_problem,
    )


def _settling(record: PowerPlans, case: CaseReport) -> dict[str, Settling]:
    """Returns what would settle those claims of a case that are still open, with what was estimated."""
    found: dict[str, Settling] = {}
    for name, settling in record.settling.get(case.case_id, {}).items():
        metric = case.correlation.metrics.get(name) if case.correlation else None
        if metric is None or metric.verdict.verdict != "inconclusive":
            continue
        effect = metric.calibrated.estimate if metric.calibrated else None
        if effect is not None and metric.verdict.direction == "less":
            effect = -effect
        if settling.effect == effect:
            found[name] = settling
    return found


def _plans(record: PowerPlans | None, cases: Iterable[CaseReport]) -> dict[str, PowerPlan]:
    """Returns the plans of cases that still have the size they were simulated for."""
    if record is None:
        return {}
    sizes = {c.case_id: (len(c.tasks), c.scores.n_mutants if c.scores else None, len(c.subset_tasks)) for c in cases}
    return {
        case: plan
        for case, plan in record.cases.items()
        if sizes.get(case) == (plan.n_tasks, plan.n_mutants, plan.n_subsets)
    }


def _ledgers(root: EvidenceRoot) -> tuple[dict[str, Any], ...]:
    """Returns the entries of the execution that is analysed, then those of the analysis where it is kept elsewhere."""
    execution = EvidenceRoot(root.execution_root)
    return (*read_ledger(execution), *(read_ledger(root) if root.execution_path is not None else ()))


def _conclude(root: EvidenceRoot, case: CaseReport, seal: ExperimentSeal | None) -> CaseReport:
    """Puts the verdicts of the experiment as a whole in the place of a case's own, if its seal is of this very record.

    A seal of an older version of the code has none; then the case's own stand.
    """
    sealed = seal.cases.get(case.case_id) if seal is not None else None
    if seal is None or sealed is None or case.correlation is None:
        return case
    path = root.correlation(case.case_id)
    if seal.evidence.get(root.relative(path), digest_file(path)) != digest_file(path):
        return replace(case, stale=(*case.stale, f"{case.case_id}: correlated anew after the experiment was sealed"))
    metrics = {
        name: metric.model_copy(update=dict(sealed.conclusions[name])) if name in sealed.conclusions else metric
        for name, metric in case.correlation.metrics.items()
    }
    concluded = case.correlation.model_copy(update={"metrics": metrics})
    return replace(case, correlation=concluded)


def trajectory_paths(root: EvidenceRoot, results: RawResults, trial: Trial) -> tuple[str, ...]:
    """Returns where a trial's native trajectories are, relative to the root; empty when it recorded none."""
    if trial.trajectory_sha256 is None:
        return ()
    folder = root.relative(root.trial(results.case, results.variant, trial.folder, trial.run, trial.trial))
    steps = sorted(name for name in trial.files_sha256 if name.endswith("/agent/trajectory.json"))
    return tuple(f"{folder}/{name}" for name in steps or ["agent/trajectory.json"])


def _case_ids(root: EvidenceRoot, manifest: ExecutionManifest | None, seal: ExperimentSeal | None) -> tuple[str, ...]:
    """Returns the cases of what was sealed, if anything was: others on disk were removed, or are not complete yet.

    A seal of the experiment is of the cases of the manifest it was made from; a manifest may be newer.
    """
    sealed = manifest or seal
    if sealed is not None:
        return tuple(sorted(sealed.cases))
    found = {path.parent.name for path in (root.execution_root / "execution").glob("*/results.json")}
    for path in (root.path / "analysis").glob("*/selection.json"):
        # An analysis that was set aside keeps its case's name inside, so its folder is not taken for a case.
        if read_record(path, Selection).case == path.parent.name:
            found.add(path.parent.name)
    found |= {
        path.parent.name
        for path in (root.path / "analysis").glob("*/correlation.json")
        if not (path.parent / "selection.json").exists()
    }
    return tuple(sorted(found - removed_cases(root)))


def _load_case(root: EvidenceRoot, case_id: str) -> CaseReport:
    folder = root.analysis(case_id)
    index = read_index(root, case_id) if root.index(case_id).exists() else None
    kills_found = sorted((folder / "mutants").glob("*.json"))
    scores = _optional(root.mutant_scores(case_id), MutantScores)
    coverage = _optional(root.coverage(case_id), CoverageRecord)
    correlation = _optional(root.correlation(case_id), Correlation)
    return CaseReport(
        case_id=case_id,
        selection=_optional(folder / "selection.json", Selection),
        subsets=_optional(folder / "subsets.json", FrozenSubsets),
        description=_optional(folder / "case-description.json", CaseDescription),
        metrics=_optional(folder / "coverage-config.json", CoverageConfig),
        index=index,
        results={variant: read_raw_results(root, index, variant) for variant in index.variants} if index else {},
        kills={record.variant: record for record in (read_record(path, MutantKills) for path in kills_found)},
        scores=scores,
        coverage=coverage,
        correlation=correlation,
        stale=_stale(root, case_id, index, scores, coverage, correlation),
    )


def _stale(
    root: EvidenceRoot,
    case_id: str,
    index: CaseIndex | None,
    scores: MutantScores | None,
    coverage: CoverageRecord | None,
    correlation: Correlation | None,
) -> tuple[str, ...]:
    """Compares the digests records were computed from with the files that are there now."""
    now = {variant: entry.raw_results_sha256 for variant, entry in index.variants.items()} if index else {}
    upstream = {"mutant-scores": root.mutant_scores(case_id), "coverage": root.coverage(case_id)}
    now |= {name: digest_file(path) for name, path in upstream.items() if path.exists()}
    kills = sorted((root.analysis(case_id) / "mutants").glob("*.json"))
    now |= {f"mutants/{path.stem}": digest_file(path) for path in kills}
    found: list[str] = []
    for name, record in (("mutant scores", scores), ("coverage", coverage), ("correlation", correlation)):
        old = [key for key, digest in (record.evidence if record else {}).items() if now.get(key, digest) != digest]
        if old:
            found.append(f"{case_id}: {name} computed before {', '.join(sorted(old))} changed")
    return tuple(found)


def _optional[R: Record](path: Path, model: type[R]) -> R | None:
    return read_record(path, model) if path.exists() else None
