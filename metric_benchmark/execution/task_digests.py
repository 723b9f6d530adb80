# SPDX-License-Identifier: Apache-2.0
"""What the two digests Harbor records of a task must be: from its folder where it is there, else from its trials."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from metric_benchmark.errors import Problem
from metric_benchmark.hashing import digest_folder
from metric_benchmark.records.execution import Trial


@dataclass(frozen=True)
class TaskDigests:
    """What is known of a task's digests; None where nothing is.

    Attributes:
        task: its id.
        source: what the digests were taken from.
        content: that of lock.json.
        checksum: that of result.json.
        problem: why its folder cannot be used.
    """

    task: str
    source: Literal["folder", "records"]
    content: str | None
    checksum: str | None
    problem: Problem | None = None

    def check(self, place: str, kind: Literal["content", "checksum"], found: str | None) -> Iterator[Problem]:
        """Compares a digest Harbor recorded.

        Args:
            place: the file that holds it.
            kind: which of the two it is.
            found: the digest; None where the file has none.
        """
        expected = self.content if kind == "content" else self.checksum
        if found is not None and expected is not None and found != expected:
            what = "content digest" if kind == "content" else "checksum"
            by = "its folder gives" if self.source == "folder" else "most trials have"
            yield Problem(place, f"{what} of task {self.task} is {_short(found)}; {by} {_short(expected)}")


def digests_of_task(task: str, folder: Path, pin: str, records: Iterable[Trial]) -> TaskDigests:
    """Computes a task's digests from its folder, if that is there; else they are what most trials have.

    Args:
        task: its id.
        folder: its folder.
        pin: the digest the case pins.
        records: trials of the task, of any variant.
    """
    problem: Problem | None = None
    if folder.is_dir():
        found = digest_folder(folder)
        if found == pin:
            return TaskDigests(task, "folder", *_digests(folder, pin))
        problem = Problem(
            str(folder),
            f"task {task} has changed since it was pinned: found {found[:16]}..., pinned {pin[:16]}...; restore it, or "
            "move it away to validate without it",
        )
    trials = list(records)
    content, sums = (_most(getattr(trial, name) for trial in trials) for name in ("task_digest", "task_checksum"))
    return TaskDigests(task, "records", content, sums, problem)


@cache
def _digests(folder: Path, pin: str) -> tuple[str, str]:
    """Remembers both digests of a folder with this content: Harbor's code for them is slow."""
    del pin
    return content_digest(folder), checksum(folder)


def _most(values: Iterable[str | None]) -> str | None:
    counts = Counter(value for value in values if value is not None)
    return counts.most_common(1)[0][0] if counts else None


def content_digest(folder: Path) -> str:
    """Returns the digest of a task folder as Harbor writes it into lock.json."""
    from harbor.publisher.packager import Packager

    return f"sha256:{Packager.compute_content_hash(folder)[0]}"


def checksum(folder: Path) -> str:
    """Returns the checksum of a task folder as Harbor writes it into result.json."""
    from harbor.models.task.task import Task

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return Task(folder, disable_verification=True).checksum


def _short(digest: str) -> str:
    return f"{digest.removeprefix('sha256:')[:16]}..."
