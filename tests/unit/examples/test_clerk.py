# SPDX-License-Identifier: Apache-2.0
"""The clerk agent: it reads a plan out of sentences, remembers, finds ways round failures, and leaves a trajectory."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory

from metric_benchmark.mutants.hooks import Forgetful

MISSING = ExecResult(stdout="", stderr="cannot open: No such file or directory\n", return_code=1)
NO_PROGRAM = ExecResult(stdout="", stderr="bash: command not found\n", return_code=127)


def ok(text=""):
    return ExecResult(stdout=text, stderr="", return_code=0)


class Script:
    """Answers commands by the first rule whose words they contain; a list is used up one by one."""

    def __init__(self, rules):
        self.rules = rules
        self.commands = []

    async def exec(self, command, **_):
        self.commands.append(command)
        for words, answer in self.rules.items():
            if words in command:
                return answer.pop(0) if isinstance(answer, list) else answer
        return ok()


@pytest.fixture
def work(clerk, tmp_path):
    def run(instruction, rules):
        agent = clerk(logs_dir=tmp_path)
        environment = Script(rules)
        asyncio.run(agent.run(instruction, environment, AgentContext()))
        return environment.commands

    return run


@pytest.fixture
def module(clerk):
    return lambda name: sys.modules[f"{clerk.__module__.rpartition('.')[0]}.{name}"]


def test_a_plan_is_read_sentence_by_sentence_and_background_is_skipped(module):
    plan = module("plan").make_plan("Hello there. Read `a.txt`. Write the sum of every `n` next to `x y` to `b.txt`.")
    assert [(step.verb, step.target) for step in plan] == [("read", "a.txt"), ("write", "b.txt")]
    (term,) = plan[1].terms
    assert (term.how, term.key, term.near) == ("sum of every", "n", "x y")


def test_several_values_and_arithmetic(module):
    first, second = module("plan").terms("the `a` minus the `b` and the number of matching lines")
    assert (first.key, first.operator, first.other) == ("a", "minus", "b")
    assert second.how == "number of matching lines"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("room: 2.11", "2.11"),
        ("room = 2.11 ", "2.11"),
        ("t=8 room=7 x=1", "7"),
        ("bedroom: 3", None),
        ("no room", None),
    ],
)
def test_values_in_a_line(module, line, value):
    assert module("memory").value_in(line, "room") == value


def test_what_is_written_was_observed(work):
    commands = work("Read `a.txt`. Write the `room` to `b.txt`.", {"head": ok("room: 7\n")})
    assert commands == ["head -n 40 a.txt", "printf '%s' '7\n' > b.txt"]


def test_a_value_that_is_nowhere_is_searched_for_once_and_then_unknown(work):
    commands = work("Write the `room` to `b.txt`.", {"grep": ExecResult(stdout="", stderr="", return_code=1)})
    assert len(commands) == 2
    assert "grep" in commands[0]
    assert "unknown" in commands[1]


def test_a_missing_file_is_looked_for_elsewhere(work):
    rules = {
        "head -n 40 x/a.txt": MISSING,
        "-name a.txt": ok(),
        "-iname a.txt": ok("./y/A.txt\n"),
        "y/A.txt": ok("k: 1\n"),
    }
    commands = work("Read `x/a.txt`. Write the `k` to `b.txt`.", rules)
    assert [c.split("|")[0].split(";")[-1].strip() for c in commands] == [
        "head -n 40 x/a.txt", "find . -name a.txt", "find . -iname a.txt", "head -n 40 y/A.txt",
        "printf '%s' '1\n' > b.txt",
    ]  # fmt: skip


def test_a_missing_program_is_replaced_by_another(work):
    commands = work("List `d`.", {"ls": NO_PROGRAM, "find": ok("x\n")})
    assert [c.split()[0] for c in commands] == ["ls", "set"]
    assert "find d" in commands[1]


def test_pages_are_turned_until_the_value_is_seen(work):
    def page(start):
        return ok("".join(f"n={i} v=-\n" for i in range(start, start + 40)))

    last = ok("n=80 v=-\nn=x v=found\n")
    commands = work(
        "Read `l.log`. Write the `v` next to `n=x` to `b.txt`.", {"head": page(0), "41,80p": page(40), "81,120p": last}
    )
    assert commands[1:] == ["sed -n '41,80p' l.log", "sed -n '81,120p' l.log", "printf '%s' 'found\n' > b.txt"]


@pytest.mark.parametrize(
    ("failure", "then"),
    [
        (ExecResult(stderr="busy, try again\n", return_code=75), ["./go"]),
        (ExecResult(stderr="Permission denied\n", return_code=126), ["bash ./go"]),
        (ExecResult(stderr="run './open it' first\n", return_code=4), ["./open it", "./go"]),
        (ExecResult(stderr="fatal\n", return_code=9), []),
    ],
)
def test_a_failed_command_is_answered_by_what_its_message_asks_for(work, failure, then):
    assert work("Run `./go`.", {"./go": [failure, ok()]}) == ["./go", *then]


def test_a_missing_option_is_looked_up(work):
    failure = ExecResult(stderr="needs --site\n", return_code=64)
    commands = work("Run `./go`.", {"./go": [failure, ok()], "grep": ok("./x.txt:1:site: a b\n")})
    assert commands[-1] == "./go --site 'a b'"


def test_a_setting_is_changed_and_the_rest_kept(work):
    commands = work("Set `b` to the word `9` in `c.ini`.", {"head": ok("; note\na = 1\nb = 2\n")})
    assert commands[-1] == "printf '%s' '; note\na = 1\nb = 9\n' > c.ini"


def test_a_damaged_file_is_written_again_when_the_instruction_says_to_check(work):
    rules = {"head": [ok("b = 2\n"), ok("")]}
    commands = work("Set `b` to the word `9` in `c.ini`. Check what `c.ini` holds now.", rules)
    assert [c.split()[0] for c in commands] == ["head", "printf", "head", "printf"]
    assert commands[1] == commands[3]


def test_a_file_seen_again_replaces_what_was_seen_before(work):
    rules = {"head": [ok("n: 1\n"), ok("n: 2\n")]}
    assert work("Read `a`. Run `./x`. Read `a`. Write the `n` to `b`.", rules)[-1] == "printf '%s' '2\n' > b"


def test_the_clerk_forgets_through_the_hook(clerk, module, tmp_path):
    agent = clerk(logs_dir=tmp_path)
    assert isinstance(agent, Forgetful)
    memory = module("memory")
    for n in range(3):
        agent._memory.add(memory.Observation("run", "x", "", 0, (memory.Line("x", n, f"k: {n}"),)))
    agent.forget(keep=1)
    assert [value for _, value in agent._memory.values("k")] == ["2"]
    agent.forget(keep=0)
    assert agent._memory.values("k") == []


def test_a_cancelled_run_leaves_a_trajectory_harbor_accepts(clerk, tmp_path):
    class Stuck(Script):
        async def exec(self, command, **_):
            if "head" not in command:
                await asyncio.Event().wait()
            return ok("room: 7\n")

    async def cancelled():
        agent = clerk(logs_dir=tmp_path)
        run = agent.run("Read `a.txt`. Write the `room` to `b.txt`.", Stuck({}), AgentContext())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run, 0.05)

    asyncio.run(cancelled())
    trajectory = Trajectory.model_validate(json.loads((tmp_path / "trajectory.json").read_text()))
    (call,) = trajectory.steps[1].tool_calls
    assert (call.function_name, call.arguments) == ("read_file", {"path": "a.txt"})
    assert len(trajectory.steps) == 2
