# SPDX-License-Identifier: Apache-2.0
"""An agent that tries to end its process fails its own trial, wherever its code comes from."""

from __future__ import annotations

import asyncio
import sys

import pytest
from harbor.agents.factory import AgentFactory
from harbor.models.trial.config import AgentConfig

from metric_benchmark.execution.agents import AgentExitedError, guard_agents

AGENT = """
import sys
from harbor.agents.nop import NopAgent

class Quitter(NopAgent):
    async def setup(self, environment):
        raise KeyboardInterrupt
    async def run(self, instruction, environment, context):
        sys.exit(3)
"""


@pytest.fixture
def guarded(monkeypatch):
    """Guards agents for the time of a test."""
    monkeypatch.setattr(AgentFactory, "create_agent_from_config", AgentFactory.create_agent_from_config)
    guard_agents.cache_clear()
    guard_agents()
    yield
    guard_agents.cache_clear()


def test_an_installed_agent_cannot_end_the_process_of_its_siblings(guarded, tmp_path, monkeypatch):
    (tmp_path / "mb_test_quitter.py").write_text(AGENT)
    monkeypatch.syspath_prepend(tmp_path)
    config = AgentConfig(import_path="mb_test_quitter:Quitter")
    agent = AgentFactory.create_agent_from_config(config, logs_dir=tmp_path)
    sys.modules.pop("mb_test_quitter")
    assert type(agent).__name__ == "Quitter"
    with pytest.raises(AgentExitedError, match=r"^the agent's code tried to end the process: SystemExit 3$"):
        asyncio.run(agent.run("do it", None, None))
    with pytest.raises(AgentExitedError, match=r"^the agent's code tried to end the process: KeyboardInterrupt$"):
        asyncio.run(agent.setup(None))
