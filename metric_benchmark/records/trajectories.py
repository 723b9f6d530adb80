# SPDX-License-Identifier: Apache-2.0
"""Which files are the trajectory of a trial, and the one digest recorded for them as `trajectory_sha256`.

Execution records the digest and coverage checks it, so both take it from here.
"""

from __future__ import annotations

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


def trajectory_files(trial: Path) -> tuple[Path, ...]:
    """Returns all trajectory files of a trial folder: the roots, their continuations and subagents' files."""
    roots = root_trajectories(trial)
    found = {path for root in roots for path in root.parent.glob("trajectory*.json") if path.is_file()}
    return tuple(sorted(found | set(roots)))


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
    files = trajectory_files(trial)
    return combine_digests({path.relative_to(trial).as_posix(): digest_file(path) for path in files})
