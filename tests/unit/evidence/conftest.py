# SPDX-License-Identifier: Apache-2.0
"""An evidence root with records made by hand; no trial was run for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.records.base import Implementation
from metric_benchmark.records.execution import RawResults, Trial

CODE = Implementation(version="1", stage_sha256="a" * 64, harbor="0.26.0", pydantic="2")
OTHER_CODE = CODE.model_copy(update={"stage_sha256": "b" * 64})


def make_trial(task: str = "one", attempt: int = 1, **changes: object) -> Trial:
    values = {
        "task": task, "attempt": attempt, "status": "valid", "reward": 1.0, "trial_key": "k" * 64, "folder": "c" * 16,
        "run": "run-1", "trial": f"{task}__abc", "started_at": "2025-01-01T00:00:00Z", "duration_s": 1.0,
        "cost_usd": None, "result_sha256": "d" * 64, "trajectory_sha256": None,
    }  # fmt: skip
    return Trial.model_validate({**values, **changes})


def make_results(variant: str = "baseline", **changes: object) -> RawResults:
    values = {
        "run_id": "mine", "case": "desk", "variant": variant, "role": "mutant", "config_hash": "c" * 64, "attempts": 1,
        "tasks": ("one",), "environment": {"type": "local"}, "trials": (make_trial(),), "implementation": CODE,
    }  # fmt: skip
    return RawResults.model_validate({**values, **changes})


@pytest.fixture
def root(tmp_path: Path) -> EvidenceRoot:
    return EvidenceRoot(tmp_path / "evidence")


@pytest.fixture
def results():
    """Makes raw results of a variant."""
    return make_results


@pytest.fixture
def trial():
    """Makes a trial's record."""
    return make_trial


@pytest.fixture
def code():
    """Two implementations: ours, and that of another version of the code."""
    return CODE, OTHER_CODE
