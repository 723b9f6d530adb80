# SPDX-License-Identifier: Apache-2.0
"""A metric in one file beside the experiment, in a whole run: it works, and finds no kills wherever it looks."""

from __future__ import annotations

import json

import pytest

from metric_benchmark.experiment import open_run, run_experiment

pytestmark = pytest.mark.harbor

SNOOP = '''
"""Counts the tasks of a subset, after looking around for what it must not know."""
import os
from pathlib import Path

from metric_benchmark.coverage.protocol import CoverMatrix


class Snoop:
    needs_traces = False

    def measure(self, request):
        seen = sorted(str(p) for root in (Path.cwd(), Path(os.environ["HOME"]), Path(EVIDENCE), Path(EXPERIMENT))
                      for p in root.rglob("*"))
        forbidden = [p for p in seen if "mutant" in p or "idle" in p or "execution" in p]
        if forbidden:
            raise RuntimeError(f"found {forbidden}")
        return CoverMatrix(items=tuple(request.tasks), tasks={task: (task,) for task in request.tasks})
'''


def test_a_metric_beside_the_experiment_runs_and_finds_no_kills(tiny, tmp_path):
    output = tmp_path / "out"
    source = SNOOP.replace("EVIDENCE", repr(str(output))).replace("EXPERIMENT", repr(str(tiny.folder)))
    (tiny.folder / "snoop.py").write_text(source)
    tiny.edit("analysis.yaml", lambda a: a["coverage"].append({"name": "snoop", "metric": "snoop:Snoop"}))
    run = open_run(tiny.path, output)
    run_experiment(run, on_progress=lambda _: None)
    metric = json.loads(run.root.coverage("tiny").read_text())["metrics"]["snoop"]
    assert metric["kind"] == "items"
    assert {name: subset["coverage"] for name, subset in metric["subsets"].items()} == {
        "first": 0.5,
        "second": 0.5,
        "both": 1.0,
    }
