# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear message on standard error, exit status 2, nothing written, whatever command meets it."""

from __future__ import annotations

import pytest

ORACLE = "agent: {name: oracle}"
#: (file, old, new, how the only message begins, how it ends)
MISTAKES = {
    "misspelt key": (
        "case.yaml", ORACLE, "agent: {nmae: claude-code}",
        "exp/case.yaml:12: baseline.agent.nmae: ", "unknown key; did you mean `name`?",
    ),
    "unknown agent": (
        "case.yaml", ORACLE, "agent: {name: claud-code}",
        "exp/case.yaml:12: baseline.agent.name: ", "Harbor has no agent 'claud-code'; did you mean 'claude-code'?",
    ),
    "missing task folder": (
        "case.yaml", "path: tasks/beta", "path: tasks/bta",
        "exp/case.yaml:7: tasks[1].path: ", "task folder tasks/bta does not exist; did you mean tasks/beta?",
    ),
    "wrong pin": (
        "tasks/beta/instruction.md", "Write beta", "Write gamma",
        "exp/case.yaml:7: tasks[1].sha256: tasks/beta has changed: found ",
        "...; restore it, or run `metric-benchmark sign` to accept the change",
    ),
    "duplicate id": (
        "case.yaml", "- id: gamma", "- id: alpha",
        "exp/case.yaml:8: tasks[2].id: ", "'alpha' is given twice, first as number 1 of the list; make it unique",
    ),
    "reserved id": (
        "case.yaml", "id: short", "id: baseline",
        "exp/case.yaml:14: mutants[0].id: ",
        "'baseline' is reserved for a role (baseline, screening, control-N); choose another id",
    ),
    "id with a comma": (
        "case.yaml", "id: short", "id: 'a,b'",
        "exp/case.yaml:14: mutants[0].id: 'a,b' is not usable as an id; expected 1 to 80 of a-z, 0-9, ",
        "(ids become partition keys and folder names)",
    ),
    "subset naming an unknown task": (
        "subsets.yaml", "[alpha, beta]", "[alpha, delta]",
        "exp/subsets.yaml:4: subsets[1].tasks[1]: ",
        "correct it, or run `metric-benchmark subsets generate exp/case.yaml`",
    ),
    "mutant without operator": (
        "case.yaml", "    operator: external/does-nothing\n", "",
        "exp/case.yaml:17: mutants[1]: ", "key `operator` is missing; add it",
    ),
    "unknown operator": (
        "case.yaml", "action_budget", "action_bugdet",
        "exp/case.yaml:15: mutants[0].operator: operator action_bugdet is unknown; did you mean action_budget?", "",
    ),
    "empty subset": (
        "subsets.yaml", "[alpha, beta]", "[]",
        "exp/subsets.yaml:4: subsets[1].tasks: ", "found an empty list; expected a list of at least 1",
    ),
    "NaN threshold": (
        "analysis.yaml", "0.8", ".nan",
        "exp/analysis.yaml:4: scoring.min_pass_share: ", "found nan; expected a finite number",
    ),
    "a list": (
        "cases.yaml", "schema: metric-benchmark/cases/v1\ncases:\n  - path: case.yaml\n", "- path: case.yaml\n",
        "exp/cases.yaml:1: ", "found a list; expected a mapping with keys such as `schema:`",
    ),
    "an alias bomb": (
        "analysis.yaml", "scoring:",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\nscoring:",
        "exp/analysis.yaml: ",
        "refused: the file expands to more than 200000 values (aliases count each time they are used)",
    ),
    "a path that climbs out": (
        "case.yaml", "path: tasks/beta", "path: ../tasks/beta",
        "exp/case.yaml:7: tasks[1].path: ../tasks/beta leaves the experiment's folder; ",
        "move it inside or declare its folder under `roots:`",
    ),
    "an absolute path": (
        "case.yaml", "path: tasks/beta", "path: /etc",
        "exp/case.yaml:7: tasks[1].path: '/etc' is not a relative path; ",
        "write it relative to the file that names it, with '/'",
    ),
    "a literal API key": (
        "case.yaml", ORACLE, "agent: {name: oracle, env: {OPENAI_API_KEY: sk-proj-abcdefghijklmnop0123}}",
        "exp/case.yaml:12: baseline.agent.env.OPENAI_API_KEY: a literal secret: the value looks like an API key; ",
        "write `${VAR}` and set the variable in the environment",
    ),
    "an unknown metric": (
        "analysis.yaml", "suite_size", "suit_size",
        "exp/analysis.yaml:6: coverage[0]: metric suit_size: no metric is called 'suit_size'; did you mean suite_size?",
        "",
    ),
    "a design that cannot kill": (
        "analysis.yaml", "{name: deterministic}", "{name: exact, alpha: 0.01}",
        "exp/analysis.yaml:3: scoring.kill_rule: 1 baseline and 1 mutant attempts, but a cell needs 2 valid attempts",
        "raise the attempts in execution.yaml or set `scoring.min_valid_attempts`",
    ),
    "an unknown environment": (
        "execution.yaml", "environment: docker", "environment: dokcer",
        "exp/execution.yaml:6: environment: ", "environment 'dokcer' is unknown; did you mean 'docker'?",
    ),
}  # fmt: skip


