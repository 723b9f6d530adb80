# SPDX-License-Identifier: Apache-2.0
"""`mutate` through the command line: what it writes is signed and sound, what it refuses it leaves alone."""

from __future__ import annotations

import json

import pytest

from metric_benchmark.cli import main
from metric_benchmark.config import load_experiment


def mutate(project, *words: str) -> int:
    return main(["mutate", str(project.folder / "case.yaml"), *words])


@pytest.fixture
def hosted(unsigned):
    """The experiment with a host-side agent, on which all families of operators but memory can act."""
    unsigned.write("agent/agent.py", "class Agent: ...\n")
    unsigned.edit("case.yaml", ("agent: {name: oracle}", "agent: {bundle: {path: agent}, entry: 'agent:Agent'}"))
    unsigned.sign()
    return unsigned


def test_several_operators_in_one_call(hosted, capsys):
    before = hosted.read("case.yaml")
    operators = ["--operator", "{name: tool_removal, params: {commands: [grep, sed]}}", "--operator", "error_blindness"]
    operators += ["--operator", "{name: misread_number, seed: 7, id: misreads}"]
    assert mutate(hosted, *operators) == 0
    assert hosted.read("case.yaml") == before + (
        "  - id: tool-removal-grep-sed\n"
        "    operator: {name: tool_removal, params: {commands: [grep, sed]}}\n"
        "    agent: inherit\n"
        "  - id: error-blindness\n"
        "    operator: {name: error_blindness}\n"
        "    agent: inherit\n"
        "  - id: misreads\n"
        "    operator: {name: misread_number, seed: 7}\n"
        "    agent: inherit\n"
    )
    assert "added 3 mutants" in capsys.readouterr().out
    # Every pin holds, that of the case in the cases file too.
    (case,) = load_experiment(hosted.folder).cases
    assert [m.id for m in case.config.mutants][-2:] == ["error-blindness", "misreads"]


