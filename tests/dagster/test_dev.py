# SPDX-License-Identifier: Apache-2.0
"""What `make dev` serves: what is named by options or by the environment, never one half of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from metric_benchmark_dagster import dev


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The environments of the hosts that were started."""
    started: list[dict[str, str]] = []

    def execve(_program: str, _command: list[str], environment: dict[str, str]) -> int:
        started.append(environment)
        return 0

    monkeypatch.setattr(os, "execve", execve)
    for name in ("METRIC_BENCHMARK_EXPERIMENT", "METRIC_BENCHMARK_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    return started


def test_the_environment_names_what_is_served(
    served: Any, small: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small.build_experiment(tmp_path / "experiment")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METRIC_BENCHMARK_EXPERIMENT", "experiment")
    monkeypatch.setenv("METRIC_BENCHMARK_OUTPUT", "runs/mine")
    assert dev.main([]) == 0
    assert served[0]["METRIC_BENCHMARK_OUTPUT"] == str(tmp_path / "runs" / "mine")
    assert "experiment experiment\nevidence   runs/mine\n" in capsys.readouterr().err
    # Options are nearer than the environment.
    other = small.build_experiment(tmp_path / "other")
    assert dev.main(["--experiment", str(other), "--output", str(tmp_path / "out")]) == 0
    assert f"experiment {other}\nevidence   {tmp_path}/out\n" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--experiment", "--output"])
def test_an_experiment_without_its_evidence_is_refused(
    served: Any, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        dev.main([option, "mine"])
    assert refused.value.code == 2
    assert "expected one of each in pairs" in capsys.readouterr().err
    assert served == []


def test_half_an_environment_is_refused_by_its_names(
    served: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METRIC_BENCHMARK_EXPERIMENT", "mine")
    with pytest.raises(SystemExit):
        dev.main([])
    assert "found 1 METRIC_BENCHMARK_EXPERIMENT and 0 METRIC_BENCHMARK_OUTPUT" in capsys.readouterr().err
    assert served == []


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("CRON", "bad", "found 'bad'; expected a cron expression of five fields"),
        ("TIMEZONE", "Mars/X", "found '0 2 * * *' in time zone 'Mars/X'; expected a cron expression"),
        ("MAX_RUNS", "abc", "METRIC_BENCHMARK_MAX_RUNS: found 'abc'; expected a positive number"),
        ("ON_FAILURE", "nomod:f", "failure hook 'nomod:f': No module named 'nomod'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_served(
    served: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(f"METRIC_BENCHMARK_{name}", value)
    assert dev.main([]) == 2
    assert told in capsys.readouterr().err
