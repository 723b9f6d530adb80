# SPDX-License-Identifier: Apache-2.0
"""A small experiment that is complete but costs nothing to make: files only, no trial is run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

FILES = {
    "experiment.yaml": """\
schema: metric-benchmark/experiment/v1
name: small
cases: cases.yaml
execution: execution.yaml
analysis: analysis.yaml
""",
    "cases.yaml": """\
schema: metric-benchmark/cases/v1
cases:
  - path: case.yaml
""",
    "case.yaml": """\
schema: metric-benchmark/case/v1
case_id: desk
description: {path: description.yaml}
subsets: {path: subsets.yaml}
tasks:
  - {id: alpha, path: tasks/alpha}
  - {id: beta, path: tasks/beta}
  - id: gamma
    path: tasks/gamma
baseline:
  agent: {name: oracle}
mutants:
  - id: short
    operator: {name: action_budget, params: {max_actions: 1}}
    agent: inherit
  - id: idle
    operator: external/does-nothing
    agent: {name: nop}
""",
    "description.yaml": """\
schema: metric-benchmark/description/v1
title: A desk
""",
    "subsets.yaml": """\
schema: metric-benchmark/subsets/v1
subsets:
  - {id: one, tasks: [alpha]}
  - {id: two, tasks: [alpha, beta]}
""",
    "execution.yaml": """\
schema: metric-benchmark/execution/v1
roles:
  baseline: {attempts: 1}
  control: {count: 1, attempts: 1}
  mutant: {attempts: 1}
environment: docker
reward_key: reward
""",
    "analysis.yaml": """\
schema: metric-benchmark/analysis/v1
scoring:
  kill_rule: {name: deterministic}
  min_pass_share: 0.8
coverage:
  - {name: suite_size}
""",
    **{
        f"tasks/{task}/{name}": text
        for task in ("alpha", "beta", "gamma")
        for name, text in {
            "task.toml": '[environment]\ndocker_image = "debian:bookworm-slim"\n',
            "instruction.md": f"Write {task} to answer.txt.\n",
            "environment/notes.txt": f"{task}\n",
            "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
            "solution/solve.sh": f"#!/bin/bash\necho {task} > answer.txt\n",
        }.items()
    },
}


@dataclass(frozen=True)
class Project:
    """An experiment's folder, and edits of its files."""

    folder: Path

    @property
    def experiment(self) -> Path:
        return self.folder / "experiment.yaml"

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def edit(self, name: str, *changes: tuple[str, str]) -> None:
        """Replaces texts that must be there exactly once."""
        text = self.read(name)
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
            text = text.replace(old, new)
        self.write(name, text)

    def line(self, name: str, text: str) -> int:
        """Returns the number of the only line that holds a text."""
        (number,) = [n for n, line in enumerate(self.read(name).splitlines(), start=1) if text in line]
        return number

    def sign(self) -> None:
        from metric_benchmark.pins import sign_experiment

        sign_experiment(self.folder)

    def snapshot(self, *without: str) -> dict[str, str]:
        """Returns a digest of every file, by name."""
        return snapshot(self.folder, without)


def snapshot(folder: Path, without: Sequence[str] = ()) -> dict[str, str]:
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (name := path.relative_to(folder).as_posix()) not in without
    }


@pytest.fixture
def unsigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The experiment in `exp` below the current folder, before its first `sign`."""
    monkeypatch.chdir(tmp_path)
    found = Project(tmp_path / "exp")
    for name, text in FILES.items():
        found.write(name, text)
    return found


@pytest.fixture
def project(unsigned: Project) -> Project:
    """The experiment, signed."""
    unsigned.sign()
    return unsigned
