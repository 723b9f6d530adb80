# SPDX-License-Identifier: Apache-2.0
"""Which files are a trial's trajectory, and the digest that is recorded for them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from metric_benchmark.hashing import digest_json
from metric_benchmark.records.trajectories import digest_trajectory, root_trajectories, trajectory_files


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_one_file_counts_by_its_own_digest(tmp_path: Path):
    write(tmp_path, "agent/trajectory.json", "agent/other.json", "verifier/trajectory.json")
    assert digest_trajectory(tmp_path) == hashlib.sha256(b"agent/trajectory.json").hexdigest()


def test_none_has_no_digest(tmp_path: Path):
    write(tmp_path, "agent/other.json")
    assert digest_trajectory(tmp_path) is None


def test_continuations_and_subagents_are_part_of_it(tmp_path: Path):
    names = ["agent/trajectory.cont-1.json", "agent/trajectory.json", "agent/trajectory.summarization-1-x.json"]
    write(tmp_path, *names)
    assert [p.relative_to(tmp_path).as_posix() for p in trajectory_files(tmp_path)] == names
    assert digest_trajectory(tmp_path) == digest_json([[n, hashlib.sha256(n.encode()).hexdigest()] for n in names])


def test_a_multi_step_task_has_one_root_per_step(tmp_path: Path):
    write(tmp_path, "steps/b/agent/trajectory.json", "steps/a/agent/trajectory.json", "steps/a/agent/log.json")
    assert [p.parent.parent.name for p in root_trajectories(tmp_path)] == ["a", "b"]
