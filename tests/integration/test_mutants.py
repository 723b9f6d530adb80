# SPDX-License-Identifier: Apache-2.0
"""Each operator's effect in real Harbor trials: a difference between the mutant's trace and the bare agent's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from metric_benchmark.mutants.catalog import OPERATORS, mutant_agent

pytestmark = pytest.mark.harbor

PROBE_FOLDER = Path(__file__).parents[1] / "unit" / "mutants"
PROBE = {"import_path": "probe_agent:ProbeAgent"}
SANDBOX = "metric_benchmark.execution.sandbox:LocalSandboxEnvironment"

INSTRUCTION = r"""Make the data with `printf 'beta 2\nalpha 1\ngamma 3\n' > data.txt`.
Look at it with `cat data.txt; cat missing`.
Log that with `echo looked >> log.txt; wc -l < log.txt`.
Show the start with `head -n 2 data.txt`.
Sort it with `sort data.txt > out.txt`.
Check with `cat out.txt`.
"""
TEST = """#!/bin/bash
if [ "$(cat /app/out.txt 2>/dev/null)" = "$(printf 'alpha 1\\nbeta 2\\ngamma 3')" ]
then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""

#: operator, params, the first action whose command or observation differs (None: the trace is only shorter),
#: how many actions the trace has (the bare agent has 7), and the reward (the bare agent's is 1).
EFFECTS: list[tuple[str, dict[str, Any], int | None, int, float]] = [
    ("action_budget", {"max_actions": 4}, None, 4, 0.0),
    ("early_stop", {"after_actions": 5}, None, 4, 1.0),
    ("skipped_action", {"every": 1, "commands": ["sort"]}, 6, 7, 0.0),
    ("duplicated_action", {"commands": ["wc"]}, 3, 7, 1.0),
    ("tool_removal", {"commands": ["sort"]}, 5, 7, 0.0),
    ("tool_error", {"every": 3}, 3, 7, 1.0),
    ("write_corruption", {"how": "off_by_one", "files": "out*"}, 6, 7, 0.0),
    ("observation_degradation", {"how": "truncate", "keep_chars": 8}, 2, 7, 1.0),
    ("observation_degradation", {"how": "garble", "garble_frac": 0.5}, 2, 7, 1.0),
    ("stale_observation", {"every": 4}, 4, 7, 1.0),
    ("error_blindness", {}, 2, 7, 1.0),
    ("memory_amnesia", {"keep": 2}, 7, 7, 1.0),
    ("memory_reset", {"after_actions": 3}, 7, 7, 1.0),
    ("dropped_instruction", {"sentence": 5}, 5, 6, 0.0),
    ("truncated_instruction", {"keep_sentences": 4}, 5, 5, 0.0),
    ("misread_number", {"which": 1}, 1, 7, 0.0),
    ("shuffled_instruction", {}, 1, 7, 0.0),  # seed 3 sorts the data before they are made
]


@dataclass
class Trial:
    folder: Path
    result: dict[str, Any]

    @property
    def reward(self) -> float:
        return self.result["verifier_result"]["rewards"]["reward"]

    @property
    def mutation(self) -> dict[str, Any]:
        return self.result["agent_result"]["metadata"]["mutation"]

    @property
    def trajectory(self) -> str:
        return (self.folder / "agent" / "trajectory.json").read_text()

    @property
    def trace(self) -> list[tuple[str, str, int]]:
        return [
            (
                step["tool_calls"][0]["arguments"]["command"],
                step["observation"]["results"][0]["content"],
                step["extra"]["return_code"],
            )
            for step in json.loads(self.trajectory)["steps"][1:]
        ]


def write_task(folder: Path, steps: dict[str, str] | None = None) -> Path:
    places = {f"steps/{name}": text for name, text in steps.items()} if steps else {".": INSTRUCTION}
    for place, instruction in places.items():
        tests = folder / place / "tests"
        tests.mkdir(parents=True)
        (folder / place / "instruction.md").write_text(instruction)
        (tests / "test.sh").write_text(TEST)
    (folder / "solution").mkdir()
    (folder / "solution" / "solve.sh").write_text("#!/bin/bash\nprintf 'alpha 1\\nbeta 2\\ngamma 3\\n' > out.txt\n")
    (folder / "environment").mkdir()
    (folder / "environment" / "notes.txt").write_text("a file in the working folder\n")
    (folder / "task.toml").write_text(
        'schema_version = "1.4"\n'
        + '[environment]\ndocker_image = "debian:bookworm-slim"\nworkdir = "/app"\n'
        + "".join(f'[[steps]]\nname = "{name}"\n' for name in steps or {})
    )
    return folder


