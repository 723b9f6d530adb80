# SPDX-License-Identifier: Apache-2.0
"""The same experiments in Harbor's Docker environment, on a real engine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_index, read_raw_results
from metric_benchmark.experiment import open_run, run_evals, run_experiment
from metric_benchmark.pins import sign_experiment
from metric_benchmark.records.analysis import ExperimentSeal

EXAMPLES = Path(__file__).parents[2] / "examples"

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


def test_the_bundled_agent_and_a_mutant_of_it_in_docker(tmp_path):
    """Four tasks of the depot; without `find` the sealed container is not found, and nothing else changes."""
    tasks = ["container-seal", "pallet-weight", "aisle-count", "dock-signs"]
    folder = tmp_path / "bundled"
    shutil.copytree(EXAMPLES / "bundled", folder)
    depot = folder / "cases" / "depot"

    def edit(path, change):
        value = yaml.safe_load(path.read_text())
        change(value)
        path.write_text(yaml.safe_dump(value, sort_keys=False))

    def trim(case):
        case["tasks"] = [task for task in case["tasks"] if task["id"] in tasks]
        case["mutants"] = [mutant for mutant in case["mutants"] if mutant["id"] == "no-find"]

    edit(depot / "case.yaml", trim)
    subsets = {"schema": "metric-benchmark/subsets/v1", "subsets": [{"id": "all", "tasks": tasks}]}
    (depot / "subsets.yaml").write_text(yaml.safe_dump(subsets))
    edit(folder / "cases.yaml", lambda cases: cases.update(cases=[{"path": "cases/depot/case.yaml"}]))
    roles = {"baseline": {"attempts": 1}, "mutant": {"attempts": 1}}
    edit(folder / "execution.yaml", lambda execution: execution.update(environment="docker", roles=roles))
    sign_experiment(folder)
    before = containers()
    run = open_run(folder, tmp_path / "out", level="execution")
    run_evals(run, on_progress=lambda _: None)

    index = read_index(run.root, "depot")
    assert read_raw_results(run.root, index, "baseline").rewards() == {task: [1.0] for task in tasks}
    lost = {task: [0.0 if task == "container-seal" else 1.0] for task in tasks}
    assert read_raw_results(run.root, index, "no-find").rewards() == lost
    assert containers() == before
