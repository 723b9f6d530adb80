# SPDX-License-Identifier: Apache-2.0
"""Every kind of bad input is refused by name: its place, what was found, what was expected, what to do."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import ConfigError, PinError
from metric_benchmark.variants import resolve_variants

ORACLE = "agent: {name: oracle}"


def refusal(project, kind: type[ConfigError] = ConfigError) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        resolve_variants(load_experiment(project.folder))
    assert refused.type is kind
    assert refused.value.exit_status == 2
    return [str(problem) for problem in refused.value.problems]


#: One change of one file each: (file, old text, new text, the whole message).
ONE_MESSAGE = {
    "misspelt key": (
        "case.yaml", ORACLE, "agent: {nmae: claude-code}",
        "exp/case.yaml:12: baseline.agent.nmae: unknown key; did you mean `name`?",
    ),
    "key nothing like any other": (
        "description.yaml", "title: A desk", "title: A desk\nzzz: 1",
        "exp/description.yaml:3: zzz: unknown key; expected one of: schema, text, title, tools",
    ),
    "missing task folder": (
        "case.yaml", "path: tasks/beta", "path: tasks/bta",
        "exp/case.yaml:7: tasks[1].path: task folder tasks/bta does not exist; did you mean tasks/beta?",
    ),
    "folder that is no task": (
        "case.yaml", "path: tasks/beta", "path: tasks/beta/tests",
        "exp/case.yaml:7: tasks[1].path: task folder tasks/beta/tests has no task.toml; it is not a Harbor task",
    ),
    "duplicate task id": (
        "case.yaml", "- id: gamma", "- id: alpha",
        "exp/case.yaml:8: tasks[2].id: 'alpha' is given twice, first as number 1 of the list; make it unique",
    ),
    "duplicate mutant id": (
        "case.yaml", "- id: idle", "- id: short",
        "exp/case.yaml:17: mutants[1].id: 'short' is given twice, first as number 1 of the list; make it unique",
    ),
    "duplicate subset id": (
        "subsets.yaml", "id: two", "id: one",
        "exp/subsets.yaml:4: subsets[1].id: 'one' is given twice, first as number 1 of the list; make it unique",
    ),
    "reserved id": (
        "case.yaml", "id: short", "id: screening",
        "exp/case.yaml:14: mutants[0].id: 'screening' is reserved for a role (baseline, screening, control-N); choose "
        "another id",
    ),
    "reserved control": (
        "case.yaml", "id: short", "id: control-12",
        "exp/case.yaml:14: mutants[0].id: 'control-12' is reserved for a role (baseline, screening, control-N); choose "
        "another id",
    ),
    "id with a comma": (
        "case.yaml", "id: short", "id: 'a,b'",
        "exp/case.yaml:14: mutants[0].id: 'a,b' is not usable as an id; expected 1 to 80 of a-z, 0-9, '.', '_', '-', "
        "starting with a letter or digit (ids become partition keys and folder names)",
    ),
    "id that is a number": (
        "case.yaml", "id: short", "id: 7",
        "exp/case.yaml:14: mutants[0].id: found 7; expected a text; put it in quotes",
    ),
    "id that would hide an index": (
        "case.yaml", "id: short", "id: results.json",
        "exp/case.yaml:14: mutants[0].id: 'results.json' ends like the files beside which a variant's folder stands; "
        "choose another id",
    ),
    "unknown task in a subset": (
        "subsets.yaml", "[alpha, beta]", "[alpha, delta]",
        "exp/subsets.yaml:4: subsets[1].tasks[1]: subset 'two' names task 'delta', which case 'desk' does not have; "
        "correct it, or run `metric-benchmark subsets generate exp/case.yaml`",
    ),
    "mutant without operator": (
        "case.yaml", "    operator: external/does-nothing\n", "",
        "exp/case.yaml:17: mutants[1]: key `operator` is missing; add it",
    ),
    "label without an agent": (
        "case.yaml", "agent: {name: nop}", "agent: inherit",
        "exp/case.yaml:17: mutants[1]: operator 'external/does-nothing' only names a fault; give the mutant its own "
        "`agent`",
    ),
    "empty subset": (
        "subsets.yaml", "[alpha, beta]", "[]",
        "exp/subsets.yaml:4: subsets[1].tasks: found an empty list; expected a list of at least 1",
    ),
    "NaN threshold": (
        "analysis.yaml", "min_pass_share: 0.8", "min_pass_share: .nan",
        "exp/analysis.yaml:4: scoring.min_pass_share: found nan; expected a finite number",
    ),
    "NaN drop": (
        "analysis.yaml", "{name: deterministic}", "{name: threshold, drop: .nan}",
        "exp/analysis.yaml:3: scoring.kill_rule.drop: found nan; expected a finite number",
    ),
    "share above one": (
        "analysis.yaml", "min_pass_share: 0.8", "min_pass_share: 80",
        "exp/analysis.yaml:4: scoring.min_pass_share: found 80; expected at most 1.0",
    ),
    "no attempts": (
        "execution.yaml", "baseline: {attempts: 1}", "baseline: {attempts: 0}",
        "exp/execution.yaml:3: roles.baseline.attempts: found 0; expected at least 1",
    ),
    "attempts that are no number": (
        "execution.yaml", "baseline: {attempts: 1}", "baseline: {attempts: true}",
        "exp/execution.yaml:3: roles.baseline.attempts: found True; expected a whole number",
    ),
    "NaN among an agent's arguments": (
        "case.yaml", ORACLE, "agent: {name: oracle, kwargs: {limits: [1, .inf]}}",
        "exp/case.yaml:12: baseline.agent.kwargs.limits[1]: found inf; expected a finite number",
    ),
    "id without end": (
        "case.yaml", "id: short", f"id: {'x' * 300}",
        f"exp/case.yaml:14: mutants[0].id: '{'x' * 77}...' is not usable as an id; expected 1 to 80 of a-z, 0-9, '.', "
        "'_', '-', starting with a letter or digit (ids become partition keys and folder names)",
    ),
    "misspelt key of a kill rule": (
        "analysis.yaml", "{name: deterministic}", "{nmae: deterministic}",
        "exp/analysis.yaml:3: scoring.kill_rule.nmae: unknown key; did you mean `name`?",
    ),
    "hypothesis about no metric of ours": (
        "analysis.yaml", "  - {name: suite_size}", "  - {name: suite_size}\ncorrelation:\n  hypotheses:\n    - "
        "{metric: size, minimum_effect: 0.1}",
        "exp/analysis.yaml:9: correlation.hypotheses[0].metric: metric 'size' is not listed under `coverage`; expected "
        "one of: suite_size",
    ),
    "gate on no metric of ours": (
        "analysis.yaml", "  - {name: suite_size}", "  - {name: suite_size}\ngates:\n  min_suite_coverage:\n    size: 1",
        "exp/analysis.yaml:9: gates.min_suite_coverage.size: metric 'size' is not listed under `coverage`; expected "
        "one of: suite_size",
    ),
    "empty reward key": (
        "execution.yaml", "reward_key: reward", "reward_key: ''",
        "exp/execution.yaml:7: reward_key: is empty; write a text",
    ),
    "another version": (
        "experiment.yaml", "experiment/v1", "experiment/v2",
        "exp/experiment.yaml:1: schema: found 'metric-benchmark/experiment/v2'; expected "
        "'metric-benchmark/experiment/v1'",
    ),
    "path that climbs out": (
        "case.yaml", "path: tasks/beta", "path: ../tasks/beta",
        "exp/case.yaml:7: tasks[1].path: ../tasks/beta leaves the experiment's folder; move it inside or declare its "
        "folder under `roots:`",
    ),
    "absolute path": (
        "case.yaml", "path: tasks/beta", "path: /etc",
        "exp/case.yaml:7: tasks[1].path: '/etc' is not a relative path; write it relative to the file that names it, "
        "with '/'",
    ),
    "two agents in one": (
        "case.yaml", ORACLE, "agent: {name: oracle, import_path: 'a.b:C'}",
        "exp/case.yaml:12: baseline.agent: found `name` and `import_path`; expected exactly one of `name`, "
        "`import_path`, or `bundle` with `entry`",
    ),
    "no agent at all": (
        "case.yaml", ORACLE, "agent: {model_name: openai/x}",
        "exp/case.yaml:12: baseline.agent: found none of them; expected exactly one of `name`, `import_path`, or "
        "`bundle` with `entry`",
    ),
    "literal secret by its key": (
        "case.yaml", ORACLE, "agent: {name: oracle, env: {OPENAI_API_KEY: hunter2hunter2}}",
        "exp/case.yaml:12: baseline.agent.env.OPENAI_API_KEY: a literal secret: the key 'OPENAI_API_KEY' looks like "
        "that of a secret; write `${VAR}` and set the variable in the environment",
    ),
    "literal secret by its value": (
        "case.yaml", ORACLE, "agent: {name: oracle, kwargs: {extra: [sk-ant-api03-abcdefghijklmnop]}}",
        "exp/case.yaml:12: baseline.agent.kwargs.extra[0]: a literal secret: the value looks like an API key; write "
        "`${VAR}` and set the variable in the environment",
    ),
    "key given twice": (
        "experiment.yaml", "name: small", "name: small\nname: other",
        "exp/experiment.yaml:3: key 'name' is given twice; keep one",
    ),
    "no YAML": (
        "experiment.yaml", "name: small", "name: [small",
        "exp/experiment.yaml:3: not valid YAML: expected ',' or ']', but got ':'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "message"), ONE_MESSAGE.values(), ids=ONE_MESSAGE)
def test_one_mistake_gives_one_message(project, name, old, new, message):
    project.edit(name, (old, new))
    assert refusal(project) == [message]


@pytest.mark.parametrize(
    ("agent", "hint"),
    [("claud-code", "did you mean 'claude-code'?"), ("zzzz", "expected one of: acp, aider,")],
)
def test_an_agent_harbor_does_not_know_is_refused(project, agent, hint):
    project.edit("case.yaml", (ORACLE, f"agent: {{name: {agent}}}"))
    project.sign()
    (message,) = refusal(project)
    assert message.startswith(f"exp/case.yaml:12: baseline.agent.name: Harbor has no agent {agent!r}; {hint}")


def test_a_secret_is_never_repeated_in_a_message(project):
    project.edit(
        "case.yaml", (ORACLE, "agent: {name: oracle, env: {PASSWORD: 31337, TOKEN: ghp_abcdefghijklmnopqrst}}")
    )
    messages = refusal(project)
    # The number is a literal secret, and no text as a variable must be.
    assert len(messages) == 3
    assert "31337" not in "".join(messages)
    assert "ghp_" not in "".join(messages)


def test_a_wrong_pin_is_refused_with_both_digests(project):
    (project.folder / "tasks/beta/instruction.md").write_text("Something else.\n")
    (message,) = refusal(project, PinError)
    assert message.startswith("exp/case.yaml:7: tasks[1].sha256: tasks/beta has changed: found ")
    assert message.endswith("; restore it, or run `metric-benchmark sign` to accept the change")


def test_what_was_never_signed_says_so_for_each_pin(unsigned):
    messages = refusal(unsigned, PinError)
    assert messages[0] == "exp/cases.yaml:3: cases[0]: case.yaml is not pinned; run `metric-benchmark sign` once"
    assert len(messages) == 6


def test_a_list_instead_of_a_mapping(project):
    project.write("experiment.yaml", "- name: small\n")
    assert refusal(project) == ["exp/experiment.yaml:1: found a list; expected a mapping with keys such as `schema:`"]


def test_an_alias_bomb_is_refused_before_it_is_expanded(project):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    project.write("analysis.yaml", "\n".join(lines) + "\n")
    assert refusal(project) == [
        "exp/analysis.yaml: refused: the file expands to more than 200000 values (aliases count each time they are "
        "used)"
    ]


def test_nesting_without_end_is_refused(project):
    project.write("analysis.yaml", "a: &a [*a]\n")
    assert refusal(project) == ["exp/analysis.yaml: refused: values are nested more than 60 deep"]


def test_a_link_that_leads_out_is_refused(project, tmp_path):
    (project.folder / "tasks/beta").rename(tmp_path / "beta")
    (project.folder / "tasks/beta").symlink_to(tmp_path / "beta")
    assert refusal(project) == [
        "exp/case.yaml:7: tasks[1].path: tasks/beta leaves the experiment's folder; move it inside or declare its "
        "folder under `roots:`"
    ]


def test_a_link_that_leads_to_itself_is_named_where_its_folder_is(project):
    (project.folder / "tasks/beta/environment/loop").symlink_to("loop")
    (message,) = refusal(project)
    assert message.startswith("exp/case.yaml:7: tasks[1].path: ")
    assert message.endswith("environment/loop: a symbolic link that leads nowhere; remove it from the pinned folder")
    with pytest.raises(PinError, match=r"^exp/case\.yaml:7: tasks\[1\]\.path: .*leads nowhere"):
        project.sign()


def test_a_task_folder_that_is_such_a_link(project):
    shutil.rmtree(project.folder / "tasks/beta")
    (project.folder / "tasks/beta").symlink_to("beta")
    (message,) = refusal(project)
    assert message.startswith("exp/case.yaml:7: tasks[1].path: tasks/beta cannot be used: ")


def test_a_folder_that_may_not_be_entered(project, monkeypatch):
    # Root may enter everything, so that taking rights away would show nothing here.
    real, closed = Path.stat, project.folder / "tasks"

    def refusing(path, **options):
        if path.is_relative_to(closed) and path != closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", refusing)
    assert refusal(project) == [
        f"exp/case.yaml:{line}: tasks[{n}].path: tasks/{name} cannot be used: Permission denied"
        for line, n, name in ((6, 0, "alpha"), (7, 1, "beta"), (9, 2, "gamma"))
    ]


def test_a_declared_root_may_be_used(project, tmp_path):
    (project.folder / "tasks/beta").rename(tmp_path / "beta")
    project.edit("case.yaml", ("path: tasks/beta", "path: ../beta"))
    project.edit("experiment.yaml", ("analysis: analysis.yaml", "analysis: analysis.yaml\nroots: [..]"))
    project.sign()
    experiment = load_experiment(project.folder)
    assert experiment.cases[0].path_of(experiment.cases[0].config.tasks[1]) == tmp_path / "beta"


def test_one_folder_cannot_be_two_tasks(project):
    project.edit("case.yaml", ("path: tasks/beta", "path: tasks/alpha/../alpha"))
    assert refusal(project) == [
        "exp/case.yaml:7: tasks[1]: task folder tasks/alpha/../alpha is also that of task 'alpha'"
    ]


def test_all_problems_of_all_files_are_reported_at_once(project):
    project.edit("case.yaml", (ORACLE, "agent: {nmae: oracle}"), ("id: short", "id: baseline"))
    project.edit("execution.yaml", ("reward_key: reward\n", ""), ("count: 1", "count: -1"))
    project.edit("analysis.yaml", ("0.8", ".inf"))
    assert [message.partition(": ")[0] for message in refusal(project)] == [
        "exp/execution.yaml:4",
        "exp/execution.yaml:1",
        "exp/analysis.yaml:4",
        "exp/case.yaml:12",
        "exp/case.yaml:14",
    ]


def test_an_operator_that_cannot_act_says_why(project):
    project.edit(
        "case.yaml", ("name: action_budget, params: {max_actions: 1}", "name: memory_amnesia, params: {keep: 1}")
    )
    project.sign()
    (message,) = refusal(project)
    assert message.startswith(
        "exp/case.yaml:15: mutants[0].operator: operator memory_amnesia cannot act on agent oracle"
    )


def test_files_that_are_not_there_are_named(project):
    (project.folder / "subsets.yaml").unlink()
    assert refusal(project) == ["exp/subsets.yaml: no such file; check the path that names it"]
    with pytest.raises(ConfigError, match=r"^nowhere: no such file"):
        load_experiment("nowhere")


def test_a_file_that_is_not_utf_8_is_named(project):
    (project.folder / "analysis.yaml").write_bytes(b"schema: \xff\n")
    assert refusal(project) == ["exp/analysis.yaml: not UTF-8 (byte 8); save the file as UTF-8"]
