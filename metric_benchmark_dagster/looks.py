# SPDX-License-Identifier: Apache-2.0
"""Tells a sensor whether there is anything new to look at: the experiment, its evidence, and what it saw before."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.config import Experiment
from metric_benchmark.evidence.layout import EvidenceRoot

#: Code of an agent's package can change without any file of the experiment changing.
FULL_LOOK_S = 600
#: Evidence changes all the time while trials run; it is looked at this often at most, and takes 5% of the time at most.
EVIDENCE_PAUSE_S, EVIDENCE_SHARE = 45.0, 0.05


@dataclass(frozen=True)
class Seen:
    """What the last look saw, and how long it took; the sensor's cursor."""

    files: str = ""
    evidence: str = ""
    versions: Mapping[str, str] | None = None
    looked_at: float = 0.0
    took_s: float = 0.0
    freshness: str = ""

    @classmethod
    def parse(cls, cursor: str | None) -> "Seen":
        """Reads a cursor; one of another form counts as none."""
        try:
            value: dict[str, Any] = json.loads(cursor or "{}")
            return cls(**value)
        except (ValueError, TypeError):
            return cls()

    def is_enough(self, files: str, evidence: str, now: float, *, pause_s: float | None = None) -> bool:
        """Whether there is no need to look again; evidence that changed can wait for a pause."""
        age = now - self.looked_at
        if files != self.files or age >= FULL_LOOK_S:
            return False
        return evidence == self.evidence or age < max(
            EVIDENCE_PAUSE_S if pause_s is None else pause_s, self.took_s / EVIDENCE_SHARE
        )

    def render(self) -> str:
        """Writes the cursor."""
        return json.dumps(asdict(self))


def experiment_files(experiment: Experiment) -> tuple[Path, ...]:
    """Returns the files an experiment is made of, without tasks and bundles, whose pins are in them."""
    sources = (
        experiment.source,
        experiment.cases_source,
        experiment.execution_source,
        experiment.analysis_source,
        *(case.source for case in experiment.cases),
    )
    named = [case.path_of(item) for case in experiment.cases for item in (case.config.subsets, case.config.description)]
    return (*(source.path for source in sources), *named)


def evidence_files(output: Path, cases: Iterable[str]) -> Iterator[Path | str]:
    """Yields the records of the evidence and their folders, as they are now; native files are no part of it."""
    root = EvidenceRoot(output)
    for case_id in cases:
        analysis = root.analysis(case_id)
        folders = (analysis, root.mutant_kills(case_id, "x").parent)
        yield from (root.index(case_id), *folders)
        yield from (name for folder in folders for name in _entries(folder) if name.endswith(".json"))
        for variant in _entries(root.case(case_id)):
            yield from (f"{config}/raw-results.json" for config in _entries(variant))
    yield root.experiment


def _entries(folder: Path | str) -> list[str]:
    """Lists a folder, as texts: of thousands, `Path`s would take most of the time; nothing where it is none."""
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries]
    except OSError:
        return []


def signature(files: Iterable[Path | str]) -> str:
    """Digests names, sizes and times of files and folders, in whatever order; reads none.

    Of thousands, `Path.stat` takes twice as long as `os.stat`.
    """
    found: list[str] = []
    for path in files:
        try:
            stat = os.stat(path)  # noqa: PTH116
        except OSError:
            continue
        found.append(f"{path}:{stat.st_size}:{stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()
