# SPDX-License-Identifier: Apache-2.0
"""The tutorial, followed to the letter in an empty folder: its files are written, its commands run, in its order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.harbor, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
FENCE = re.compile(r"(?:^<!-- file: (\S+) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The folder a reader ends up with; everything the page shows of an output was in that output."""
    start = here = tmp_path_factory.mktemp("reader")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    n_commands = 0
    for name, language, text in FENCE.findall(PAGE.read_text()):
        if name:
            target = here / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            continue
        assert language == "console", f"neither a file nor a command: {text}"
        said = ""
        for line in text.splitlines():
            if line.startswith("$ cd "):
                here /= line[5:]
            elif line.startswith("$ "):
                n_commands += 1
                done = subprocess.run(
                    line[2:], shell=True, cwd=here, env=os.environ | {"PATH": path}, capture_output=True, text=True
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                said = done.stdout + done.stderr
            else:
                assert line in said, f"the page shows {line!r}; the command said\n{said}"
    assert n_commands == 14
    return start


def test_every_task_kills_the_mutants_the_page_says(followed):
    scores = json.loads((followed / "result/analysis/library/mutant-scores.json").read_text())
    assert {name: sorted(found["killed_by"]) for name, found in scores["mutants"].items()} == {
        "no-grep": ["find-manager"],
        "one-action": ["count-visitors", "find-manager"],
        "hasty": ["count-visitors"],
    }
    assert [found["status"] for found in scores["controls"].values()] == ["survived", "survived"]
    assert sorted(subset["score"] for subset in scores["subsets"].values()) == pytest.approx([2 / 3, 2 / 3, 1])


def test_the_metric_of_the_page_covers_what_the_page_says(followed):
    coverage = json.loads((followed / "result/analysis/library/coverage.json").read_text())
    metric = coverage["metrics"]["opened"]
    assert metric["tasks"] == {"count-visitors": ["visitors.txt"], "find-manager": ["staff.txt"]}
    assert sorted(subset["coverage"] for subset in metric["subsets"].values()) == [0.5, 0.5, 1.0]


def test_the_verdict_is_the_one_the_page_explains(followed):
    found = json.loads((followed / "result/analysis/library/correlation.json").read_text())
    assert found["metrics"]["opened"]["verdict"]["verdict"] == "inconclusive"
