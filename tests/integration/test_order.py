# SPDX-License-Identifier: Apache-2.0
"""In which order variants run, so that what changes in the meantime does not look like a difference between them."""

from __future__ import annotations

import itertools

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.evidence.reader import read_index, read_raw_results

pytestmark = pytest.mark.harbor


def run(files, output):
    """Runs the evals; returns what they came to and the variants in the order they had their turns."""
    events = []
    opened = coordinator.open_run(files.path, output)
    done = coordinator.run_evals(opened, on_progress=events.append)
    variants = [event.key.partition("|")[2] for event in events if event.kind == "trial_start"]
    return opened, done, [name for name, _ in itertools.groupby(variants)]


@pytest.fixture
def three(tiny):
    """A baseline, a mutant and two controls, two attempts each."""
    tiny.edit("case.yaml", lambda case: case["mutants"].pop())
    role = {"attempts": 2}
    roles = {"baseline": role, "control": {"count": 2, **role}, "mutant": role}
    tiny.edit("execution.yaml", lambda e: e.update(roles=roles))
    tiny.edit("analysis.yaml", lambda a: a["scoring"].update(min_pass_share=0.5))
    tiny.sign()
    return tiny


def test_one_variant_after_another_and_the_last_control_last(three, tmp_path):
    _, done, order = run(three, tmp_path / "out")
    assert order == ["baseline", "control-1", "idle", "control-2"]
    times = done.times["tiny"]
    assert list(times) == ["baseline", "control", "mutant"]
    assert times["baseline"].offset_s == 0.0
    assert times["mutant"].offset_s > 0.0


def test_in_turns_of_one_attempt_where_the_settings_ask_for_it(three, tmp_path):
    three.edit("execution.yaml", lambda e: e.update(interleave=True))
    three.sign()
    opened, done, order = run(three, tmp_path / "out")
    assert order == ["baseline", "control-1", "idle", "baseline", "control-1", "idle", "control-2"]
    assert done.n_run == 16

    index = read_index(opened.root, "tiny")
    starts = {
        (variant, trial.attempt): trial.started_at
        for variant in ("baseline", "idle")
        for trial in read_raw_results(opened.root, index, variant).trials
        if trial.task == "one"
    }
    assert starts["baseline", 1] < starts["idle", 1] < starts["baseline", 2] < starts["idle", 2]
    # Each turn is a job of its own, uniform in attempts.
    assert len(list(opened.root.variant("tiny", "baseline").glob("*/run-*.plan.json"))) == 2
    again = coordinator.run_evals(opened, on_progress=lambda _: None)
    assert (again.n_run, again.n_kept) == (0, 16)
