# SPDX-License-Identifier: Apache-2.0
"""The catalogue says what there is, what is a sound request, and which code a mutant depends on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import metric_benchmark
from metric_benchmark.errors import ConfigError
from metric_benchmark.mutants.catalog import OPERATORS, check_operator, make_operator, operator_modules

PACKAGE = Path(metric_benchmark.__file__).parent
PROBE = {"import_path": "pkg.mod:Agent"}
EXEC_LEVEL = ("action_budget", {"max_actions": 1})


def test_families_and_number():
    assert {info.family for info in OPERATORS.values()} == {"prompt", "tools", "observation", "memory", "control"}
    assert len(OPERATORS) >= 10


@pytest.mark.parametrize("name", OPERATORS)
def test_every_entry_is_complete(name):
    info = OPERATORS[name]
    assert info.name == name == info.operator.name
    assert info.fault
    assert "\n" not in info.fault
    assert info.operator.params_model is info.params_model
    assert all(field.description for field in info.params_model.model_fields.values())
    assert f"mutants/operators/{name}.py" in info.modules


#: They find, refuse or describe an operator; none changes what a trial does.
WITHOUT_EFFECT = {"mutants/catalog.py", "mutants/applicability.py", "mutants/hooks.py"}


@pytest.mark.parametrize("name", OPERATORS)
def test_code_of_an_operator_is_all_it_imports_within_the_package(name):
    """A change of a file that is not listed must not be able to change a trial."""
    reached, todo = set(), list(operator_modules(name))
    while todo:
        module = todo.pop()
        reached.add(module)
        if module in WITHOUT_EFFECT:
            continue
        for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metric_benchmark.mutants"):
                found = node.module.removeprefix("metric_benchmark.").replace(".", "/") + ".py"
                todo += [found] if found not in reached else []
    assert reached - WITHOUT_EFFECT == set(operator_modules(name))


def test_each_operators_own_file_is_in_no_other_operators_code():
    for name in OPERATORS:
        others = [o for o in OPERATORS if o != name and f"mutants/operators/{name}.py" in operator_modules(o)]
        assert others == []


def test_catalogue_needs_no_harbor():
    code = "import sys, metric_benchmark.mutants.catalog; sys.exit('harbor' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("action_budgt", {}, "operator action_budgt is unknown; did you mean action_budget?"),
        ("xyz", {}, "write external/<label> for a mutant that brings its own agent"),
        ("action_budget", {}, "params.max_actions is missing; its parameters are max_actions, mode"),
        ("action_budget", {"max_actions": 1, "mod": "soft"}, "params.mod is unknown; its parameters are"),
        ("action_budget", {"max_actions": "1"}, "params.max_actions: Input should be a valid integer, found '1'"),
        ("action_budget", {"max_actions": -1}, "greater than or equal to 0, found -1"),
        ("action_budget", {"max_actions": True}, "params.max_actions: Input should be a valid integer, found True"),
        ("tool_removal", {"commands": []}, "params.commands"),
        ("tool_removal", {"commands": "grep"}, "params.commands"),
        ("observation_degradation", {"how": "truncate"}, "how: truncate needs keep_chars"),
        ("observation_degradation", {"how": "garble", "keep_chars": 1}, "how: garble needs garble_frac"),
        ("observation_degradation", {"how": "garble", "garble_frac": float("nan")}, "params.garble_frac"),
        (
            "dropped_instruction",
            {"sentence": "any"},
            "operator dropped_instruction: params.sentence: expected a whole number or 'random', found 'any'",
        ),
        ("misread_number", {"which": 1.5}, "params.which: expected a whole number or 'random', found 1.5"),
    ],
)
def test_unsound_requests(name, params, expected):
    problems = check_operator(name, params, PROBE)
    assert problems
    assert any(expected in problem for problem in problems)
    with pytest.raises(ConfigError):
        make_operator(name, params)


def test_all_problems_are_told_at_once():
    problems = check_operator("action_budget", {"mode": "medium", "x": 1}, {"name": "claude-code"})
    assert len(problems) == 4


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ({"name": "oracle"}, None),
        ({"name": "dspy-rlm"}, None),
        (PROBE, None),
        ({"name": "pkg.mod:Agent"}, None),
        ({"name": "nop"}, "nothing to mutate"),
        ({"name": "terminus-2"}, "max_turns"),
        ({"import_path": "harbor.agents.terminus_2:Terminus2"}, "max_turns"),
        ({"import_path": "harbor.agents.terminus_2.terminus_2:Terminus2"}, "max_turns"),
        ({"name": "computer-1"}, "several calls per click"),
        ({"name": "claude-code"}, "its whole run is one call"),
        ({"name": "acp:some-agent"}, "its whole run is one call"),
        ({"import_path": "harbor.agents.installed.codex:Codex"}, "its whole run is one call"),
        (
            {"import_path": "metric_benchmark.mutants.agent:MutantAgent", "kwargs": {"agent": {"name": "codex"}}},
            "its whole run is one call",
        ),
    ],
)
def test_agents_whose_calls_are_not_actions_are_refused_with_the_reason(agent, reason):
    problems = check_operator(*EXEC_LEVEL, agent)
    if reason is None:
        assert problems == []
    else:
        assert len(problems) == 1
        assert reason in problems[0]


@pytest.mark.parametrize("agent", [{"name": "terminus-2"}, {"name": "claude-code"}, PROBE])
def test_prompt_operators_act_on_any_agent_that_reads_its_prompt(agent):
    assert check_operator("dropped_instruction", {"sentence": 1}, agent) == []


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("dropped_instruction", {"sentence": 1}),
        ("tool_removal", {"commands": ["grep"]}),
        ("write_corruption", {"how": "empty"}),
        ("stale_observation", {"every": 2}),
        ("memory_amnesia", {"keep": 1}),
    ],
)
def test_oracle_has_no_prompt_commands_observations_or_memory(name, params):
    assert "it runs the task's solution" in check_operator(name, params, {"name": "oracle"})[0]
