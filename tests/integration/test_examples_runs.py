# SPDX-License-Identifier: Apache-2.0
"""The example experiments run to the end by the command line, and their evidence holds what the examples promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.harbor, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Evidence of the bundled example that another step of CI has already paid for, e.g. that of `make demo`.
GIVEN = "METRIC_BENCHMARK_BUNDLED_EVIDENCE"


#: One-sided p-values of Boschloo's test (SciPy's boschloo_exact): so many of 6 passed, against none of 5.
AGAINST_0_OF_5 = {0: 1.0, 1: 0.29975, 2: 0.12709, 3: 0.04854, 4: 0.01500, 5: 0.00350, 6: 0.00051}


def run_experiment(name, output):
    done = subprocess.run(
        [sys.executable, "-m", "metric_benchmark", "run-experiment", str(EXAMPLES / name), "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return Evidence(output)


class Evidence:
    """Reads the records of a finished evidence root."""

    def __init__(self, root):
        self.root = Path(root)

    def raw(self, case, variant):
        (record,) = self.root.glob(f"execution/{case}/{variant}/*/raw-results.json")
        return json.loads(record.read_text())

    def analysis(self, case, name):
        return json.loads((self.root / "analysis" / case / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    given = os.environ.get(GIVEN)
    return Evidence(given) if given else run_experiment("bundled", tmp_path_factory.mktemp("bundled") / "evidence")


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    return run_experiment("noisy", tmp_path_factory.mktemp("noisy") / "evidence")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("case", "n_tasks"), [("desk", 20), ("depot", 12)])
def test_baseline_and_its_repetitions_pass_every_task(bundled, case, n_tasks):
    for variant in ("baseline", "screening", "control-1", "control-2"):
        trials = bundled.raw(case, variant)["trials"]
        assert [(t["status"], t["reward"]) for t in trials] == [("valid", 1.0)] * n_tasks
    scores = bundled.analysis(case, "mutant-scores")
    assert len(scores["eligible_tasks"]) == n_tasks
    assert {control["status"] for control in scores["controls"].values()} == {"survived"}


@pytest.mark.slow
@pytest.mark.nightly
def test_first_case_has_distinct_columns_dominators_and_a_mutant_hard_to_kill(bundled):
    mutants = bundled.analysis("desk", "mutant-scores")["mutants"]
    killed_by = {name: frozenset(mutant["killed_by"]) for name, mutant in mutants.items()}
    assert len(killed_by) == 12
    assert len({tasks for tasks in killed_by.values() if tasks}) >= 6
    assert sum(mutant["is_dominator"] for mutant in mutants.values()) >= 5
    assert killed_by["no-tail"] == {"cash-balance"}
    assert mutants["no-ls"]["status"] == "survived"
    assert not any(mutant["is_trivial"] for mutant in mutants.values())


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("case", ["desk", "depot"])
def test_coverage_and_scores_differ_within_a_size(bundled, case):
    coverage = bundled.analysis(case, "coverage")["metrics"]
    scores = bundled.analysis(case, "mutant-scores")["subsets"]
    middle = [subset for subset, score in scores.items() if score["size"] == 4]
    assert len({scores[s]["score"] for s in middle}) > 1
    for metric in ("tool_calls", "tool_arguments_shape"):
        assert len({coverage[metric]["subsets"][s]["coverage"] for s in middle}) > 1


@pytest.mark.parametrize(
    ("variant", "attempts"), [("baseline", 6), ("screening", 5), ("control-1", 5), ("control-2", 5), ("careless", 5)]
)
def test_noisy_attempts_are_as_many_as_asked_for(noisy, variant, attempts):
    trials = noisy.raw("errands", variant)["trials"]
    assert set(Counter(t["task"] for t in trials).values()) == {attempts}
    assert sorted(t["attempt"] for t in trials if t["task"] == "bill-total") == list(range(1, attempts + 1))


@pytest.mark.parametrize(("mutant", "task"), [("no-grep", "guest-count"), ("three-actions", "bill-total")])
def test_noisy_mutant_that_always_fails_a_task_is_killed_by_it(noisy, mutant, task):
    passed = sum(t["reward"] == 1.0 for t in noisy.raw("errands", "baseline")["trials"] if t["task"] == task)
    scores = noisy.analysis("errands", "mutant-scores")
    assert scores["rule"]["name"] == "exact"
    # What a trial draws depends on its session's id, so how often the baseline slipped differs between runs; what it
    # must come to does not: the p-value of the test, times the number of tasks it is the smallest of.
    eligible = scores["eligible_tasks"]
    is_killed = task in eligible and AGAINST_0_OF_5[passed] * len(eligible) <= 0.05
    # Elsewhere the mutant is the baseline: 5 slips in 5 trials would be needed.
    assert scores["mutants"][mutant]["killed_by"] == ([task] if is_killed else [])


def test_noisy_controls_survive(noisy):
    scores = noisy.analysis("errands", "mutant-scores")
    assert {name: control["status"] for name, control in scores["controls"].items()} == {
        "control-1": "survived",
        "control-2": "survived",
    }


def test_noisy_trials_slip_differently(noisy):
    careless = noisy.raw("errands", "careless")["trials"]
    # 20 trials that each misread with probability 0.6 or more: all alike has a probability below 0.001.
    assert 0 < sum(t["reward"] == 1.0 for t in careless) < 20
