# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/metrics.md are run, and its table names every metric and setting there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from metric_benchmark.coverage.loading import load_class, settings_model
from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.per_trace import PerTraceSettings
from metric_benchmark.coverage.registry import BUILT_IN, MetricSpec, check_metrics

TEXT = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE))
RUN = re.findall(r"<!-- run -->\n```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "experiment"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content)
    return folder


def test_the_analysis_of_the_page_measures_what_the_page_says(base, trial):
    listed = yaml.safe_load(FILES["coverage.yaml"])["coverage"]
    specs = [MetricSpec(**entry) for entry in listed]
    assert check_metrics(specs, base, cases=["desk"]) == ()
    baseline = [
        trial("a", trial.atif(trial.step("list", ("read", {"path": "x"}), message="one two three"))),
        trial("b", trial.atif(trial.step(("search", {"path": "y"}), message="four"))),
    ]
    record = measure_coverage(
        "desk",
        tasks=["a", "b"],
        baseline=baseline,
        subsets={"one": ["a"], "both": ["a", "b"]},
        description={},
        metrics=specs,
        base=base,
    )
    found = {name: metric.subsets["one"].coverage for name, metric in record.metrics.items()}
    assert found == {
        "tool_calls": 0.5,
        "stubborn_tools": pytest.approx(2 / 3),
        "suite_size": 0.5,
        "reads": 0.5,
        "talk": 0.75,
        "by_program": 0.5,
        "by_shell": 0.5,
    }
    assert record.metrics["talk"].label == "rough"
    assert record.metrics["by_program"].tasks == record.metrics["tool_calls"].tasks


def test_what_the_page_runs_runs(base):
    assert len(RUN) == 1
    subprocess.run([sys.executable, "-c", RUN[0]], cwd=base, check=True)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_the_table_names_every_metric_and_setting(name):
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |"))
    model = settings_model(load_class("x", BUILT_IN[name].path))
    place = TEXT if "see below" in row else row
    for setting in model.model_fields.keys() - PerTraceSettings.model_fields.keys():
        assert f"`{setting}`" in place
