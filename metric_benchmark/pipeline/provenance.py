# SPDX-License-Identifier: Apache-2.0
"""What a record was computed from: inputs, evidence, and the code of its stage."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pydantic

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.hashing import implementation_digest
from metric_benchmark.keys import harbor_version
from metric_benchmark.records.base import Implementation, Record

#: Which source decides a stage's output; a commit anywhere else makes nothing stale.
STAGE_SOURCES = {
    "execution": ("execution", "mutants"),
    "scoring": ("scoring", "multiplicity.py", "pipeline/inertness.py", "records/normal_form.py"),
    "coverage": ("coverage",),
    "correlation": ("correlation", "limits.py", "multiplicity.py"),
    "planning": ("correlation", "scoring", "limits.py", "multiplicity.py", "power.py"),
    "reporting": ("reporting",),
}


@functools.cache
def implementation(stage: str) -> Implementation:
    """Returns which code a stage's records are written by."""
    return Implementation(
        version=importlib.metadata.version("metric-benchmark"),
        stage_sha256=implementation_digest(*STAGE_SOURCES[stage]),
        harbor=harbor_version(),
        pydantic=pydantic.VERSION,
    )


@dataclass(frozen=True)
class Provenance:
    """What a record is computed from; equal provenance means that computing again gives the same."""

    stage: str
    inputs: Mapping[str, str]
    evidence: Mapping[str, str]

    def fields(self) -> dict[str, object]:
        """The record fields that hold it."""
        return {
            "implementation": implementation(self.stage),
            "inputs": dict(self.inputs),
            "evidence": dict(self.evidence),
        }

    def holds_for(self, record: Record) -> bool:
        """Whether a record was computed from exactly this."""
        return (
            record.implementation is not None
            and record.implementation.stage_sha256 == implementation(self.stage).stage_sha256
            and record.inputs == dict(self.inputs)
            and record.evidence == dict(self.evidence)
        )


def current_record[R: Record](path: Path, model: type[R], provenance: Provenance) -> R | None:
    """Returns the record on disk when it still holds; None when it has to be computed."""
    if not path.exists():
        return None
    record = read_record(path, model)
    return record if provenance.holds_for(record) else None


def require_current(path: Path, found: str | None, expected: str | None) -> None:
    """Checks that a record was computed from the evidence that is current.

    Raises:
        EvidenceError: it was computed from other evidence.
    """
    if found != expected:
        raise EvidenceError(f"{path}: was computed from raw results that are no longer current; run its stage again")
