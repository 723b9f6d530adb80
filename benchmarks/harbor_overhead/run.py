# SPDX-License-Identifier: Apache-2.0
"""What `run-evals` adds to Harbor: both run the same 40 sandbox trials, in turn, as whole processes.

    .venv/bin/python benchmarks/harbor_overhead/run.py [--rounds 3]

Prints the wall time of each and the median ratio. Aim: 1.10 or less.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

N_TASKS = 40
CONCURRENCY = 2
SANDBOX = "metric_benchmark.execution.sandbox:LocalSandboxEnvironment"


def write_experiment(folder: Path) -> Path:
    """Two variants of 20 tasks each: 40 trials of the oracle."""
    for number in range(N_TASKS // 2):
        write_task(folder / "tasks" / f"t{number:02d}", f"word{number}")
    files = {
        "experiment.yaml": {
            "schema": "metric-benchmark/experiment/v1",
            "name": "overhead",
            "cases": "cases.yaml",
            "execution": "execution.yaml",
            "analysis": "analysis.yaml",
        },
        "cases.yaml": {"schema": "metric-benchmark/cases/v1", "cases": [{"path": "case.yaml"}]},
        "case.yaml": {
            "schema": "metric-benchmark/case/v1",
            "case_id": "overhead",
            "description": {"path": "description.yaml"},
            "subsets": {"path": "subsets.yaml"},
            "tasks": [{"id": f"t{n:02d}", "path": f"tasks/t{n:02d}"} for n in range(N_TASKS // 2)],
            "baseline": {"agent": {"name": "oracle"}},
            "mutants": [{"id": "same", "operator": "external/same", "agent": {"name": "oracle"}}],
        },
        "description.yaml": {"schema": "metric-benchmark/description/v1", "title": "Overhead"},
        "subsets.yaml": {
            "schema": "metric-benchmark/subsets/v1",
            "subsets": [{"id": "all", "tasks": [f"t{n:02d}" for n in range(N_TASKS // 2)]}],
        },
        "execution.yaml": {
            "schema": "metric-benchmark/execution/v1",
            "roles": {"baseline": {"attempts": 1}, "mutant": {"attempts": 1}},
            "concurrency": CONCURRENCY,
            "environment": "local",
            "reward_key": "reward",
        },
        "analysis.yaml": {
            "schema": "metric-benchmark/analysis/v1",
            "scoring": {"kill_rule": {"name": "deterministic"}},
            "coverage": [{"name": "suite_size"}],
        },
    }
    for name, value in files.items():
        (folder / name).write_text(yaml.safe_dump(value, sort_keys=False))
    return folder / "experiment.yaml"


def write_task(folder: Path, answer: str) -> None:
    """The smallest ordinary Harbor task."""
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text('version = "1.0"\n[environment]\ndocker_image = "debian:bookworm-slim"\n')
    (folder / "instruction.md").write_text(f"Write {answer} to /app/out.txt\n")
    (folder / "solution" / "solve.sh").write_text(f"#!/bin/bash\nmkdir -p /app\necho {answer} > /app/out.txt\n")
    (folder / "tests" / "test.sh").write_text(
        f"#!/bin/bash\nif grep -qx {answer} /app/out.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    )


HARBOR_ALONE = """
import asyncio, sys
from pathlib import Path
from harbor.job import Job
from harbor.models.job.config import JobConfig
tasks, jobs, sandbox, concurrency = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
config = JobConfig.model_validate({
    "job_name": "alone", "jobs_dir": jobs, "n_concurrent_trials": concurrency, "quiet": True, "n_attempts": 2,
    "environment": {"import_path": sandbox}, "agents": [{"name": "oracle"}],
    "tasks": [{"path": str(p)} for p in sorted(tasks.iterdir())[:20]],
})
async def main():
    job = await Job.create(config)
    result = await job.run()
    assert result.stats.n_completed_trials == 40, result.stats
asyncio.run(main())
"""


def timed(command: list[str]) -> float:
    """Runs a command and returns its wall time in seconds."""
    environment = os.environ | {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    tool = Path(sys.executable).with_name("metric-benchmark")
    ratios: list[float] = []
    print(
        f"{N_TASKS} trials, {CONCURRENCY} at once: run-evals (2 variants x 20 tasks), Harbor's own Job (20 tasks x 2)"
    )
    print("round  run-evals_s  harbor_s  ratio")
    with tempfile.TemporaryDirectory(prefix="mb-overhead-") as scratch:
        folder = Path(scratch)
        experiment = write_experiment(folder)
        subprocess.run([tool, "sign", str(experiment)], check=True, capture_output=True)
        for number in range(rounds):
            ours = [str(tool), "run-evals", str(experiment), "--output", str(folder / f"ours{number}")]
            alone = [
                sys.executable,
                "-c",
                HARBOR_ALONE,
                str(folder / "tasks"),
                str(folder / f"h{number}"),
                SANDBOX,
                "2",
            ]
            first, second = (
                (timed(ours), timed(alone)) if number % 2 == 0 else tuple(reversed((timed(alone), timed(ours))))
            )
            ratios.append(first / second)
            print(f"{number + 1:>5}  {first:>11.2f}  {second:>8.2f}  {ratios[-1]:>5.2f}", flush=True)
            shutil.rmtree(folder / f"ours{number}")
    print(f"median ratio of wall time: {statistics.median(ratios):.2f} (aim: 1.10 or less)")


if __name__ == "__main__":
    main()
