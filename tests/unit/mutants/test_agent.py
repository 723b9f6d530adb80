# SPDX-License-Identifier: Apache-2.0
"""The mutant is the inner agent itself, wrapped; what cannot work is refused before a job starts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.factory import AgentFactory
from harbor.agents.installed.base import BaseInstalledAgent
from harbor.agents.oracle import OracleAgent
from harbor.models.agent.context import AgentContext
from harbor.models.trial.config import AgentConfig

from metric_benchmark.errors import ConfigError
from metric_benchmark.mutants.agent import MutantAgent, refusal_for
from metric_benchmark.mutants.catalog import mutant_agent

HERE = Path(__file__).parent
PROBE = {"import_path": "probe_agent:ProbeAgent", "kwargs": {"swallow": True}, "env": {"A": "1"}}
#: Parsing a model's name imports LiteLLM, which takes seconds.
UNPARSED = {**PROBE, "skip_model_parsing": True}
BUDGET = {"name": "action_budget", "params": {"max_actions": 2}, "seed": 0}


@pytest.fixture(autouse=True)
def probe_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


def build(tmp_path, agent, operator=BUDGET):
    config = AgentConfig.model_validate(mutant_agent(agent, label="slow-start", operator=operator))
    return AgentFactory.create_agent_from_config(config, logs_dir=tmp_path)


def test_harbor_sees_the_inner_agent_under_the_variants_label(tmp_path):
    agent = build(tmp_path, PROBE)
    assert type(agent).__name__ == "ProbeAgent"
    assert agent.swallow is True
    assert agent.extra_env == {"A": "1"}
    assert agent.capabilities == AgentCapabilities(atif=True, resume=True)
    info = agent.to_agent_info()
    assert (info.name, info.version) == ("slow-start", "1+action_budget")


def test_session_ids_set_by_harbor_are_the_inner_agents(tmp_path):
    agent = build(tmp_path, PROBE)
    agent.session_id, agent.context_id = "trial__agent", uuid4()
    assert agent.session_id == "trial__agent"


def test_model_and_environment_of_the_mutant_reach_the_inner_agent(tmp_path):
    agent = MutantAgent(tmp_path, "model-x", label="m", operator=BUDGET, agent=UNPARSED, extra_env={"B": "2"})
    assert agent.model_name == "model-x"
    assert agent.extra_env == {"A": "1", "B": "2"}


def test_mutant_of_an_installed_agent_is_an_installed_agent(tmp_path):
    operator = {"name": "dropped_instruction", "params": {"sentence": 1}}
    agent = build(tmp_path, {"name": "goose"}, operator)
    assert isinstance(agent, BaseInstalledAgent)
    assert agent.to_agent_info().name == "slow-start"


def test_resume_that_calls_run_is_one_run(run_probe):
    ran = run_probe("`echo 1` `echo 2` `echo 3`", "action_budget", {"max_actions": 2})
    environment = type("E", (), {"exec": None})
    assert len(ran.executed) == 2
    calls = []

    async def run(instruction, environment, context):
        calls.append(instruction)

    ran.agent.run = run
    asyncio.run(ran.agent.resume(instruction="next", environment=environment, context=AgentContext()))
    assert calls == ["next"]


def test_context_is_left_for_the_agent_to_fill_first(run_probe):
    ran = run_probe("`echo 1`", "action_budget", {"max_actions": 9}, late_context=True)
    assert ran.metadata["n_steps"] == 3
    assert ran.metadata["mutation"]["actions"] == 2


def test_stopped_agent_still_writes_its_trajectory(run_probe):
    ran = run_probe("`echo 1` `echo 2`", "action_budget", {"max_actions": 1}, cleanup=True)
    assert ran.seen == ["1\n"]
    assert ran.executed == ["echo 1"]
    assert not (ran.folder / "cleaned-up").exists()


def test_log_tells_what_was_done_and_when(run_probe):
    ran = run_probe("`ls` `grep a b` `ls`", "tool_removal", {"commands": ["grep"]})
    assert (ran.logs / "mutation.jsonl").read_text().splitlines() == [
        '{"operator": "tool_removal", "actions": 4}',
        '{"action": 2, "what": "grep not found"}',
    ]


def test_mutant_of_a_mutant_has_both_faults(run_probe):
    inner = mutant_agent(
        {"import_path": "probe_agent:ProbeAgent"},
        label="inner",
        operator={"name": "observation_degradation", "params": {"how": "truncate", "keep_chars": 2}},
    )
    ran = run_probe("`echo abc` `echo def`", "action_budget", {"max_actions": 1}, agent=inner)
    assert ran.seen == ["ab"]
    mutation = ran.metadata["mutation"]
    assert (mutation["operator"], mutation["inner"]["operator"]) == ("action_budget", "observation_degradation")
    assert ran.agent.to_agent_info().version == "1+observation_degradation+action_budget"


def test_mutant_of_the_oracle_is_built_when_the_task_is_known(tmp_path, monkeypatch):
    agent = build(tmp_path, {"name": "oracle"})
    assert agent.capabilities.skills
    built = {}

    def init(self, logs_dir, task_dir, trial_paths, **more):
        built.update(task_dir=task_dir, trial_paths=trial_paths)

    monkeypatch.setattr(OracleAgent, "__init__", init)

    class Environment:
        environment_dir = Path("/tasks/t1/environment")
        trial_paths = "paths"

    asyncio.run(agent.setup(environment=Environment()))
    assert built == {"task_dir": Path("/tasks/t1"), "trial_paths": "paths"}


def test_trial_settings_of_the_inner_agent_are_the_mutants():
    agent = {
        "name": "terminus-2", "model_name": "a/b", "env": {"K": "${K}"}, "kwargs": {"x": 1},
        "base_url": "http://m", "mcp_servers": [], "override_timeout_sec": 9.0,
    }  # fmt: skip
    mutant = mutant_agent(agent, label="m", operator=BUDGET)
    assert mutant == {
        "import_path": "metric_benchmark.mutants.agent:MutantAgent",
        "kwargs": {"label": "m", "operator": BUDGET, "agent": agent},
        "model_name": "a/b", "env": {"K": "${K}"}, "mcp_servers": [], "override_timeout_sec": 9.0,
    }  # fmt: skip


def test_no_refusal_for_what_works_and_for_what_is_no_mutant():
    assert refusal_for(PROBE) == []
    assert refusal_for(mutant_agent(PROBE, label="m", operator=BUDGET)) == []
    amnesia = {"name": "memory_amnesia", "params": {"keep": 1}}
    assert refusal_for(mutant_agent(PROBE, label="m", operator=amnesia)) == []


@pytest.mark.parametrize(
    ("agent", "operator", "message"),
    [
        (
            {"import_path": "probe_agent:ForgetlessAgent"},
            {"name": "memory_amnesia", "params": {"keep": 1}},
            "operator memory_amnesia cannot act on agent probe_agent:ForgetlessAgent: its class ForgetlessAgent has "
            "no method forget",
        ),
        ({"import_path": "harbor.agents.installed.goose:Goose"}, BUDGET, "its whole run is one call"),
        ({"import_path": "probe_agent:Missing"}, BUDGET, "agent probe_agent:Missing cannot be imported: "),
        ({"name": "nop"}, BUDGET, "nop: nop does nothing"),
        (PROBE, {"name": "action_budget", "params": {}}, "params.max_actions is missing"),
        (
            mutant_agent(PROBE, label="i", operator={"name": "no_such", "params": {}}),
            BUDGET,
            "operator no_such is unknown",
        ),
    ],
)
def test_refusals_give_the_reason_before_a_job_starts(agent, operator, message):
    resolved = mutant_agent(agent, label="m", operator=operator)
    problems = refusal_for(resolved)
    assert len(problems) == 1
    assert message in problems[0]
    with pytest.raises(ConfigError, match=r"operator|agent"):
        AgentFactory.run_preflight(AgentConfig.model_validate(resolved))


def test_class_that_subclasses_an_installed_agent_is_found_out(tmp_path, monkeypatch):
    (tmp_path / "my_cli.py").write_text("from harbor.agents.installed.goose import Goose\nclass Mine(Goose): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    resolved = mutant_agent({"import_path": "my_cli:Mine"}, label="m", operator=BUDGET)
    assert "its whole run is one call" in refusal_for(resolved)[0]


def test_factory_is_asked_for_the_class_it_makes(tmp_path, monkeypatch):
    (tmp_path / "my_factory.py").write_text(
        "from probe_agent import ForgetlessAgent\n"
        "class Factory:\n"
        "    @classmethod\n"
        "    def agent_class(cls, kwargs):\n"
        "        assert kwargs == {'entry': 'x'}\n"
        "        return ForgetlessAgent\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = {"import_path": "my_factory:Factory", "kwargs": {"entry": "x"}}
    resolved = mutant_agent(agent, label="m", operator={"name": "memory_amnesia", "params": {"keep": 1}})
    assert "ForgetlessAgent has no method forget" in refusal_for(resolved)[0]
