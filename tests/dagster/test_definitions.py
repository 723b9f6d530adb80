# SPDX-License-Identifier: Apache-2.0
"""Building definitions: from an experiment in the making, beside others, and not from a broken one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import dagster as dg
import pytest

from metric_benchmark.errors import ConfigError
from metric_benchmark_dagster.definitions import build_defs

REPOSITORY = Path(__file__).parents[2]


def test_definitions_load_before_the_experiment_is_signed(small: ModuleType, tmp_path: Path) -> None:
    path = small.build_experiment(tmp_path, sign=False)
    definitions = build_defs(experiment=path, output=tmp_path / "out")
    dg.Definitions.validate_loadable(definitions)
    assert not (tmp_path / "out").exists()


def test_a_prefix_keeps_two_experiments_apart(small: ModuleType, tmp_path: Path) -> None:
    path = small.build_experiment(tmp_path, sign=False)
    both = dg.Definitions.merge(
        *(
            dg.Definitions(
                assets=build_defs(experiment=path, output=tmp_path / name, key_prefix=[name]).assets,
                resources=build_defs(experiment=path, output=tmp_path / "out").resources if name == "one" else {},
            )
            for name in ("one", "two")
        )
    )
    keys = {key.to_user_string() for key in both.resolve_asset_graph().get_all_asset_keys()}
    assert {"one/raw_results", "two/raw_results", "one/report", "two/variant_inputs"} <= keys
    assert len(keys) == 18


def test_a_broken_experiment_is_refused_with_every_problem(small: ModuleType, tmp_path: Path) -> None:
    path = small.build_experiment(tmp_path, sign=False)
    case = tmp_path / "tiny" / "case.yaml"
    case.write_text(case.read_text().replace("id: lazy", "id: baseline").replace("tasks:", "taks:"))
    with pytest.raises(ConfigError) as caught:
        build_defs(experiment=path, output=tmp_path / "out")
    assert "did you mean `tasks`?" in str(caught.value)
    assert "baseline" in str(caught.value)


def test_the_workspace_validates_without_a_warning_of_ours(small: ModuleType, tmp_path: Path) -> None:
    path = small.build_experiment(tmp_path / "experiment")
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", str(REPOSITORY / "workspace.yaml")],
        cwd=tmp_path,
        env=os.environ
        | {"METRIC_BENCHMARK_EXPERIMENT": str(path), "METRIC_BENCHMARK_OUTPUT": str(tmp_path / "out")}
        | {"DAGSTER_DISABLE_TELEMETRY": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert "All code locations passed validation" in text
    assert "BetaWarning" not in text
    assert "metric_benchmark_dagster/" not in text
