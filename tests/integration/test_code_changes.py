# SPDX-License-Identifier: Apache-2.0
"""What a commit to this package costs: a copy of it is changed for real and run as a user would run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import metric_benchmark

pytestmark = pytest.mark.harbor


class Package:
    """A copy of the library that its own process imports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = Path(metric_benchmark.__file__).parent
        shutil.copytree(source, folder / "metric_benchmark", ignore=shutil.ignore_patterns("__pycache__"))

    def append(self, file: str, text: str = "\n# A commit.\n") -> None:
        with (self.folder / "metric_benchmark" / file).open("a") as stream:
            stream.write(text)

    def run(self, *arguments: str) -> dict:
        done = subprocess.run(
            [sys.executable, "-m", "metric_benchmark", *arguments, "--json"],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def two_operators(tiny):
    """The tiny experiment with mutants of two operators of ours."""
    tiny.edit(
        "case.yaml",
        lambda case: case["mutants"].append(
            {
                "id": "stops-early",
                "operator": {"name": "early_stop", "params": {"after_actions": 1}},
                "agent": "inherit",
            }
        ),
    )
    tiny.sign()
    return tiny


def test_only_the_mutants_of_a_changed_operator_run_again(two_operators, tmp_path):
    package, output = Package(tmp_path / "src"), str(tmp_path / "out")
    experiment = str(two_operators.path)
    first = package.run("run-evals", experiment, "--output", output)
    assert (first["n_run"], first["n_kept"]) == (12, 0)

    package.append("reporting/html.py")
    package.append("correlation/correlate.py")
    package.append("cli/app.py")
    package.append("execution/runner.py")
    unchanged = package.run("run-evals", experiment, "--output", output)
    assert (unchanged["n_run"], unchanged["n_kept"]) == (0, 12)

    package.append("mutants/operators/early_stop.py")
    plan = package.run("plan", experiment, "--output", output)
    assert plan["n_to_run"] == 2
    assert len(plan["changes"]) == 1
    assert plan["changes"][0].startswith("tiny|stops-early: the code of the agent or its operator changed")
    again = package.run("run-evals", experiment, "--output", output, "--accept-changes")
    assert (again["n_run"], again["n_kept"]) == (2, 10)