RUN_JOBS = """
import asyncio, json, sys
from harbor.job import Job
from harbor.models.job.config import JobConfig

async def main():
    for config in json.load(sys.stdin):
        await (await Job.create(JobConfig.model_validate(config))).run()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def trials(tmp_path_factory) -> dict[str, Trial]:
    """Runs all trials of this file in one child process, and returns them by the variant's label."""
    folder = tmp_path_factory.mktemp("mutants")
    agents = [
        PROBE,
        mutant_agent({"name": "oracle"}, label="oracle", operator=operator("action_budget", max_actions=9)),
    ]
    agents.append(mutant_agent({"name": "oracle"}, label="idle", operator=operator("action_budget", max_actions=0)))
    agents.append(mutant_agent(PROBE, label="identity", operator=operator("action_budget", max_actions=7)))
    agents += [
        mutant_agent(PROBE, label=label_of(name, params), operator=operator(name, **params))
        for name, params, *_ in EFFECTS
    ]
    again = mutant_agent(PROBE, label="again", operator=operator("observation_degradation", **EFFECTS[8][1]))
    stubborn = mutant_agent(
        {**PROBE, "kwargs": {"swallow": True}}, label="stubborn", operator=operator("action_budget", max_actions=2)
    )
    steps = {"first": "`echo 1 > a` `echo 2 > b`", "second": "`ls` `echo 3 > c`"}
    jobs = [
        (write_task(folder / "plain"), [*agents, again, stubborn]),
        (
            write_task(folder / "stepped", steps),
            [mutant_agent(PROBE, label="stepped", operator=operator("action_budget", max_actions=1))],
        ),
    ]
    configs = [
        {
            "job_name": task.name, "jobs_dir": str(folder / "jobs"), "quiet": True, "n_concurrent_trials": 2,
            "agents": variants, "tasks": [{"path": str(task)}], "environment": {"import_path": SANDBOX},
        }
        for task, variants in jobs
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", RUN_JOBS],
        input=json.dumps(configs), text=True, capture_output=True, check=False,
        env={
            **os.environ, "PYTHONPATH": str(PROBE_FOLDER), "HARBOR_TELEMETRY": "0",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for path in (folder / "jobs").glob("*/*/result.json"):
        result = json.loads(path.read_text())
        found[result["agent_info"]["name"]] = Trial(path.parent, result)
    return found


def operator(name: str, **params: Any) -> dict[str, Any]:
    return {"name": name, "params": params, "seed": 3}


def label_of(name: str, params: dict[str, Any]) -> str:
    return f"{name}-{params['how']}" if "how" in params else name


def test_bare_agent_solves_the_task(trials):
    assert trials["probe"].reward == 1.0
    assert len(trials["probe"].trace) == 7


def test_operator_that_does_not_fire_changes_nothing(trials):
    assert trials["identity"].trajectory == trials["probe"].trajectory
    assert trials["identity"].reward == 1.0
    assert trials["identity"].mutation["fired"] == 0
    assert trials["identity"].mutation["actions"] == 7


@pytest.mark.parametrize(("name", "params", "first", "length", "reward"), EFFECTS, ids=lambda v: str(v)[:40])
def test_effect_of_each_operator_on_the_trace(trials, name, params, first, length, reward):
    bare, mutant = trials["probe"].trace, trials[label_of(name, params)]
    different = [number for number, (a, b) in enumerate(zip(bare, mutant.trace, strict=False), 1) if a != b]
    assert (different[0] if different else None) == first
    assert len(mutant.trace) == length
    assert mutant.reward == reward
    assert mutant.mutation["fired"] >= 1
    assert mutant.result["exception_info"] is None


def test_every_operator_of_the_catalogue_is_proved_here():
    assert {name for name, *_ in EFFECTS} == set(OPERATORS)


def test_same_mutant_on_the_same_task_gives_the_same_trial(trials):
    assert trials["again"].trajectory == trials["observation_degradation-garble"].trajectory


def test_hard_stop_is_graded_without_an_error_though_the_agent_swallows_exceptions(trials):
    stubborn = trials["stubborn"]
    assert len(stubborn.trace) == 2
    assert stubborn.result["exception_info"] is None
    assert stubborn.reward == 0.0
    assert stubborn.mutation["stopped"] == "action budget used up"


def test_mutants_of_the_oracle(trials):
    assert trials["oracle"].reward == 1.0
    assert trials["idle"].reward == 0.0
    assert trials["idle"].result["exception_info"] is None


def test_each_step_of_a_task_is_a_run_of_its_own(trials):
    stepped = trials["stepped"]
    counts = [step["agent_result"]["metadata"]["mutation"]["actions"] for step in stepped.result["step_results"]]
    assert counts == [2, 2]
    for step in ("first", "second"):
        steps = json.loads((stepped.folder / "steps" / step / "agent" / "trajectory.json").read_text())["steps"]
        assert len(steps) == 2
        log = (stepped.folder / "steps" / step / "agent" / "mutation.jsonl").read_text().splitlines()
        assert json.loads(log[0]) == {"operator": "action_budget", "actions": 2}
