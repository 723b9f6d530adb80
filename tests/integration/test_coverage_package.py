# SPDX-License-Identifier: Apache-2.0
"""A metric from a package of somebody else's, really installed with pip, is known by its entry point's name."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.registry import MetricSpec, check_metrics, known_metrics
from metric_benchmark.coverage.traces import BaselineTrial
from metric_benchmark.errors import ConfigError

PACKAGE = Path(__file__).parents[1] / "data" / "sample_metric_package"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    target = tmp_path / "site-packages"
    # Without the build backend at hand pip fetches it, as for any package.
    own = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*command, *own, "--target", str(target), str(PACKAGE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.syspath_prepend(target)
    monkeypatch.setenv("PYTHONPATH", str(target))
    return target


def trial(folder: Path, task: str, *paths: str) -> BaselineTrial:
    calls = [
        {"tool_call_id": str(i), "function_name": "read", "arguments": {"path": path}} for i, path in enumerate(paths)
    ]
    trajectory = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "x", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": "", "tool_calls": calls}],
    }
    path = folder / task / "agent" / "trajectory.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(trajectory))
    return BaselineTrial(task, 1, "valid", folder / task, hashlib.sha256(path.read_bytes()).hexdigest())


def test_an_installed_metric_is_known_by_name_and_validated(installed: Path, tmp_path: Path):
    assert known_metrics()["reads_per_file"] == "sample_metric.reads:ReadsPerFile"
    record = measure_coverage(
        "desk",
        tasks=["a", "b"],
        baseline=[trial(tmp_path, "a", "x.txt", "y.txt"), trial(tmp_path, "b", "x.txt")],
        subsets={"one": ["b"], "both": ["a", "b"]},
        description={},
        metrics=[MetricSpec("reads_per_file")],
        cache=tmp_path / "cache",
    )
    found = record.metrics["reads_per_file"]
    assert found.tasks == {"a": ["x.txt", "y.txt"], "b": ["x.txt"]}
    assert (found.subsets["one"].coverage, found.subsets["both"].coverage) == (0.5, 1.0)
    assert found.settings == {"attempts": "union", "tools": ["read"], "argument": "path"}
    # The code digest covers the whole package, and the package was not imported here.
    source = installed / "sample_metric" / "__init__.py"
    source.write_text(source.read_text() + "# changed\n")
    problems = check_metrics([MetricSpec("reads_per_file", settings={"tool": ["cat"]})])
    assert str(problems[0]).endswith("settings.tool: unknown setting; did you mean tools?")
    assert not [name for name in sys.modules if name.startswith("sample_metric")]


def test_without_the_package_the_name_is_unknown():
    with pytest.raises(ConfigError, match="no metric is called 'reads_per_file'"):
        measure_coverage(
            "desk", tasks=[], baseline=[], subsets={}, description={}, metrics=[MetricSpec("reads_per_file")]
        )