def test_one_operator_with_several_seeds_makes_a_mutant_of_each_with_each_of_the_parameters(hosted, capsys):
    words = ["--operator", "misread_number", "--params", "{off_by: 1}", "--params", "{off_by: 9}"]
    assert mutate(hosted, *words, "--seed", "3", "--seed", "0", "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert [(m["params"]["off_by"], m["seed"]) for m in done["mutants"]] == [(1, 3), (1, 0), (9, 3), (9, 0)]


def test_one_operator_with_several_parameters_makes_a_mutant_of_each(hosted, capsys):
    words = ["--operator", "action_budget", "--params", "max_actions: 1", "--params", "{max_actions: 2}", "--json"]
    assert mutate(hosted, *words) == 0
    done = json.loads(capsys.readouterr().out)
    assert [(m["id"], m["params"]) for m in done["mutants"]] == [
        ("action-budget-1", {"max_actions": 1}),
        ("action-budget-2", {"max_actions": 2}),
    ]
    assert done["is_written"] is True
    assert done["signed_in"] == [str(hosted.folder / "cases.yaml")]
    assert mutate(hosted, *words) == 0
    assert [m["id"] for m in json.loads(capsys.readouterr().out)["mutants"]] == [
        "action-budget-1-2",
        "action-budget-2-2",
    ]


def test_a_dry_run_shows_the_lines_and_writes_nothing(hosted, capsys):
    before = hosted.snapshot()
    words = ["--operator", "early_stop", "--params", "{after_actions: 2}", "--id", "hasty", "--dry-run"]
    assert mutate(hosted, *words) == 0
    out = capsys.readouterr().out
    assert "+  - id: hasty\n+    operator: {name: early_stop, params: {after_actions: 2}}\n+    agent: inherit\n" in out
    assert hosted.snapshot() == before


def test_everything_that_is_wrong_is_said_at_once_and_nothing_written(hosted, capsys):
    before = hosted.snapshot()
    words = [*("--operator", "tool_remova"), *("--operator", "{name: early_stop, id: baseline}")]
    assert mutate(hosted, *words, "--operator", "external/lazy") == 2
    err = capsys.readouterr().err
    assert "operator tool_remova is unknown; did you mean tool_removal?" in err
    assert "mutant baseline: operator early_stop: params.after_actions is missing" in err
    assert "operator external/lazy: only names the fault of a mutant that brings its own agent" in err
    assert "'baseline' is reserved for a role" in err
    assert hosted.snapshot() == before


def test_an_id_that_is_taken_is_refused(hosted, capsys):
    assert mutate(hosted, "--operator", "error_blindness", "--id", "short") == 2
    assert "'short' is given twice, first as number 1 of the list" in capsys.readouterr().err


def test_an_operator_that_cannot_act_on_the_agent_is_refused_with_the_reason(project, capsys):
    before = project.snapshot()
    assert mutate(project, "--operator", "tool_removal", "--params", "{commands: [cat]}") == 2
    err = capsys.readouterr().err
    assert "operator tool_removal cannot act on agent oracle: it runs the task's solution as one script" in err
    assert project.snapshot() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--operator", "action_budget", "--params", "max_actions=3"],
            "--params:1: found a str; expected a mapping with keys such as `max_actions:`",
        ),
        (["--operator", "a", "--operator", "b", "--params", "{}"], "--params: goes with a single operator given by"),
        (["--operator", "a", "--operator", "b", "--seed", "1"], "--seed: goes with a single operator given by name"),
        (
            ["--operator", "{name: a}", "--params", "{}"],
            "--params: goes with a single operator given by name; say it in",
        ),
        (["--operator", "{nam: a}"], "--operator:1: nam: unknown key; did you mean `name`?"),
        (["--operator", "{name: a,\n name: b}"], "--operator:2: "),
        (["--operator", "a", "--params", "{n: 010}"], "--params:1: found 010, which YAML reads as 8"),
        (["--operator", "{name: a, id: 5}"], "--operator:1: id: found 5; expected a text"),
        (["--operator", "a", "--operator", "{name: 1}"], "--operator 2:1: name: found 1; expected a text"),
        (["--operator", "{name: a, seed: x}"], "--operator:1: seed: found 'x'; expected a whole number"),
        (["--operator", "{name: [a"], "--operator:1: not valid YAML: "),
        (
            ["--operator", "a", "--seed", "1", "--seed", "2", "--id", "x"],
            "2 mutants are asked for, and an id names one",
        ),
        ([], "Missing option '--operator'"),
    ],
)
def test_words_that_do_not_fit_together(project, capsys, words, message):
    assert mutate(project, *words) == 2
    assert message in capsys.readouterr().err


def test_a_pin_that_did_not_hold_is_not_renewed(hosted, capsys):
    hosted.edit("case.yaml", ("- id: idle", "- id: idler"))
    assert mutate(hosted, "--operator", "error_blindness") == 0
    assert "did not hold before; sign the experiment" in capsys.readouterr().out
    assert main(["verify", str(hosted.folder)]) == 2


def test_a_case_without_mutants_and_without_an_experiment(hosted, capsys, tmp_path):
    text = hosted.read("case.yaml")
    (tmp_path / "alone").mkdir()
    case = tmp_path / "alone" / "case.yaml"
    case.write_text(text[: text.index("mutants:")] + "mutants: []\n")
    assert main(["mutate", str(case), "--operator", "error_blindness"]) == 0
    assert case.read_text().endswith(
        "mutants:\n  - id: error-blindness\n    operator: {name: error_blindness}\n    agent: inherit\n"
    )
    assert "no experiment.yaml beside or above the case names it" in capsys.readouterr().out


def test_a_list_that_cannot_be_added_to_is_left_alone(hosted, capsys):
    text = hosted.read("case.yaml")
    hosted.write("case.yaml", text[: text.index("mutants:")] + "mutants: none\n")
    assert mutate(hosted, "--operator", "error_blindness") == 2
    assert "mutants: expected a list" in capsys.readouterr().err
