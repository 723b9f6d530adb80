# SPDX-License-Identifier: Apache-2.0
"""Evidence roots made from drawn matrices by the real scoring and correlation functions, without any trial run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metric_benchmark.config.models import CorrelationConfig, ScoringConfig
from metric_benchmark.correlation import correlate
from metric_benchmark.evidence.index import open_root, update_index
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_index
from metric_benchmark.evidence.writes import write_bytes, write_record
from metric_benchmark.hashing import digest_bytes, digest_file
from metric_benchmark.records.analysis import (
    CaseDescription,
    CaseSeal,
    CoverageConfig,
    ExperimentInputs,
    ExperimentSeal,
    FrozenSubsets,
    Selection,
)
from metric_benchmark.records.base import Implementation
from metric_benchmark.records.correlation import (
    Calibrated,
    Interval,
    MetricCorrelation,
    PermutationTest,
    Verdict,
)
from metric_benchmark.records.coverage import CoverageRecord, MetricCoverage, SubsetCoverage
from metric_benchmark.records.execution import ExecutionManifest, ManifestEntry, RawResults, Trial
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant

IMPLEMENTATION = Implementation(version="0.1.0", stage_sha256="5" * 64, harbor="0.26.0", pydantic="2.12.0")
HOSTILE = "<script>alert('x')</script>"


@dataclass(frozen=True)
class World:
    """How large a drawn case is, and what is special about it."""

    n_tasks: int = 20
    n_mutants: int = 12
    n_items: int = 10
    n_subsets: int = 60
    metrics: tuple[str, ...] = ("tool_calls", "suite_size", "synthetic")
    attempts: int = 1
    n_controls: int = 2
    rule: str = "deterministic"
    seed: int = 7
    link: float = 0.8
    hostile: bool = False
    opaque: str | None = None
    verdicts: Mapping[str, str] | None = None
    trajectories: bool = False
    flaky: float = 0.0
    chosen_using: str = "none"
    replicates: int = 200

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(f"task-{i + 1:02d}" for i in range(self.n_tasks))

    @property
    def mutants(self) -> tuple[str, ...]:
        kinds = ("budget", "blind", "stale", "amnesia", "no-grep", "early-stop")
        return tuple(f"{kinds[i % len(kinds)]}-{i // len(kinds) + 1}" for i in range(self.n_mutants))


def write_world(path: Path, cases: Mapping[str, World], *, sealed: bool = True, stop_after: str = "") -> EvidenceRoot:
    """Writes an evidence root. `stop_after` leaves it at a stage: `execution`, `scores` or `coverage`."""
    root = EvidenceRoot(path)
    open_root(root, "drawn", IMPLEMENTATION)
    for case_id, world in cases.items():
        _write_case(root, case_id, world, stop_after)
    if stop_after:
        return root
    manifest = ExecutionManifest(
        run_id="drawn",
        cases_sha256="c" * 64,
        cases={
            case: ManifestEntry(index=root.relative(root.index(case)), index_sha256=digest_file(root.index(case)))
            for case in cases
        },
        implementation=IMPLEMENTATION,
    )
    write_record(root.manifest, manifest)
    guard = ExperimentInputs(
        run_id="drawn", name="drawn-experiment", cases_sha256="c" * 64,
        inputs={"execution": "e" * 64, "analysis": "a" * 64},
        evidence={"execution.json": digest_file(root.manifest)}, implementation=IMPLEMENTATION,
    )  # fmt: skip
    write_record(root.experiment_inputs, guard)
    if sealed:
        write_record(root.experiment, _seal(root, cases))
    return root


def change_coverage(root: EvidenceRoot, case: str) -> None:
    """Writes a case's coverage anew, as if its metric's code had changed."""
    from metric_benchmark.evidence.reader import read_record

    record = read_record(root.coverage(case), CoverageRecord)
    metrics = {name: m.model_copy(update={"code_sha256": "0" * 64}) for name, m in record.metrics.items()}
    write_record(root.coverage(case), record.model_copy(update={"metrics": metrics}))


def _seal(root: EvidenceRoot, cases: Mapping[str, World]) -> ExperimentSeal:
    from metric_benchmark.evidence.reader import read_record

    n_trials = 0
    for case in cases:
        index = read_index(root, case)
        for entry in index.variants.values():
            n_trials += len(read_record(root.path / entry.raw_results, RawResults).trials)
    return ExperimentSeal(
        run_id="drawn", name="drawn-experiment", cases_sha256="c" * 64, cases=dict.fromkeys(cases, CaseSeal()),
        native_validation="not_done",
        sealed_at="2026-03-04T10:00:00+00:00", n_trials=n_trials, n_without_verdict=0, environments=["local"],
        inputs={"execution": "e" * 64, "analysis": "a" * 64},
        evidence={"execution.json": digest_file(root.manifest)}, implementation=IMPLEMENTATION,
    )  # fmt: skip


def _write_case(root: EvidenceRoot, case_id: str, world: World, stop_after: str) -> None:
    rng = np.random.default_rng(world.seed)
    tasks, mutants = world.tasks, world.mutants
    depth = rng.random(world.n_tasks)
    kills = rng.random((world.n_tasks, world.n_mutants)) < 0.12 + 0.25 * depth[:, None] * rng.random(world.n_mutants)
    kills[:, 0] = False
    if world.n_mutants > 2:
        kills[:, 2] = kills[:, 1]
    kills[0] = False
    cover = {name: _cover(rng, world, kills, name) for name in world.metrics}
    controls = tuple(f"control-{i + 1}" for i in range(world.n_controls))
    roles = {"baseline": "baseline", "screening": "screening"}
    roles |= dict.fromkeys(controls, "control") | dict.fromkeys(mutants, "mutant")
    results = {
        variant: _results(root, case_id, variant, role, world, rng, _column(kills, mutants, variant))
        for variant, role in roles.items()
    }
    for record in results.values():
        update_index(root, record)
    subsets = _subsets(rng, world)
    scoring = ScoringConfig.model_validate({"kill_rule": {"name": world.rule}})
    correlation = CorrelationConfig(replicates=world.replicates, seed=11)
    title = f"Desk {HOSTILE}" if world.hostile else "A clerk at a desk"
    folder = root.analysis(case_id)
    config = [{"name": name, "metric": None, "settings": {}} for name in world.metrics]
    frozen = {
        "selection.json": Selection(
            case=case_id, tasks=tasks, variants=roles,
            scoring=scoring.model_dump(mode="json"), correlation=correlation.model_dump(mode="json"),
        ),
        "subsets.json": FrozenSubsets(
            case=case_id, chosen_using=world.chosen_using, generator={"seed": world.seed}, subsets=subsets
        ),
        "coverage-config.json": CoverageConfig(case=case_id, metrics=tuple(config)),
        "case-description.json": CaseDescription(
            case=case_id, description={"title": title, "text": f"Looks things up. {HOSTILE if world.hostile else ''}",
                                       "tools": ["ls", "grep"]},
        ),
    }  # fmt: skip
    for name, record in frozen.items():
        write_record(folder / name, record)
    if stop_after == "execution":
        return
    screening = results["screening"].rewards()
    eligibility = assess_eligibility(tasks, screening, scoring)
    kinds = {m: m.rsplit("-", 1)[0].replace("-", "_") for m in mutants}
    digests = {v: e.raw_results_sha256 for v, e in read_index(root, case_id).variants.items()}
    scored = []
    for variant in (*mutants, *controls):
        record = score_mutant(
            scoring, eligibility, results["baseline"].rewards(), results[variant].rewards(), variant=variant,
            role="control" if variant in controls else "mutant", operator=kinds.get(variant),
        ).model_copy(update={"evidence": {variant: digests[variant]}, "implementation": IMPLEMENTATION})  # fmt: skip
        write_record(root.mutant_kills(case_id, variant), record)
        scored.append(record)
    scores = score_case(eligibility, scored, subsets).model_copy(
        update={
            "implementation": IMPLEMENTATION,
            "evidence": {f"mutants/{v}": digest_file(root.mutant_kills(case_id, v)) for v in (*mutants, *controls)},
        }
    )
    write_record(root.mutant_scores(case_id), scores)
    if stop_after == "scores":
        return
    measured = CoverageRecord(
        case_id=case_id,
        metrics={name: _measured(world, name, cover[name], subsets) for name in world.metrics},
        implementation=IMPLEMENTATION,
        evidence={"baseline": digests["baseline"]},
    )
    write_record(root.coverage(case_id), measured)
    if stop_after == "coverage":
        return
    record = correlate(
        scores, {name: m.model_dump(mode="json") for name, m in measured.metrics.items()}, subsets, correlation,
        np.random.default_rng(11), chosen_using=world.chosen_using, case=case_id,
    )  # fmt: skip
    decided = {
        name: decide(metric, world.verdicts[name], 0.05) if name in (world.verdicts or {}) else metric
        for name, metric in record.metrics.items()
    }
    evidence = {"mutant-scores": root.mutant_scores(case_id), "coverage": root.coverage(case_id)}
    update = {
        "metrics": decided,
        "implementation": IMPLEMENTATION,
        "evidence": {name: digest_file(path) for name, path in evidence.items()},
    }
    write_record(root.correlation(case_id), record.model_copy(update=update))


def decide(metric: MetricCorrelation, verdict: str, null_mean: float) -> MetricCorrelation:
    """Gives a metric made-up inference around its real estimate, with the wanted verdict."""
    estimate = metric.estimates.partial_spearman_given_size
    value = estimate.value if estimate.status == "ok" else 0.0
    calibrated = Calibrated(
        estimate=value - null_mean, low=value - null_mean - 0.2, high=value - null_mean + 0.15, null_mean=null_mean
    )
    p = {"supported": 0.003, "refuted": 0.4}.get(verdict, 0.08)
    return metric.model_copy(
        update={
            "test": PermutationTest(
                statistic=value, p_value=p, n_permutations=200, exact=False, statistic_name=metric.primary,
                direction="greater", permuted="coverage", null_mean=null_mean,
            ),
            "interval": Interval(
                low=value - 0.2, high=value + 0.15, level=0.9, stderr_z=0.12, approximate=False, n_replicates=200,
                n_undefined=0, resampled="tasks_and_mutants",
            ),
            "calibrated": calibrated,
            "verdict": Verdict(
                verdict=verdict, reason=f"made up: {verdict}", minimum_shown=False, p_adjusted=min(1.0, 2 * p),
                direction="greater", minimum_effect=0.1, alpha=0.05, n_family=2,
            ),
        }
    )  # fmt: skip


def _cover(rng: np.random.Generator, world: World, kills: np.ndarray, name: str) -> np.ndarray:
    if name == "suite_size":
        return np.eye(world.n_tasks, dtype=bool)
    rich = kills.mean(axis=1) if name != "synthetic" else rng.random(world.n_tasks) * 0.5
    chance = np.clip(0.08 + world.link * rich[:, None] * rng.random(world.n_items), 0, 1)
    return rng.random((world.n_tasks, world.n_items)) < chance


def _column(kills: np.ndarray, mutants: Sequence[str], variant: str) -> np.ndarray | None:
    return kills[:, list(mutants).index(variant)] if variant in mutants else None


def _results(
    root: EvidenceRoot, case_id: str, variant: str, role: str, world: World, rng: np.random.Generator,
    killed: np.ndarray | None,
) -> RawResults:  # fmt: skip
    config_hash = digest_bytes(f"{case_id}|{variant}".encode())
    trials = []
    for row, task in enumerate(world.tasks):
        for attempt in range(1, world.attempts + 1):
            failed = (killed is not None and killed[row]) or rng.random() < world.flaky
            trial = f"{task}__{digest_bytes(f'{variant}{task}{attempt}'.encode())[:7]}"
            digest = None
            if world.trajectories:
                digest = _trajectory(root.trial(case_id, variant, config_hash[:16], "run-1", trial))
            status = "infrastructure" if role == "mutant" and rng.random() < 0.01 * bool(world.flaky) else "valid"
            trials.append(
                Trial(
                    task=task, attempt=attempt, status=status,
                    reason="EnvironmentStartTimeoutError" if status != "valid" else None,
                    reward=None if status != "valid" else 0.0 if failed else 1.0,
                    trial_key=digest_bytes(f"{config_hash}{task}".encode()), folder=config_hash[:16], run="run-1",
                    trial=trial, started_at=f"2026-03-04T09:{row % 60:02d}:00Z", duration_s=1.5, cost_usd=0.01,
                    result_sha256="d" * 64, trajectory_sha256=digest,
                )
            )  # fmt: skip
    return RawResults(
        run_id="drawn", case=case_id, variant=variant, role=role, config_hash=config_hash, attempts=world.attempts,
        tasks=world.tasks, environment={"type": "local"}, trials=tuple(trials), implementation=IMPLEMENTATION,
    )  # fmt: skip


def _trajectory(folder: Path) -> str:
    return write_bytes(folder / "agent" / "trajectory.json", json.dumps({"steps": []}).encode())


def _subsets(rng: np.random.Generator, world: World) -> dict[str, tuple[str, ...]]:
    sizes = sorted({max(2, round(world.n_tasks * share)) for share in (0.15, 0.25, 0.4, 0.55)})
    found: dict[str, tuple[str, ...]] = {}
    for number in range(world.n_subsets):
        size = sizes[number % len(sizes)]
        chosen = sorted(rng.choice(world.n_tasks, size=size, replace=False).tolist())
        found[f"s{size:02d}-{number // len(sizes) + 1:03d}"] = tuple(world.tasks[i] for i in chosen)
    return found


def _measured(world: World, name: str, cover: np.ndarray, subsets: Mapping[str, Sequence[str]]) -> MetricCoverage:
    if name == "suite_size":
        items = list(world.tasks)
    else:
        items = [f"{name}:{i + 1}" for i in range(cover.shape[1])]
        if world.hostile:
            items[0] = f"{HOSTILE} & \"quoted\" 'item'"
    owned = {task: [items[i] for i in np.flatnonzero(cover[row])] for row, task in enumerate(world.tasks)}
    covered = {s: sorted({i for t in tasks for i in owned[t]}, key=items.index) for s, tasks in subsets.items()}
    label = {"suite_size": "null metric", "synthetic": "wiring test"}.get(name)
    common = {"label": label, "metric": name, "code_sha256": "b" * 64, "request_sha256": "f" * 64}
    if world.opaque == name:
        values = {s: SubsetCoverage(coverage=len(found) / len(items)) for s, found in covered.items()}
        return MetricCoverage(kind="opaque", subsets=values, **common)
    values = {s: SubsetCoverage(coverage=len(found) / len(items), covered=found) for s, found in covered.items()}
    return MetricCoverage(kind="items", items=items, tasks=owned, subsets=values, **common)
