# SPDX-License-Identifier: Apache-2.0
"""The files of the deployment say what the rest of the repository says; that they work is an end-to-end test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"


@pytest.mark.parametrize("part", ["telemetry", "nux", "concurrency", "run_monitoring", "run_retries"])
def test_runs_are_limited_and_retried_as_on_a_single_machine(part):
    single, deployed = (yaml.safe_load((folder / "dagster.yaml").read_text()) for folder in (REPOSITORY, DEPLOY))
    assert deployed[part] == single[part]


def test_the_example_of_the_settings_has_each_of_them():
    asked = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text())) - {"COMPOSE_PROJECT_NAME"}
    given = set(re.findall(r"^([A-Z_]+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    assert given == asked


def test_a_code_server_puts_a_prefix_before_every_asset(experiment, tmp_path):
    """Two experiments of one instance would otherwise share the history of their assets."""
    shown = subprocess.run(
        [sys.executable, "-c", "from metric_benchmark_dagster.definitions import defs; "
         "print(*{key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()})"],
        env=os.environ | {
            "METRIC_BENCHMARK_EXPERIMENT": str(experiment),
            "METRIC_BENCHMARK_OUTPUT": str(tmp_path / "out"),
            "METRIC_BENCHMARK_KEY_PREFIX": "second",
        },
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    keys = shown.stdout.split()
    assert "second/raw_results" in keys
    assert all(key.startswith("second/") for key in keys)
