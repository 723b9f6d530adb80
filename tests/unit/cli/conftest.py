# SPDX-License-Identifier: Apache-2.0
"""Runs command lines in this process, on evidence made by hand: no trial is run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from metric_benchmark.cli import main
from metric_benchmark.evidence.index import open_root, update_index, write_manifest
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.pipeline.sealing import complete_inventory
from metric_benchmark.records.execution import RawResults, Trial
from metric_benchmark.variants import resolve_variants

#: Which tasks each variant fails; the others it passes.
FAILS = {"short": ["alpha", "beta"], "idle": ["alpha", "beta", "gamma"]}


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    status: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return [line.removeprefix("error: ") for line in self.err.splitlines() if line.startswith("error: ")]

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def call(*words: str | Path) -> Ended:
        capsys.readouterr()
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    return call


@pytest.fixture
def execute(project) -> Callable[..., Path]:
    """Makes the evidence of a complete execution in a folder, as if its trials had been run."""

    def call(name: str = "out", *, without: tuple[str, ...] = (), run_id: str | None = None) -> Path:
        opened = open_run(project.folder, name, run_id=run_id)
        root: EvidenceRoot = opened.root
        open_root(root, opened.run_id, implementation("execution"))
        for variant in resolve_variants(opened.experiment):
            if variant.variant_id in without:
                continue
            trials = [
                Trial(
                    task=task.id, attempt=attempt, status="valid",
                    reward=0.0 if task.id in FAILS.get(variant.variant_id, []) else 1.0,
                    trial_key=variant.trial_keys[task.id], folder=variant.config_hash[:16], run="run-1",
                    trial=f"{task.id}__{attempt}", started_at=None, duration_s=1.0, cost_usd=None,
                    result_sha256="d" * 64, trajectory_sha256=None,
                )
                for task in variant.tasks
                for attempt in range(1, variant.attempts + 1)
            ]  # fmt: skip
            for trial in trials:
                root.trial(variant.case_id, variant.variant_id, trial.folder, trial.run, trial.trial).mkdir(
                    parents=True
                )
            results = RawResults(
                run_id=opened.run_id, case=variant.case_id, variant=variant.variant_id, role=variant.role,
                config_hash=variant.config_hash, attempts=variant.attempts,
                tasks=tuple(task.id for task in variant.tasks), environment=dict(variant.environment.identity),
                trials=tuple(trials), implementation=implementation("execution"), reward_key="reward",
                inputs={**variant.parts, **{f"task:{task.id}": task.sha256 for task in variant.tasks}},
            )  # fmt: skip
            update_index(root, results)
        if not without:
            write_manifest(root, complete_inventory(opened))
        return Path(name)

    return call


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes which tasks a variant fails in evidence that is made afterwards."""
    return lambda variant, *tasks: monkeypatch.setitem(FAILS, variant, list(tasks))
