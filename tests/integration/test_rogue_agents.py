# SPDX-License-Identifier: Apache-2.0
"""What an agent does to its own process or sandbox is its own failure: it has a verdict, and no other trial suffers."""

from __future__ import annotations

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.pipeline import run_raw_results

pytestmark = pytest.mark.harbor


def run_mutant(files, output, name, code):
    """Runs a mutant whose agent is a class `Rogue`, and returns what came of its trials."""
    folder = files.folder / name
    folder.mkdir()
    (folder / "agent.py").write_text(code)
    agent = {"bundle": {"path": name}, "entry": "agent:Rogue"}
    mutant = {"id": name, "operator": f"external/{name}", "agent": agent}
    files.edit("case.yaml", lambda case: case["mutants"].append(mutant))
    files.edit("execution.yaml", lambda e: e.update(infrastructure_retries=0, concurrency=2))
    files.sign()
    done = run_raw_results(coordinator.open_run(files.path, output), "tiny", name, lambda _: None)
    return {trial.task: trial for trial in done.results.trials}


def test_an_agent_that_exits_fails_its_own_trial_and_no_other(tiny, tmp_path):
    code = """
import sys
from harbor.agents.nop import NopAgent

class Rogue(NopAgent):
    async def run(self, instruction, environment, context):
        if "one" in instruction:
            sys.exit(3)
        await environment.exec("sleep 2; mkdir -p /app; echo two > /app/out.txt")
"""
    trials = run_mutant(tiny, tmp_path / "out", "quitter", code)
    assert (trials["one"].status, trials["one"].reward) == ("agent_error", 0.0)
    assert trials["one"].reason == "AgentExitedError: the agent's code tried to end the process: SystemExit 3"
    assert (trials["two"].status, trials["two"].reward) == ("valid", 1.0)


def test_a_disk_filled_by_the_agent_is_its_own_failure(tiny, tmp_path):
    code = """
from harbor.agents.nop import NopAgent

class Rogue(NopAgent):
    async def run(self, instruction, environment, context):
        if "one" in instruction:
            await environment.exec("dd if=/dev/zero of=/fill bs=1M; cat /dev/zero > /rest")
"""
    task = tiny.folder / "tasks" / "one" / "task.toml"
    task.write_text(task.read_text() + "storage_mb = 64\n")
    trials = run_mutant(tiny, tmp_path / "out", "filler", code)
    assert (trials["one"].status, trials["one"].reward) == ("agent_error", 0.0)
    assert "filled the disk of its sandbox" in trials["one"].reason
    assert (trials["two"].status, trials["two"].reward) == ("valid", 0.0)
