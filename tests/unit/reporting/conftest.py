# SPDX-License-Identifier: Apache-2.0
"""Drawn evidence roots for tests of reports."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from metric_benchmark.evidence.layout import EvidenceRoot


def _load_world() -> ModuleType:
    name = "reporting_world"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("world.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def world() -> ModuleType:
    return _load_world()


@pytest.fixture(scope="session")
def finished(world: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> EvidenceRoot:
    """Two finished and sealed cases; tests read it only."""
    path = tmp_path_factory.mktemp("finished")
    cases = {
        "desk": world.World(verdicts={"tool_calls": "supported"}, trajectories=True),
        "files": world.World(n_tasks=12, n_mutants=6, seed=3, verdicts={"tool_calls": "refuted"}),
    }
    return world.write_world(path, cases)