@pytest.fixture(params=MISTAKES.values(), ids=MISTAKES)
def mistake(request, unsigned):
    name, old, new, begins, ends = request.param
    if name != "cases.yaml":
        unsigned.sign()
    unsigned.edit(name, (old, new))
    return unsigned, begins, ends


@pytest.mark.parametrize(
    "words",
    [["run-experiment", "exp", "--output", "out"], ["plan", "exp"], ["verify", "exp"]],
    ids=lambda words: words[0],
)
def test_one_message_status_2_and_nothing_written(run, mistake, tmp_path, words):
    project, begins, ends = mistake
    before = project.snapshot()
    ended = run(*words)
    assert (ended.status, ended.out) == (2, "")
    (message,) = ended.errors
    assert ended.err == f"error: {message}\n"
    assert message.startswith(begins)
    assert message.endswith(ends) or not ends
    assert "sk-proj" not in ended.err
    assert project.snapshot() == before
    assert [path.name for path in tmp_path.iterdir()] == ["exp"]


def test_a_link_that_leads_out_of_the_experiment(run, project, tmp_path):
    outside = tmp_path / "outside"
    (project.folder / "tasks/beta").rename(outside)
    (project.folder / "tasks/beta").symlink_to(outside)
    ended = run("run-evals", "exp", "--output", "out")
    assert ended.status == 2
    assert ended.errors == [
        "exp/case.yaml:7: tasks[1].path: tasks/beta leaves the experiment's folder; move it inside or declare its "
        "folder under `roots:`"
    ]
    assert not (tmp_path / "out").exists()


def test_nothing_but_stale_pins_is_reported_as_such_and_everything_else_first(run, project):
    project.edit("case.yaml", (ORACLE, "agent: {name: claud-code}"))
    assert len(run("verify", "exp").errors) == 1
    project.edit("case.yaml", ("claud-code", "oracle, kwargs: {}"))
    (message,) = run("verify", "exp").errors
    assert message.startswith("exp/cases.yaml:4: cases[0].sha256: case.yaml has changed: found ")


def test_several_mistakes_are_told_at_once(run, project):
    project.edit("case.yaml", (ORACLE, "agent: {nmae: oracle}"), ("id: idle", "id: control-1"))
    project.edit("analysis.yaml", ("0.8", "2"))
    assert len(run("plan", "exp").errors) == 3


def test_several_mistakes_of_a_valid_form_are_told_at_once(run, project):
    project.edit("case.yaml", (ORACLE, "agent: {name: nopp}"), ("{name: nop}", "{name: orakle}"))
    project.edit("analysis.yaml", ("suite_size", "suit_size"), ("deterministic", "exact"))
    project.edit("execution.yaml", ("environment: docker", "environment: dokcer"))
    assert [message.partition(": ")[0] for message in run("plan", "exp").errors] == [
        "exp/execution.yaml:6",
        "exp/case.yaml:12",
        "exp/case.yaml:19",
        "exp/analysis.yaml:3",
        "exp/analysis.yaml:6",
    ]


def test_a_run_id_that_is_no_name(run, project, tmp_path):
    ended = run("run-evals", "exp", "--output", "out", "--run-id", "My Run")
    assert ended.status == 2
    assert ended.errors[0].startswith("the run id: 'My Run' is not usable as an id; expected")
    assert not (tmp_path / "out").exists()
