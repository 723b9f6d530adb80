# SPDX-License-Identifier: Apache-2.0
"""Claims are registered at a case's first trial, may be amended until a mutant was tried, and changes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.evidence.ledger import append_entry, read_ledger
from metric_benchmark.evidence.locks import lock_ledger
from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline.registration import Registered, find_registration, plan_parts, register_claims

CLAIM = "correlation:\n  hypotheses:\n    - {metric: suite_size, minimum_effect: 0.2}\n"


@pytest.fixture
def opened(project):
    """Opens the experiment as its files are now, always in one evidence root."""
    Path("out").mkdir()
    project.write("analysis.yaml", project.read("analysis.yaml") + CLAIM)
    return lambda: open_run(project.folder, "out", level="analysis")


def enter(run, kind, variant, number="run-1", **more):
    with lock_ledger(run.root):
        append_entry(run.root, kind, case="desk", variant=variant, folder="f", run=number, **more)


def registered(run):
    return [entry for entry in read_ledger(run.root) if entry["kind"] == "hypotheses"]


def test_what_was_registered_before_the_first_trial_and_not_changed_since(opened):
    run = opened()
    register_claims(run, "desk")
    enter(run, "reserve", "baseline", n_trials=3)
    enter(run, "reserve", "short", n_trials=3)
    register_claims(run, "desk")
    (entry,) = registered(run)
    assert entry["hypotheses"] == [
        {"metric": "suite_size", "direction": "greater", "minimum_effect": 0.2, "alpha": 0.05}
    ]
    assert find_registration(run, "desk") == Registered("before_data")


@pytest.mark.parametrize(
    ("file", "change", "what"),
    [
        ("analysis.yaml", ("minimum_effect: 0.2", "minimum_effect: 0.1"), "the hypotheses"),
        ("analysis.yaml", ("{name: suite_size}", "{name: suite_size, metric: tool_calls}"),
         "the settings of their metrics"),
        ("analysis.yaml", ("min_pass_share: 0.8", "min_pass_share: 0.5"), "the scoring settings"),
        ("analysis.yaml", ("correlation:", "correlation:\n  seed: 7"), "the correlation settings"),
        ("subsets.yaml", ("[alpha]", "[beta]"), "the subsets"),
        ("description.yaml", ("A desk", "A desk with more drawers"), "the case's description"),
        ("case.yaml", ("  - id: idle", "  - id: idler"), "the mutants"),
        ("case.yaml", ("  - id: gamma", "  - id: gamut"), "the tasks"),
        ("case.yaml", ("max_actions: 1", "max_actions: 9"), "what the mutants are"),
        ("case.yaml", ("{name: nop}", "{name: nop, kwargs: {wait: 1}}"), "what the mutants are"),
        ("case.yaml", ("{name: oracle}", "{name: oracle, kwargs: {wait: 1}}"), "the baseline agent"),
        ("tasks/beta/tests/test.sh", ("echo 1", "echo 0"), "what the tasks are"),
        ("execution.yaml", ("control: {count: 1,", "control: {count: 2,"), "the attempts by role"),
        ("execution.yaml", ("mutant: {attempts: 1}", "mutant: {attempts: 5}"), "the attempts by role"),
    ],
)  # fmt: skip
def test_what_is_changed_after_the_data_is_named(opened, project, file, change, what):
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "short", n_trials=3)
    before = (project.read(file), project.read("case.yaml"))
    project.edit(file, change)
    project.sign()
    register_claims(opened(), "desk")
    assert len(registered(opened())) == 1
    assert find_registration(opened(), "desk") == Registered("after_data", (what,))
    project.write(file, before[0])
    project.write("case.yaml", before[1])
    project.sign()
    assert find_registration(opened(), "desk") == Registered("before_data")


OWN = """\
  - {name: own, metric: 'mine:Mine'}
  - {name: script, metric: command, settings: {argv: [./m.py], files: [m.py]}}"""


@pytest.mark.parametrize("file", ["mine.py", "m.py"])
def test_the_code_of_a_metric_of_ones_own_and_the_files_metrics_read_are_registered(opened, project, file):
    project.edit("analysis.yaml", ("  - {name: suite_size}", f"  - {{name: suite_size}}\n{OWN}"))
    project.edit(
        "analysis.yaml", ("{metric: suite_size,", "{metric: script, minimum_effect: 0.2}\n    - {metric: own,")
    )
    project.write("mine.py", "class Mine: ...\n")
    project.write("m.py", "print(1)\n")
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "short", n_trials=3)
    assert find_registration(opened(), "desk") == Registered("before_data")
    project.write(file, "print(2)\n")
    assert find_registration(opened(), "desk") == Registered("after_data", ("the code and files of their metrics",))


def test_a_claim_about_another_built_in_metric_names_no_code(opened, project):
    project.edit("analysis.yaml", ("  - {name: suite_size}", "  - {name: suite_size}\n  - {name: synthetic}"))
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "short", n_trials=3)
    project.edit("analysis.yaml", ("{metric: suite_size,", "{metric: synthetic,"))
    assert find_registration(opened(), "desk") == Registered(
        "after_data", ("the hypotheses", "the settings of their metrics")
    )


def test_a_case_that_is_added_or_dropped_after_the_data_is_named(opened, project):
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "short", n_trials=3)
    project.write("cases.yaml", project.read("cases.yaml") + "  - path: other.yaml\n")
    project.write("other.yaml", project.read("case.yaml").replace("case_id: desk", "case_id: table"))
    project.sign()
    assert find_registration(opened(), "desk") == Registered("after_data", ("the experiment's cases",))


def test_what_an_older_version_did_not_register_is_not_on_record(opened, project):
    parts = plan_parts(opened().experiment, opened().experiment.case("desk"))
    del parts["what the mutants are"]
    with lock_ledger(opened().root):
        append_entry(opened().root, "hypotheses", case="desk", sha256="0", parts=parts, hypotheses=[])
    enter(opened(), "reserve", "short", n_trials=3)
    assert find_registration(opened(), "desk") == Registered("unknown")
    project.edit("analysis.yaml", ("minimum_effect: 0.2", "minimum_effect: 0.1"))
    assert find_registration(opened(), "desk") == Registered("after_data", ("the hypotheses",))


def test_metrics_without_a_claim_and_gates_may_change(opened, project):
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "short", n_trials=3)
    project.edit("analysis.yaml", ("  - {name: suite_size}", "  - {name: suite_size}\n  - {name: synthetic}"))
    project.write("analysis.yaml", project.read("analysis.yaml") + "gates: {require_registration: true}\n")
    assert find_registration(opened(), "desk") == Registered("before_data")


def test_claims_may_be_amended_until_a_mutant_was_tried(opened, project):
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "baseline", n_trials=3)
    enter(opened(), "reserve", "control-1", n_trials=3)
    # A run that died before it started a trial has shown nothing.
    enter(opened(), "reserve", "short", n_trials=3)
    enter(opened(), "settle", "short", n_trials=0, cost_usd=None, n_without_cost=0)
    project.edit("analysis.yaml", ("minimum_effect: 0.2", "minimum_effect: 0.3"))
    assert find_registration(opened(), "desk").state == "after_data"
    register_claims(opened(), "desk")
    assert [entry["hypotheses"][0]["minimum_effect"] for entry in registered(opened())] == [0.2, 0.3]
    assert find_registration(opened(), "desk") == Registered("before_data")


def test_a_task_may_be_corrected_until_a_mutant_was_tried_and_files_may_move_any_time(opened, project):
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "baseline", n_trials=3)
    project.edit("tasks/beta/tests/test.sh", ("echo 1", "echo 0"))
    project.sign()
    register_claims(opened(), "desk")
    assert len(registered(opened())) == 2
    enter(opened(), "reserve", "short", n_trials=3)
    (project.folder / "tasks/beta").rename(project.folder / "tasks/other")
    project.edit("case.yaml", ("tasks/beta", "tasks/other"))
    project.sign()
    assert find_registration(opened(), "desk") == Registered("before_data")


def test_the_code_of_agents_is_registered_and_their_place_is_not(opened, project):
    for name in ("good", "bad"):
        project.write(f"{name}/agent.py", f"class Agent: {name} = 1\n")
    project.edit(
        "case.yaml",
        ("{name: oracle}", "{bundle: {path: good}, entry: 'agent.py:Agent'}"),
        ("{name: nop}", "{bundle: {path: bad}, entry: 'agent.py:Agent'}"),
    )
    project.sign()
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "short", n_trials=3)
    (project.folder / "good").rename(project.folder / "better")
    project.edit("case.yaml", ("path: good", "path: better"))
    project.sign()
    assert find_registration(opened(), "desk") == Registered("before_data")
    for name in ("better", "bad"):
        project.write(f"{name}/agent.py", "class Agent: ...\n")
    project.sign()
    assert find_registration(opened(), "desk") == Registered(
        "after_data", ("the baseline agent", "what the mutants are")
    )


def test_evidence_from_before_claims_were_registered_says_nothing(opened):
    enter(opened(), "reserve", "short", n_trials=3)
    register_claims(opened(), "desk")
    assert registered(opened()) == []
    assert find_registration(opened(), "desk") == Registered("unknown")


@pytest.mark.parametrize("variant", ["short", "baseline"])
def test_adopted_results_may_be_older_than_the_claims(opened, variant):
    register_claims(opened(), "desk")
    enter(opened(), "reserve", "idle", n_trials=3)
    enter(opened(), "import", variant, number="run-2", n_trials=3)
    assert find_registration(opened(), "desk") == Registered("unknown")


def test_an_import_that_was_undone_is_no_data(opened):
    enter(opened(), "import", "short", n_trials=3)
    register_claims(opened(), "desk")
    assert registered(opened()) == []
    enter(opened(), "import_undone", "short")
    register_claims(opened(), "desk")
    assert len(registered(opened())) == 1
    assert find_registration(opened(), "desk") == Registered("before_data")
    enter(opened(), "import", "short", n_trials=3)
    assert find_registration(opened(), "desk") == Registered("unknown")
