# SPDX-License-Identifier: Apache-2.0
"""An experiment of any number of partitions with all of stage 1 recorded, as if its trials had been run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

TASKS = ("alpha", "beta")
#: Partitions of one case at most: baseline, screening, a control and mutants.
PER_CASE = 50
_OTHERS = 3


def write_experiment(folder: Path, n_partitions: int) -> Path:
    """Writes and signs an experiment of so many variants; returns its `experiment.yaml`."""
    from metric_benchmark.pins import sign_experiment

    sizes = [PER_CASE] * (n_partitions // PER_CASE) + [n_partitions % PER_CASE]
    cases = {f"case-{number:03}": size for number, size in enumerate(sizes) if size}
    for task in TASKS:
        _write_task(folder / "tasks" / task)
    one = {"attempts": 1}
    files: dict[str, Any] = {
        "experiment.yaml": {
            "schema": "metric-benchmark/experiment/v1", "name": "platform", "cases": "cases.yaml",
            "execution": "execution.yaml", "analysis": "analysis.yaml",
        },
        "cases.yaml": {"schema": "metric-benchmark/cases/v1", "cases": [{"path": f"{case}.yaml"} for case in cases]},
        "description.yaml": {"schema": "metric-benchmark/description/v1", "title": "Platform"},
        "subsets.yaml": {
            "schema": "metric-benchmark/subsets/v1",
            "subsets": [{"id": "one", "tasks": [TASKS[0]]}, {"id": "both", "tasks": list(TASKS)}],
        },
        "execution.yaml": {
            "schema": "metric-benchmark/execution/v1", "environment": "docker", "reward_key": "reward",
            "roles": {"baseline": one, "screening": one, "control": {"count": 1, **one}, "mutant": one},
        },
        "analysis.yaml": {
            "schema": "metric-benchmark/analysis/v1", "coverage": [{"name": "suite_size"}],
            "scoring": {"kill_rule": {"name": "deterministic"}},
            "correlation": {"replicates": 100, "seed": 1},
        },
    }  # fmt: skip
    for case, size in cases.items():
        files[f"{case}.yaml"] = {
            "schema": "metric-benchmark/case/v1", "case_id": case, "description": {"path": "description.yaml"},
            "subsets": {"path": "subsets.yaml"}, "tasks": [{"id": task, "path": f"tasks/{task}"} for task in TASKS],
            "baseline": {"agent": {"name": "oracle"}},
            "mutants": [
                {"id": f"m-{n:02}", "operator": "external/x", "agent": {"name": "nop", "kwargs": {"n": n}}}
                for n in range(size - _OTHERS)
            ],
        }  # fmt: skip
    for name, value in files.items():
        (folder / name).write_text(yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False))
    sign_experiment(folder)
    return folder / "experiment.yaml"


def _write_task(folder: Path) -> None:
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text('version = "1.0"\n[environment]\ndocker_image = "debian:bookworm-slim"\n')
    (folder / "instruction.md").write_text("Do what is asked.\n")
    (folder / "environment" / ".gitkeep").write_text("")
    (folder / "tests" / "test.sh").write_text("#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n")
    (folder / "solution" / "solve.sh").write_text("#!/bin/bash\ntrue\n")


def record_execution(experiment: Path, output: Path) -> None:
    """Records stage 1 of every variant: mutants with an odd number fail the second task, all others pass.

    Records, indices and trial folders are there as after a run; the native files in the folders are not.
    """
    from metric_benchmark.evidence.index import open_root, update_index
    from metric_benchmark.evidence.writes import write_record
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.provenance import implementation
    from metric_benchmark.records.execution import CaseIndex, IndexEntry, RawResults, Trial
    from metric_benchmark.variants import resolve_variants

    run = open_run(experiment, output)
    ours = implementation("execution")
    open_root(run.root, run.run_id, ours)
    entries: dict[str, dict[str, IndexEntry]] = {}
    last: dict[str, RawResults] = {}
    for variant in resolve_variants(run.experiment):
        folder = run.root.config(variant.case_id, variant.variant_id, variant.config_hash)
        trials: list[Trial] = []
        for task in TASKS:
            name = f"{task}__{variant.variant_id}"
            (folder / "jobs" / "run-1" / name).mkdir(parents=True)
            is_odd = variant.role == "mutant" and int(variant.variant_id[2:]) % 2 == 1
            reward = 0.0 if is_odd and task == TASKS[1] else 1.0
            trials.append(
                Trial(
                    task=task, attempt=1, status="valid", reward=reward, native_reward=reward,
                    trial_key=variant.trial_keys[task], folder=folder.name, run="run-1", trial=name,
                    started_at="2026-01-01T00:00:00Z", duration_s=1.0, cost_usd=0.01, result_sha256="0" * 64,
                    trajectory_sha256=None,
                )
            )  # fmt: skip
        results = RawResults(
            run_id=run.run_id, case=variant.case_id, variant=variant.variant_id, role=variant.role,
            config_hash=variant.config_hash, attempts=1, tasks=TASKS, environment=dict(variant.environment.identity),
            reward_key="reward", trials=tuple(trials), implementation=ours,
            inputs={f"task:{task.id}": task.sha256 for task in variant.tasks},
        )  # fmt: skip
        path = folder / "raw-results.json"
        digest = write_record(path, results)
        entries.setdefault(variant.case_id, {})[variant.variant_id] = IndexEntry(
            role=variant.role, config_hash=variant.config_hash, folder=folder.name, raw_results=run.root.relative(path),
            raw_results_sha256=digest, n_without_verdict=0,
        )  # fmt: skip
        last[variant.case_id] = results
    # One write for each case: entering 50 variants one by one would write its index 50 times.
    for case_id, variants in entries.items():
        write_record(
            run.root.index(case_id),
            CaseIndex(run_id=run.run_id, case=case_id, variants=dict(sorted(variants.items())), implementation=ours),
        )
        assert not update_index(run.root, last[case_id]), f"{case_id}: the index is not what the library would write"


def record_analysis(experiment: Path, output: Path) -> None:
    """Scores, measures and correlates every case, so that all partitions of all stages are there."""
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline import correlate_case, measure_case, score_subsets

    run = open_run(experiment, output, level="analysis")
    for case in run.experiment.cases:
        score_subsets(run, case.case_id)
        measure_case(run, case.case_id)
        correlate_case(run, case.case_id)
