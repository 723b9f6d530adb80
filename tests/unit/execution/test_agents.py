# SPDX-License-Identifier: Apache-2.0
"""An agent that tries to end its process fails its own trial, wherever its code comes from."""

from __future__ import annotations

import asyncio
import sys

import pytest
from harbor.agents.factory import AgentFactory
from harbor.models.trial.config import AgentConfig

from metric_benchmark.execution.agents import AgentExitedError, guard_agents, load_entry
from metric_benchmark.hashing import digest_folder

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


@pytest.mark.parametrize(
    ("files", "entry", "message"),
    [
        (
            {"converter.py": "", "units.py": ""}, "agent:Converter",
            "bundle `agent` has no agent.py; it holds converter.py, units.py",
        ),
        (
            {"agent.py": "\nfrom units import feet\n", "units.py": "feet = 1\n"}, "agent:Converter",
            "its import fails at agent.py:2 of the bundle: ModuleNotFoundError: No module named 'units'; modules of a "
            "bundle import each other relatively: write `from .units import ...`",
        ),
        (
            {"agent.py": "from .units import feet\n", "units.py": "\n\nimport not_there_at_all\n"}, "agent:Converter",
            "its import fails at units.py:3 of the bundle: ModuleNotFoundError: No module named 'not_there_at_all'",
        ),
        (
            {"agent.py": "from .unit import feet\n", "units.py": ""}, "agent:Converter",
            "its import fails at agent.py:1 of the bundle: ModuleNotFoundError: No module named 'unit'",
        ),
        (
            {"agent.py": "x = 1\ndef broken(:\n"}, "agent:Converter",
            "its import fails at agent.py:2 of the bundle: SyntaxError: invalid syntax (agent.py, line 2)",
        ),
        (
            {"sub/agent.py": "from harbor.agents.nop import NopAgent\nclass Conv(NopAgent): ...\n"}, "sub.agent:Covn",
            "sub.agent:Covn: Covn is not a Harbor agent class in sub.agent.py of the bundle; did you mean Conv?",
        ),
    ],
    ids=["no such module", "not relative", "inside a module", "wrong relative", "syntax", "class"],
)  # fmt: skip
def test_a_bundle_that_cannot_be_imported_says_where_and_why(tmp_path, files, entry, message):
    bundle = tmp_path / "agent"
    for name, text in files.items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_text(text)
    with pytest.raises(ImportError) as caught:
        load_entry(str(bundle), digest_folder(bundle), entry)
    assert str(caught.value) == message
