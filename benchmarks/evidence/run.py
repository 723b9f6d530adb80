# SPDX-License-Identifier: Apache-2.0
"""Evidence of 10 000 trials: how long index, verification and scoring take, in how much memory, at what hashing speed.

    python benchmarks/evidence/run.py [--trials 10000] [--json FILE]

No trial is run: the native folders are written as Harbor writes them (the shape of files is that of a real run), 25
tasks by 20 variants by 20 attempts. Measured are, in a process of its own each, so that its peak memory is its own:

- index: find all native trials, classify and digest them, choose, write records and indices;
- verify: validate-results, everything recomputed against the native folders;
- score: stage 2, from the records alone;
- hashing: `hashing.digest_file` over every file of the tree, beside `sha256sum` on the same files, with warm caches.

The bounds it fails on (exit 1) are stated in `BOUNDS`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TASKS, MUTANTS, CONTROLS = 25, 16, 2
#: Seconds of CPU at most for 10 000 trials (on an idle machine that is the time it takes), MB of memory at most, and
#: the share of sha256sum's speed at least.
BOUNDS = {"index_cpu_s": 20.0, "verify_cpu_s": 30.0, "score_cpu_s": 30.0, "memory_mb": 1024.0, "hashing_share": 0.7}


def experiment_files(attempts: int) -> dict[str, Any]:
    """Returns the experiment: a baseline, screening, controls and mutants, all of the agent nop."""
    tasks = [f"task-{number:02}" for number in range(TASKS)]
    role = {"attempts": attempts}
    return {
        "experiment.yaml": {
            "schema": "metric-benchmark/experiment/v1", "name": "big", "cases": "cases.yaml",
            "execution": "execution.yaml", "analysis": "analysis.yaml",
        },
        "cases.yaml": {"schema": "metric-benchmark/cases/v1", "cases": [{"path": "case.yaml"}]},
        "case.yaml": {
            "schema": "metric-benchmark/case/v1", "case_id": "big", "description": {"path": "description.yaml"},
            "subsets": {"path": "subsets.yaml"}, "tasks": [{"id": task, "path": f"tasks/{task}"} for task in tasks],
            "baseline": {"agent": {"name": "nop"}},
            "mutants": [
                {"id": f"m-{number:02}", "operator": "external/x", "agent": {"name": "nop", "kwargs": {"n": number}}}
                for number in range(MUTANTS)
            ],
        },
        "description.yaml": {"schema": "metric-benchmark/description/v1", "title": "Big"},
        "subsets.yaml": {
            "schema": "metric-benchmark/subsets/v1",
            "subsets": [
                {"id": f"s-{number:03}", "tasks": [t for i, t in enumerate(tasks) if (i * 7 + number) % 5 < 2]}
                for number in range(50)
            ],
        },
        "execution.yaml": {
            "schema": "metric-benchmark/execution/v1", "environment": "docker", "reward_key": "reward",
            "roles": {
                "baseline": role, "screening": role, "control": {"count": CONTROLS, **role}, "mutant": role,
            },
        },
        "analysis.yaml": {
            "schema": "metric-benchmark/analysis/v1", "coverage": [{"name": "suite_size"}],
            "scoring": {"kill_rule": {"name": "exact", "alpha": 0.05}},
        },
    }  # fmt: skip


def write_experiment(folder: Path, attempts: int) -> None:
    """Writes and signs it."""
    import yaml

    from metric_benchmark.pins import sign_experiment

    for name, value in experiment_files(attempts).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(value, sort_keys=False))
    for number in range(TASKS):
        task = folder / "tasks" / f"task-{number:02}"
        for name in ("environment", "tests", "solution"):
            (task / name).mkdir(parents=True)
        (task / "task.toml").write_text('version = "1.0"\n[environment]\ndocker_image = "debian:bookworm-slim"\n')
        (task / "instruction.md").write_text(f"Do what task {number} asks.\n")
        (task / "environment" / ".gitkeep").write_text("")
        (task / "tests" / "test.sh").write_text("#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n")
        (task / "solution" / "solve.sh").write_text("#!/bin/bash\ntrue\n")
    sign_experiment(folder)


def write_native(experiment: Path, output: Path) -> int:
    """Writes the plans and native folders of every variant; returns the number of trials."""
    from harbor.models.job.config import JobConfig
    from harbor.models.trial.config import TrialConfig

    from metric_benchmark.evidence.index import open_root
    from metric_benchmark.evidence.writes import write_record
    from metric_benchmark.execution.child import job_config
    from metric_benchmark.execution.task_digests import checksum, content_digest
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.provenance import implementation
    from metric_benchmark.records.execution import PlannedTask, RunPlan
    from metric_benchmark.variants import resolve_variants

    run = open_run(experiment, output)
    open_root(run.root, run.run_id, implementation("execution"))
    digests: dict[str, tuple[str, str]] = {}
    observation = "a line of what a command printed, as long as such lines are\n" * 6
    n_trials = 0
    for variant in resolve_variants(run.experiment):
        config = run.root.config(variant.case_id, variant.variant_id, variant.config_hash)
        job = config / "jobs" / "run-1"
        job.mkdir(parents=True)
        write_record(
            config / "run-1.plan.json",
            RunPlan(
                run_id=run.run_id, case=variant.case_id, variant=variant.variant_id, role=variant.role,
                config_hash=variant.config_hash, run="run-1", attempts=variant.attempts,
                tasks=tuple(
                    PlannedTask(task=t.id, trial_key=variant.trial_keys[t.id], path=str(t.path)) for t in variant.tasks
                ),
                created_at="2026-01-01T00:00:00+00:00", implementation=implementation("execution"),
            ),
        )  # fmt: skip
        asked = JobConfig.model_validate(
            job_config(
                jobs_dir=job.parent, run="run-1", attempts=variant.attempts, agent=dict(variant.agent), concurrency=2,
                task_paths=[str(task.path) for task in variant.tasks], environment=dict(variant.environment.harbor),
                multipliers={"agent": 1.0, "verifier": 1.0, "setup": 1.0},
            )
        )  # fmt: skip
        (job / "config.json").write_text(asked.model_dump_json(indent=4))
        job_id = f"00000000-0000-0000-0000-{abs(hash(variant.variant_id)) % 10**12:012}"
        times = {"started_at": "2026-01-01T00:00:00", "finished_at": "2026-01-01T01:00:00"}
        (job / "result.json").write_text(json.dumps({"schema_version": 1, "id": job_id, **times}, indent=4))
        locks: list[Any] = []
        for task in variant.tasks:
            if task.id not in digests:
                digests[task.id] = content_digest(task.path), checksum(task.path)
            content, total = digests[task.id]
            plain = TrialConfig.model_validate(
                {
                    "task": {"path": str(task.path)}, "trials_dir": str(job), "agent": dict(variant.agent),
                    "environment": dict(variant.environment.harbor), "job_id": job_id,
                }
            ).model_dump(mode="json")  # fmt: skip
            for attempt in range(variant.attempts):
                n_trials += 1
                name = f"{task.id}__{n_trials:07}"
                trial = job / name
                (trial / "agent").mkdir(parents=True)
                (trial / "verifier").mkdir()
                own = {**plain, "trial_name": name}
                lock = {
                    "schema_version": 2, "agent": plain["agent"], "environment": plain["environment"],
                    "task": {"name": task.id, "type": "local", "digest": content, "path": str(task.path)},
                }  # fmt: skip
                locks.append(lock)
                second = f"2026-01-01T{n_trials // 3600 % 24:02}:{n_trials // 60 % 60:02}:{n_trials % 60:02}"
                reward = float((n_trials * 2654435761) % 100 < (90 if variant.role != "mutant" else 60))
                result = {
                    "schema_version": 1, "id": name, "task_name": task.id, "trial_name": name, "task_checksum": total,
                    "config": own, "agent_info": {"name": "nop", "version": "1.0.0", "model_info": None},
                    "agent_result": {"n_input_tokens": 1200, "n_output_tokens": 300, "cost_usd": 0.01},
                    "verifier_result": {"rewards": {"reward": reward}}, "exception_info": None,
                    "started_at": f"{second}.000000Z", "finished_at": f"{second}.900000Z",
                    "agent_execution": {"started_at": f"{second}.100000Z", "finished_at": f"{second}.500000Z"},
                    "step_results": None, "reward_valid": True,
                }  # fmt: skip
                steps = [
                    {
                        "step_id": step, "source": "agent", "message": f"step {step} of attempt {attempt}",
                        "tool_calls": [{"tool_call_id": f"c{step}", "function_name": "bash", "arguments": {"n": step}}],
                        "observation": {"results": [{"source_call_id": f"c{step}", "content": observation}]},
                    }
                    for step in range(1, 31)
                ]  # fmt: skip
                trajectory = {"schema_version": "ATIF-v1.2", "session_id": name, "steps": steps}
                (trial / "config.json").write_text(json.dumps(own, indent=4))
                (trial / "lock.json").write_text(json.dumps(lock, indent=4))
                (trial / "result.json").write_text(json.dumps(result, indent=4))
                (trial / "agent" / "trajectory.json").write_text(json.dumps(trajectory))
                (trial / "verifier" / "reward.txt").write_text(f"{reward:g}\n")
                (trial / "verifier" / "test-stdout.txt").write_text("tests ran\n")
                (trial / "trial.log").write_text("a log\n" * 10)
        (job / "lock.json").write_text(
            json.dumps({"schema_version": 3, "harbor": {"version": "0.26.0"}, "trials": locks}, indent=4)
        )
    return n_trials


def index(experiment: Path, output: Path) -> None:
    """Records every variant from its native folders, and seals the inventory."""
    from metric_benchmark.evidence.index import update_index, write_manifest
    from metric_benchmark.execution.inventory import find_trials
    from metric_benchmark.execution.recorded import record_results
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.provenance import implementation
    from metric_benchmark.pipeline.sealing import complete_inventory
    from metric_benchmark.variants import resolve_variants

    run = open_run(experiment, output)
    for variant in resolve_variants(run.experiment):
        found = find_trials(run.root, variant.case_id, variant.variant_id, "reward")
        results = record_results(
            run.root, variant, found, run_id=run.run_id, reward_key="reward", implementation=implementation("execution")
        )
        update_index(run.root, results)
    write_manifest(run.root, complete_inventory(run))


def verify(experiment: Path, output: Path) -> None:
    """Validates everything against the native folders."""
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.validation import require_valid, validate_results

    run = open_run(experiment, None, results=output, level="analysis")
    report = validate_results(run).report
    require_valid(run.root, report)
    print(f"  {report.n_trials} trials, {report.n_files} digests compared", file=sys.stderr)


def score(experiment: Path, output: Path) -> None:
    """Checks the saved records as an analysis does, then scores."""
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline import score_subsets
    from metric_benchmark.pipeline.sealing import check_saved_execution

    run = open_run(experiment, None, results=output, level="analysis")
    check_saved_execution(run)
    score_subsets(run, "big")


def measure(stage: str, experiment: Path, output: Path) -> dict[str, float]:
    """Runs a stage in a process of its own; returns its seconds, those of the CPU, and its peak memory in MB."""
    command = [sys.executable, __file__, "--stage", stage, "--experiment", str(experiment), "--output", str(output)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def hashing(output: Path) -> dict[str, float]:
    """Hashes every file of the tree by ourselves and by sha256sum, in turns; returns MB/s of the best of three."""
    from metric_benchmark.hashing import digest_file

    paths = [Path(parent) / name for parent, _, names in os.walk(output) for name in names]
    size = sum(path.stat().st_size for path in paths) / 1e6
    ours: list[float] = []
    theirs: list[float] = []
    listed = b"\0".join(os.fsencode(path) for path in paths)
    for _ in range(3):
        started = time.perf_counter()
        for path in paths:
            digest_file(path)
        ours.append(size / (time.perf_counter() - started))
        started = time.perf_counter()
        subprocess.run(["xargs", "-0", "sha256sum"], input=listed, stdout=subprocess.DEVNULL, check=True)
        theirs.append(size / (time.perf_counter() - started))
    return {"files": len(paths), "mb": size, "ours_mb_s": max(ours), "sha256sum_mb_s": max(theirs)}


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--stage", choices=["index", "verify", "score"], help=argparse.SUPPRESS)
    parser.add_argument("--experiment", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        started, cpu = time.perf_counter(), time.process_time()
        {"index": index, "verify": verify, "score": score}[options.stage](options.experiment, options.output)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "cpu": cpu, "memory_mb": peak}))
        return 0
    numbers: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="mb-evidence-") as name:
        experiment, output = Path(name) / "experiment", Path(name) / "out"
        started = time.perf_counter()
        write_experiment(experiment, max(1, options.trials // (TASKS * (2 + CONTROLS + MUTANTS))))
        n_trials = write_native(experiment, output)
        print(f"{n_trials} trials written in {time.perf_counter() - started:.0f} s")
        for stage in ("index", "verify", "score"):
            found = measure(stage, experiment, output)
            numbers |= {f"{stage}_s": found["seconds"], f"{stage}_cpu_s": found["cpu"]}
            numbers[f"{stage}_memory_mb"] = found["memory_mb"]
            took, cpu, peak = found["seconds"], found["cpu"], found["memory_mb"]
            print(f"{stage:8} {took:7.1f} s ({cpu:.1f} s of CPU) {peak:6.0f} MB at most")
        found = hashing(output)
    numbers |= {"trials": n_trials, **{f"hashing_{key}": value for key, value in found.items()}}
    share = found["ours_mb_s"] / found["sha256sum_mb_s"]
    numbers["hashing_share"] = share
    print(
        f"hashing  {found['ours_mb_s']:7.0f} MB/s of {found['files']} files, {found['mb']:.0f} MB; sha256sum "
        f"{found['sha256sum_mb_s']:.0f} MB/s: {share:.0%}"
    )
    memory = max(value for key, value in numbers.items() if key.endswith("memory_mb"))
    allowed = {key: BOUNDS[key] * n_trials / 10_000 for key in ("index_cpu_s", "verify_cpu_s", "score_cpu_s")}
    failed = [key for key, most in allowed.items() if numbers[key] > most]
    failed += ["memory_mb"] if memory > BOUNDS["memory_mb"] else []
    failed += ["hashing_share"] if share < BOUNDS["hashing_share"] else []
    print(f"bounds: {BOUNDS}; {'FAILED: ' + ', '.join(failed) if failed else 'all met'}")
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
