# SPDX-License-Identifier: Apache-2.0
"""Every example task is sound on real Harbor: the oracle passes it, doing nothing fails it, the baseline solves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harbor.models.trajectories import Trajectory

from metric_benchmark.config import load_experiment
from metric_benchmark.config.models import EnvironmentSpec
from metric_benchmark.execution.environments import resolve_environment
from metric_benchmark.hashing import digest_folder
from metric_benchmark.keys import BUNDLE_AGENT

pytestmark = pytest.mark.harbor

EXAMPLES = Path(__file__).parents[2] / "examples"

#: A process of its own, because Harbor prints, logs globally and reads the environment when it is imported.
DRIVER = """
import asyncio, json, sys
from harbor.job import Job
from harbor.models.job.config import JobConfig

async def main():
    job = await Job.create(JobConfig.model_validate(json.load(sys.stdin)))
    await job.run()

asyncio.run(main())
"""


def run_job(config):
    """Runs one Harbor job and returns its trial results by (agent, task), and the trial folders."""
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HARBOR_TELEMETRY": "0"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(config),
        capture_output=True,
        text=True,
        env=environment,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    trials = {}
    for path in Path(config["jobs_dir"], config["job_name"]).glob("*/result.json"):
        result = json.loads(path.read_text())
        trials[result["agent_info"]["name"], Path(result["config"]["task"]["path"]).name] = (result, path.parent)
    return trials


@pytest.fixture(scope="module", params=["desk", "depot", "errands"])
def trials(request, tmp_path_factory):
    example, entry, kwargs = (
        ("noisy", "agent:InternAgent", {"slip": 0.0})
        if request.param == "errands"
        else ("bundled", "agent:ClerkAgent", {})
    )
    experiment = load_experiment(EXAMPLES / example / "experiment.yaml", verify=False)
    case = next(case for case in experiment.cases if case.config.case_id == request.param)
    bundle = EXAMPLES / example / "agent"
    baseline = {
        "import_path": BUNDLE_AGENT,
        "kwargs": {
            "bundle_dir": str(bundle),
            "bundle_sha256": digest_folder(bundle),
            "entry": entry,
            "agent_kwargs": kwargs,
        },
    }
    return run_job(
        {
            "job_name": request.param,
            "jobs_dir": str(tmp_path_factory.mktemp("jobs")),
            "n_attempts": 1,
            "n_concurrent_trials": 2,
            "quiet": True,
            "retry": {"max_retries": 0},
            "environment": dict(resolve_environment(EnvironmentSpec(type="auto")).harbor),
            "agents": [{"name": "oracle"}, {"name": "nop"}, baseline],
            "tasks": [{"path": str(case.path_of(task))} for task in case.config.tasks],
        }
    )


def rewards(trials, agents):
    return {
        task: (result["verifier_result"] or {}).get("rewards", {}).get("reward")
        for (agent, task), (result, _) in trials.items()
        if agent in agents
    }


def n_tasks(trials):
    return len({task for _, task in trials})


def test_oracle_passes_and_nop_fails_every_task(trials):
    passed, failed = rewards(trials, {"oracle"}), rewards(trials, {"nop"})
    assert len(passed) == len(failed) == n_tasks(trials) >= 4
    assert set(passed.values()) == {1.0}, {t: r for t, r in passed.items() if r != 1.0}
    assert set(failed.values()) == {0.0}, {t: r for t, r in failed.items() if r != 0.0}


def test_baseline_solves_every_task_without_an_error(trials):
    solved = rewards(trials, {"clerk", "intern"})
    assert len(solved) == n_tasks(trials)
    assert set(solved.values()) == {1.0}, {t: r for t, r in solved.items() if r != 1.0}
    assert [result["exception_info"] for result, _ in trials.values()] == [None] * len(trials)


def test_baseline_leaves_trajectories_of_at_most_ten_calls(trials):
    counts = {}
    for (agent, task), (_, folder) in trials.items():
        if agent in ("clerk", "intern"):
            written = json.loads((folder / "agent/trajectory.json").read_text())
            steps = Trajectory.model_validate(written).steps
            counts[task] = sum(len(step.tool_calls or ()) for step in steps)
    assert len(counts) == n_tasks(trials)
    assert all(2 <= n <= 10 for n in counts.values()), counts
