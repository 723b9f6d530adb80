# SPDX-License-Identifier: Apache-2.0
"""Claims are registered at a case's first trial, may be amended until a mutant was tried, and changes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.evidence.ledger import append_entry, read_ledger
from metric_benchmark.evidence.locks import lock_ledger
from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline.registration import Registered, find_registration, register_claims

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
