# SPDX-License-Identifier: Apache-2.0
"""Which files are the trajectory of a trial, and the one digest recorded for them as `trajectory_sha256`.

Execution records the digest and coverage checks it, so both take it from here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from metric_benchmark.hashing import digest_file, digest_json


def root_trajectories(trial: Path) -> tuple[Path, ...]:
    """Returns the trajectory files a trial starts from: one, or one per step of a multi-step task.

    Steps are ordered by name, as Harbor does not keep their order in the folder.
    """
    single = trial / "agent" / "trajectory.json"
    if single.is_file():
        return (single,)
    return tuple(sorted(trial.glob("steps/*/agent/trajectory.json")))


def trajectory_names(trial: Path) -> tuple[str, ...]:
    """Returns all trajectory files of a trial by their paths in its folder; see `trajectory_files`."""
    base = os.fspath(trial)
    folders = ["agent"]
    if not os.path.isfile(f"{base}/agent/trajectory.json"):  # noqa: PTH113 - asked of every trial; pathlib costs more
        folders = [root.parent.relative_to(trial).as_posix() for root in root_trajectories(trial)]
    found: list[str] = []
    for folder in folders:
        for entry in os.scandir(f"{base}/{folder}"):
            if entry.name.startswith("trajectory") and entry.name.endswith(".json") and entry.is_file():
                found.append(f"{folder}/{entry.name}")
    return tuple(sorted(found))


def trajectory_files(trial: Path) -> tuple[Path, ...]:
    """Returns all trajectory files of a trial folder: the roots, their continuations and subagents' files."""
    return tuple(trial / name for name in trajectory_names(trial))


def combine_digests(digests: Mapping[str, str]) -> str | None:
    """Returns one digest for files given as path in the trial folder -> SHA-256.

    A single file counts by its own SHA-256, so that the usual case can be checked with `sha256sum`.
    """
    if not digests:
        return None
    if len(digests) == 1:
        return next(iter(digests.values()))
    return digest_json(sorted(digests.items()))


def digest_trajectory(trial: Path) -> str | None:
    """Returns the digest of a trial's trajectory, or None where it has none (`oracle`, `nop`).

    Raises:
        OSError: a file cannot be read.
    """
    return combine_digests({name: digest_file(trial / name) for name in trajectory_names(trial)})
