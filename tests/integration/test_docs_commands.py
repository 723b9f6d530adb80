# SPDX-License-Identifier: Apache-2.0
"""Every command of README, docs and `--help` is run by a test: here, in the pages' order, in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from metric_benchmark.cli.app import app

REPOSITORY = Path(__file__).parents[2]
INIT = "metric-benchmark init my-experiment"
#: Pages that are followed from top to bottom.
GUIDES = ("README.md", "docs/getting-started.md", "docs/stages.md", "docs/run-experiment.md")
#: Commands after which there is nothing to follow, or that need jobs from elsewhere: run by their own tests.
ELSEWHERE = {
    "metric-benchmark run-experiment examples/bundled/experiment.yaml --output runs/bundled": "test_examples_runs.py",
    "metric-benchmark doctor --clean": "test_docker_leftovers.py",
}
#: Commands that need a Dagster host: test_live.py runs them against one.
HOSTED = ("backfill",)
#: Pages whose tests run every command.
OWN_TESTS = ("docs/tutorial.md", "docs/mutants.md")


def commands(page: str) -> list[str]:
    """Our commands on a page: those of its blocks, and those in its text that name the guides' files."""
    text = (REPOSITORY / page).read_text()
    found: list[tuple[int, str]] = []
    for block in re.finditer(r"^```(?:console|sh|)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        joined = re.sub(r"\\\n\s*", "", block[1])
        found += [(block.start(), line.removeprefix("$ ")) for line in joined.splitlines()]
    prose = re.sub(r"^```.*?^```$", lambda block: " " * len(block[0]), text, flags=re.DOTALL | re.MULTILINE)
    found += [
        (m.start(), m[1]) for m in re.finditer(r"`([^`]*metric-benchmark [^`]* (?:my-experiment|runs/)[^`]*)`", prose)
    ]
    words = (
        line.removeprefix(".venv/bin/").partition("  ")[0].strip()
        for _, line in sorted(found, key=lambda pair: pair[0])
    )
    return [line for line in words if line.startswith("metric-benchmark ")]


def examples(command: Any = None) -> list[str]:
    """The examples below the help of every command."""
    command = command or typer.main.get_command(app)
    if hasattr(command, "commands"):
        return [line for child in command.commands.values() for line in examples(child)]
    return re.findall(r"(metric-benchmark .*)$", command.epilog, re.MULTILINE)


def run(words: str, folder: Path, *statuses: int) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words, shell=True, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode in (statuses or (0,)), f"{words}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr


def guided() -> list[str]:
    return [words for page in GUIDES for words in commands(page)]


def others() -> list[str]:
    """What the other pages and the help have besides."""
    pages = sorted(path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("docs/*.md"))
    pages = [*pages, "CONTRIBUTING.md", "examples/README.md"]
    left = [words for page in pages if page not in (*GUIDES, *OWN_TESTS, "docs/tools.md") for words in commands(page)]
    known = {*guided(), *ELSEWHERE}
    found = [words for words in dict.fromkeys([*left, *examples()]) if words not in known]
    return [words for words in found if words.split()[1] not in HOSTED]


def test_no_command_is_overlooked():
    assert len(guided()) >= 30
    assert {"metric-benchmark doctor", *ELSEWHERE} <= {*guided(), *commands("examples/README.md"), *examples()}
    assert len(examples()) >= 24
    assert [words for words in others() if "import-results" in words]
    assert [words for words in others() if "analyze-matrix" in words and "examples/matrix/kills.csv" in words]


@pytest.mark.harbor
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_the_guides_work_in_the_guides_order(tmp_path):
    for number, words in enumerate(guided()):
        if words == INIT and number:
            continue  # A reader of several pages has it already.
        # The experiment of `init` is a toy, so its hypothesis is not supported, and `check` says so.
        run(words, tmp_path, 1 if " check " in words else 0)
    written = ("runs/mine/report.html", "runs/again/experiment.json", "runs/replay/experiment.json")
    for file in (*written, "check.xml", "check.md", "badge.svg"):
        assert (tmp_path / file).stat().st_size > 0
    # What the other pages and the help say of such an experiment; each names files that its reader has.
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    for name in ("kills", "coverage", "subsets"):
        shutil.copy(REPOSITORY / f"examples/matrix/{name}.csv", tmp_path)
    for name in ("old", "new"):
        shutil.copytree(tmp_path / "runs/mine", tmp_path / "runs" / name)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "my-experiment", elsewhere / "my-experiment")
    (job,) = (tmp_path / "runs/mine/execution/errands/baseline").glob("*/jobs/run-1")
    shutil.copytree(job, elsewhere / "jobs/2026-01-31")
    for words in others():
        name = shlex.split(words)[1]
        folder = elsewhere if name in ("import-results", "mutate", "subsets") else tmp_path
        run(words, folder, 1 if name == "check" else 0)
    assert list(elsewhere.glob("runs/mine/execution/errands/baseline/*/raw-results.json"))
