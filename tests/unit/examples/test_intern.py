# SPDX-License-Identifier: Apache-2.0
"""The stochastic agent: its slips differ between trials and can be repeated from seed and session id."""

from __future__ import annotations

import asyncio
import json

import pytest
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext

INSTRUCTION = "Read `a`. Take the `n`. Write the result to `b`."


class Notebook:
    def __init__(self):
        self.written = []

    async def exec(self, command, **_):
        if command.startswith("printf"):
            self.written.append(command.split()[2])
        return ExecResult(stdout="n: 5000\n", stderr="", return_code=0)


@pytest.fixture
def result(intern, tmp_path):
    def run(session_id, **kwargs):
        agent = intern(logs_dir=tmp_path, **kwargs)
        agent.session_id = session_id
        notebook = Notebook()
        asyncio.run(agent.run(INSTRUCTION, notebook, AgentContext()))
        return notebook.written[0]

    return run


def test_slips_follow_from_seed_and_session_id(result):
    trials = [result(f"task__{n}", slip=0.5, seed=1) for n in range(40)]
    assert trials == [result(f"task__{n}", slip=0.5, seed=1) for n in range(40)]
    assert trials != [result(f"task__{n}", slip=0.5, seed=2) for n in range(40)]
    # 40 draws at 1/2: fewer than 8 or more than 32 has a probability below 0.0001.
    assert 8 <= trials.count("5000") <= 32


@pytest.mark.parametrize(("slip", "right"), [(0.0, 20), (1.0, 0)])
def test_an_agent_never_slips_at_0_and_always_at_1(result, slip, right):
    assert [result(f"t__{n}", slip=slip) for n in range(20)].count("5000") == right


def test_the_trajectory_records_what_a_replay_needs(result, tmp_path):
    result("errand__xyz", slip=0.25, seed=9)
    trajectory = json.loads((tmp_path / "trajectory.json").read_text())
    assert trajectory["session_id"] == "errand__xyz"
    assert trajectory["agent"]["extra"] == {"slip": 0.25, "seed": 9}
