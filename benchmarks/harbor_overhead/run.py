# SPDX-License-Identifier: Apache-2.0
"""What `run-evals` adds to Harbor: both run the same sandbox trials, in turn, as whole processes.

    .venv/bin/python benchmarks/harbor_overhead/run.py [--rounds 3]

Prints the wall time of each and the median ratio for 40 trials (aim: 1.10 or less), and the same for 160. Trials that
do nothing take Harbor about 0.1 s each, so that what is done once per experiment and per variant (loading, the check of
all tasks and agents before the first trial, records, the comparison with the native folders, the seal) weighs most at
40; the difference of the two tells what a further trial costs.
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

N_TASKS = 20
N_VARIANTS = 2
#: Attempts of each task and variant: 40 and 160 trials.
ATTEMPTS = (1, 4)
CONCURRENCY = 2
SANDBOX = "metric_benchmark.execution.sandbox:LocalSandboxEnvironment"


def write_experiment(folder: Path) -> Path:
    """Two variants of 20 tasks each, both of them the oracle."""
    for number in range(N_TASKS):
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
            "tasks": [{"id": f"t{n:02d}", "path": f"tasks/t{n:02d}"} for n in range(N_TASKS)],
            "baseline": {"agent": {"name": "oracle"}},
            "mutants": [{"id": "same", "operator": "external/same", "agent": {"name": "oracle"}}],
        },
        "description.yaml": {"schema": "metric-benchmark/description/v1", "title": "Overhead"},
        "subsets.yaml": {
            "schema": "metric-benchmark/subsets/v1",
            "subsets": [{"id": "all", "tasks": [f"t{n:02d}" for n in range(N_TASKS)]}],
        },
        "execution.yaml": execution(1),
        "analysis.yaml": {
            "schema": "metric-benchmark/analysis/v1",
            "scoring": {"kill_rule": {"name": "deterministic"}},
            "coverage": [{"name": "suite_size"}],
        },
    }
    for name, value in files.items():
        (folder / name).write_text(yaml.safe_dump(value, sort_keys=False))
    return folder / "experiment.yaml"


def execution(attempts: int) -> dict[str, object]:
    """How both variants are run."""
    return {
        "schema": "metric-benchmark/execution/v1",
        "roles": {"baseline": {"attempts": attempts}, "mutant": {"attempts": attempts}},
        "concurrency": CONCURRENCY,
        "environment": "local",
        "reward_key": "reward",
    }


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
tasks, jobs, sandbox, concurrency, attempts = Path(sys.argv[1]), sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
config = JobConfig.model_validate({
    "job_name": "alone", "jobs_dir": jobs, "n_concurrent_trials": concurrency, "quiet": True, "n_attempts": attempts,
    "environment": {"import_path": sandbox}, "agents": [{"name": "oracle"}],
    "tasks": [{"path": str(p)} for p in sorted(tasks.iterdir())],
})
async def main():
    job = await Job.create(config)
    result = await job.run()
    assert result.stats.n_completed_trials == len(config.tasks) * attempts, result.stats
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


def compare(folder: Path, experiment: Path, attempts: int, rounds: int) -> tuple[float, float]:
    """Times both on the same trials, in turn; returns the median seconds of each and prints every round."""
    (folder / "execution.yaml").write_text(yaml.safe_dump(execution(attempts)))
    tool = Path(sys.executable).with_name("metric-benchmark")
    times: list[tuple[float, float]] = []
    n_trials = N_TASKS * N_VARIANTS * attempts
    for number in range(rounds):
        output = folder / f"ours-{attempts}-{number}"
        ours = [str(tool), "run-evals", str(experiment), "--output", str(output)]
        job = [str(folder / "tasks"), str(folder / f"alone-{attempts}-{number}"), SANDBOX, str(CONCURRENCY)]
        alone = [sys.executable, "-c", HARBOR_ALONE, *job, str(N_VARIANTS * attempts)]
        if number % 2 == 0:
            mine, theirs = timed(ours), timed(alone)
        else:
            theirs, mine = timed(alone), timed(ours)
        times.append((mine, theirs))
        print(f"{n_trials:>6}  {number + 1:>5}  {mine:>11.2f}  {theirs:>8.2f}  {mine / theirs:>5.2f}", flush=True)
        shutil.rmtree(output)
    ratio = statistics.median(mine / theirs for mine, theirs in times)
    aim = " (aim: 1.10 or less)" if attempts == 1 else ""
    print(f"median ratio of wall time for {n_trials} trials: {ratio:.2f}{aim}", flush=True)
    return statistics.median(mine for mine, _ in times), statistics.median(theirs for _, theirs in times)


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    print(f"{CONCURRENCY} trials at once: run-evals ({N_VARIANTS} variants x {N_TASKS} tasks), Harbor's own Job")
    print("trials  round  run-evals_s  harbor_s  ratio")
    with tempfile.TemporaryDirectory(prefix="mb-overhead-") as scratch:
        folder = Path(scratch)
        experiment = write_experiment(folder)
        tool = Path(sys.executable).with_name("metric-benchmark")
        subprocess.run([tool, "sign", str(experiment)], check=True, capture_output=True)
        (ours, harbor), (ours_more, harbor_more) = (compare(folder, experiment, n, rounds) for n in ATTEMPTS)
    further = N_TASKS * N_VARIANTS * (ATTEMPTS[1] - ATTEMPTS[0])
    mine, theirs = (ours_more - ours) / further, (harbor_more - harbor) / further
    print(f"a further trial: {1000 * mine:.0f} ms against {1000 * theirs:.0f} ms, ratio {mine / theirs:.2f}")


if __name__ == "__main__":
    main()
