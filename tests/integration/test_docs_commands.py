# SPDX-License-Identifier: Apache-2.0
"""The commands of the guides, run in the guides' order in an empty folder, with real trials."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.harbor, pytest.mark.slow, pytest.mark.timeout(1200)]

DOCS = Path(__file__).parents[2] / "docs"


def commands(name: str) -> list[tuple[str, str]]:
    """Our commands in a page's console blocks, each with the comment behind it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", (DOCS / name).read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ metric-benchmark "):
                words, _, comment = line[2:].partition("  # ")
                found.append((words, comment))
    return found


def test_the_commands_of_the_guides_work_in_the_guides_order(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pages = {name: commands(name) for name in ("getting-started.md", "stages.md", "run-experiment.md")}
    assert {name: len(found) for name, found in pages.items()} == {
        "getting-started.md": 6,
        "stages.md": 4,
        "run-experiment.md": 17,
    }
    for name, found in pages.items():
        for words, comment in found:
            done = subprocess.run(
                words, shell=True, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True
            )
            # The experiment of `init` is a toy, so its hypothesis is not supported, and `check` says so.
            expected = 1 if comment.startswith("exit status 1") else 0
            assert done.returncode == expected, f"{name}: {words}\n{done.stdout}{done.stderr}"
            assert "Traceback" not in done.stderr
    written = ("runs/mine/report.html", "runs/again/experiment.json", "runs/replay/experiment.json")
    for file in (*written, "check.xml", "check.md", "badge.svg"):
        assert (tmp_path / file).stat().st_size > 0
