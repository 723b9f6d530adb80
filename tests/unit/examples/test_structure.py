# SPDX-License-Identifier: Apache-2.0
"""The checked-in examples are what their README says: sizes, ids, tasks that run anywhere, agents that know none."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from metric_benchmark.config import load_experiment
from metric_benchmark.mutants.catalog import OPERATORS, check_operator
from metric_benchmark.mutants.sentences import split_sentences

EXAMPLES = Path(__file__).parents[3] / "examples"
CASES = {
    "desk": EXAMPLES / "bundled/cases/desk",
    "depot": EXAMPLES / "bundled/cases/depot",
    "errands": EXAMPLES / "noisy/cases/errands",
}
TASKS = [task for case in CASES.values() for task in sorted((case / "tasks").iterdir())]
FAMILIES = {"prompt", "tools", "observation", "memory", "control"}


@pytest.fixture(scope="module")
def cases():
    experiments = [load_experiment(EXAMPLES / e / "experiment.yaml", verify=False) for e in ("bundled", "noisy")]
    return {case.config.case_id: case.config for experiment in experiments for case in experiment.cases}


def by_name(path):
    return f"{path.parents[1].name}/{path.name}"


@pytest.mark.parametrize(("case_id", "n_tasks", "n_mutants"), [("desk", 20, 12), ("depot", 12, 6), ("errands", 4, 3)])
def test_a_case_lists_exactly_the_task_folders_there_are(cases, case_id, n_tasks, n_mutants):
    case = cases[case_id]
    assert len(case.tasks) == n_tasks
    assert len(case.mutants) == n_mutants
    folders = {task.name for task in (CASES[case_id] / "tasks").iterdir()}
    assert {task.id for task in case.tasks} == folders
    assert all(task.path == f"tasks/{task.id}" for task in case.tasks)


@pytest.mark.parametrize(
    ("case_id", "sizes"),
    [("desk", {2: 12, 4: 12, 6: 12, 8: 12, 12: 12}), ("depot", {2: 12, 3: 12, 4: 12, 6: 12, 8: 12})],
)
def test_sixty_different_subsets_of_five_sizes(case_id, sizes):
    experiment = load_experiment(EXAMPLES / "bundled/experiment.yaml", verify=False)
    manifest = next(case for case in experiment.cases if case.config.case_id == case_id).subsets
    assert Counter(len(subset.tasks) for subset in manifest.subsets) == sizes
    assert len({frozenset(subset.tasks) for subset in manifest.subsets}) == 60
    assert manifest.chosen_using == "none"
    assert manifest.generator
    assert "seed" in manifest.generator


def test_each_bundled_case_has_mutants_of_every_family_and_the_sets_differ(cases):
    made = {}
    for case_id in ("desk", "depot"):
        mutants = cases[case_id].mutants
        assert {OPERATORS[m.operator.name].family for m in mutants} == FAMILIES
        made[case_id] = {(m.operator.name, str(m.operator.params)) for m in mutants}
    assert len(made["desk"]) == 12
    assert made["desk"] & made["depot"] == {("dropped_instruction", "{'sentence': 5}")}


def test_operators_accept_their_parameters(cases):
    agent = {"import_path": "metric_benchmark.execution.agents:BundleAgent", "kwargs": {}}
    for case in cases.values():
        for mutant in case.mutants:
            if not mutant.operator.is_external:
                assert check_operator(mutant.operator.name, mutant.operator.params, agent) == []


@pytest.mark.parametrize("task", TASKS, ids=by_name)
def test_a_task_needs_nothing_but_the_debian_image(task):
    settings = tomllib.loads((task / "task.toml").read_text())
    assert settings["environment"] == {"docker_image": "debian:bookworm-slim", "workdir": "/app"}
    scripts = [task / "tests/test.sh", task / "solution/solve.sh"]
    assert all(os.access(script, os.X_OK) for script in scripts)
    files = [*scripts, *(f for f in (task / "environment").rglob("*") if f.is_file())]
    assert all(f.stat().st_size < 12_000 for f in files)
    text = "\n".join(f.read_text() for f in files)
    assert not re.search(r"\b(python3?|curl|jq|apt-get)\b", text)


@pytest.mark.parametrize("task", TASKS, ids=by_name)
def test_the_agents_know_no_task_and_no_answer(task):
    bundle = "bundled" if "bundled" in task.parts else "noisy"
    code = "\n".join(f.read_text() for f in (EXAMPLES / bundle / "agent").glob("*.py"))
    graded = (task / "tests/test.sh").read_text()
    answers = {
        line
        for answer in re.findall(r"^want \S+ \$?'([^']*)'", graded, re.MULTILINE)
        for line in answer.split("\\n")
        if len(line) > 3 and line not in ("late", "open")
    }
    assert task.name not in code
    assert not [answer for answer in answers if answer in code]
    source = (task / "instruction.md").read_text()
    assert not [answer for answer in answers if answer in source]


@pytest.mark.parametrize("task", [t for t in TASKS if "bundled" in t.parts], ids=by_name)
def test_the_clerk_understands_each_sentence_that_names_something(task, clerk):
    plan = sys.modules[clerk.__module__.rpartition(".")[0] + ".plan"]
    text = (task / "instruction.md").read_text()
    sentences = plan.sentences(text)
    # Operators that drop a sentence count as the agent does.
    assert sentences == [part.strip() for part in split_sentences(text)]
    understood = {step.sentence for step in plan.make_plan(text)}
    naming = re.compile(r"`|\bthe (last )?file\b")
    assert understood == {sentence for sentence in sentences if naming.search(sentence)}
