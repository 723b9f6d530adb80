# SPDX-License-Identifier: Apache-2.0
"""The same experiments in Harbor's Docker environment, on a real engine."""

from __future__ import annotations

import json
import subprocess

import pytest

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_index, read_raw_results
from metric_benchmark.experiment import open_run, run_experiment
from metric_benchmark.records.analysis import ExperimentSeal

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


def containers() -> list[str]:
    shown = subprocess.run(["docker", "ps", "-aq"], capture_output=True, text=True, check=True)
    return shown.stdout.split()


def test_an_experiment_runs_in_docker_and_leaves_no_container(tiny, tmp_path):
    before = containers()
    tiny.edit("execution.yaml", lambda e: e.update(environment="docker"))
    run = open_run(tiny.path, tmp_path / "out")
    seal = run_experiment(run, on_progress=lambda _: None)

    assert isinstance(seal, ExperimentSeal)
    assert seal.environments == ["docker"]
    index = read_index(EvidenceRoot(tmp_path / "out"), "tiny")
    assert read_raw_results(run.root, index, "baseline").rewards() == {"one": [1.0], "two": [1.0]}
    assert read_raw_results(run.root, index, "no-actions").rewards() == {"one": [0.0], "two": [0.0]}
    scores = json.loads(run.root.mutant_scores("tiny").read_text())
    assert scores["subsets"]["both"]["score"] == 1.0
    assert containers() == before
