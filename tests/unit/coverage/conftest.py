# SPDX-License-Identifier: Apache-2.0
"""Writes small ATIF trajectories as Harbor's trial folders hold them."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metric_benchmark.coverage.traces import BaselineTrial


def _load_audits() -> None:
    """Makes `audits.py` importable: tests are no packages, so that no test can import another."""
    spec = importlib.util.spec_from_file_location("coverage_audits", Path(__file__).with_name("audits.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules["coverage_audits"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


if "coverage_audits" not in sys.modules:
    _load_audits()


def step(*calls: Any, source: str = "agent", message: str = "", **more: Any) -> dict[str, Any]:
    """One step; a call is a tool name or (name, arguments)."""
    pairs = [(c, {}) if isinstance(c, str) else c for c in calls]
    made = [{"tool_call_id": f"c{i}", "function_name": name, "arguments": args} for i, (name, args) in enumerate(pairs)]
    return {"source": source, "message": message, **({"tool_calls": made} if made else {}), **more}


def atif(*steps: dict[str, Any], version: str = "ATIF-v1.8", **more: Any) -> dict[str, Any]:
    """A trajectory of steps, numbered."""
    return {
        "schema_version": version,
        "agent": {"name": "test", "version": "1"},
        "steps": [{"step_id": i, **s} for i, s in enumerate(steps, start=1)],
        **more,
    }


@pytest.fixture
def trial(tmp_path: Path) -> Callable[..., BaselineTrial]:
    """Returns a function that writes a trial folder: path in it -> content."""

    def write(
        task: str,
        content: Any = None,
        *,
        attempt: int = 1,
        status: str = "valid",
        files: dict[str, Any] | None = None,
        sha256: str | None = "computed",
    ) -> BaselineTrial:
        folder = tmp_path / "jobs" / f"{task}__{attempt}"
        folder.mkdir(parents=True)
        everything = {**({"agent/trajectory.json": content} if content is not None else {}), **(files or {})}
        for name, value in everything.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        main = folder / "agent" / "trajectory.json"
        if sha256 == "computed":
            first = main if main.exists() else next(iter(sorted(folder.glob("steps/*/agent/*.json"))), None)
            sha256 = None if first is None else hashlib.sha256(first.read_bytes()).hexdigest()
        return BaselineTrial(task, attempt, status, folder, sha256)

    write.step, write.atif = step, atif  # type: ignore[attr-defined]
    return write
