# SPDX-License-Identifier: Apache-2.0
"""docs/mutants.md says what is so: its table is the catalogue, its examples run."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import types
from pathlib import Path

import yaml
from harbor.models.agent.context import AgentContext

from metric_benchmark.config.models import MutantConfig
from metric_benchmark.mutants.catalog import OPERATORS, check_operator
from metric_benchmark.mutants.hooks import Forgetful

PAGE = (Path(__file__).parents[3] / "docs" / "mutants.md").read_text()
_FILE = r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$"
#: The worked examples; tests/integration/test_docs_mutants.py runs them.
FILES = dict(re.findall(_FILE, PAGE, re.MULTILINE | re.DOTALL))
REST = re.sub(_FILE, "", PAGE, flags=re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", REST, re.MULTILINE | re.DOTALL)


def test_table_is_the_catalogue():
    rows = [
        f"| `{info.name}` | {info.family} | {info.fault} | "
        + (
            ", ".join(
                f"`{name}`" + ("" if field.is_required() else f" = {field.default!r}")
                for name, field in info.params_model.model_fields.items()
            )
            or "–"
        )
        + f" | {info.applies_to} |"
        for info in OPERATORS.values()
    ]
    assert [line for line in PAGE.splitlines() if re.match(r"\| `\w+` \| (prompt|tools|obs|mem|control)", line)] == rows


def test_yaml_examples_are_sound():
    (host,) = blocks("yaml")
    for text, baseline in ((host, {"import_path": "agent:Agent"}), (FILES["terminus.yaml"], {"name": "terminus-2"})):
        for entry in yaml.safe_load(text)["mutants"]:
            mutant = MutantConfig.model_validate(entry)
            if not mutant.operator.is_external:
                assert check_operator(mutant.operator.name, mutant.operator.params, baseline) == []


def test_memory_example_has_the_hook():
    space: dict = {}
    exec(blocks("python")[0], space)
    agent = space["Remembers"]()
    assert isinstance(agent, Forgetful)
    agent.seen = ["a", "b", "c"]
    agent.forget(keep=1)
    assert agent.seen == ["c"]
    agent.forget(keep=5)
    assert agent.seen == ["c"]


def test_own_operator_on_an_own_agent_works(run_probe, tmp_path, monkeypatch):
    bare = run_probe("`printf '1\\n2\\n3\\n'`")
    module = types.ModuleType("my_agent")
    module.MyAgent = sys.modules["probe_agent"].ProbeAgent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_agent", module)
    space: dict = {}
    for block in blocks("python")[1:]:
        exec(block, space)
    agent = space["ReadsBackwards"](tmp_path / "logs")
    context = AgentContext()
    environment = type(run_probe.environment)(tmp_path)
    asyncio.run(agent.run(instruction=bare.instruction, environment=environment, context=context))
    steps = json.loads((tmp_path / "logs" / "trajectory.json").read_text())["steps"]
    assert bare.seen[0] == "1\n2\n3\n"
    assert steps[1]["observation"]["results"][0]["content"] == "3\n2\n1\n"
    assert agent.to_agent_info().name == "reads-backwards"
    assert context.metadata["mutation"] == json.loads(blocks("json")[0]) | {
        "operator": "reversed_observation", "fired": 1, "actions": 2,
    }  # fmt: skip
