# SPDX-License-Identifier: Apache-2.0
"""The files of the deployment say what the rest of the repository says; that they work is an end-to-end test."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

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


class Postgres:
    """`start-postgres` with programs that only note what they are asked, one of which may be killed with the script."""

    def __init__(self, folder: Path) -> None:
        self.data, self._bin, self._script = folder / "data", folder / "bin", folder / "start-postgres"
        self._bin.mkdir()
        text = (DEPLOY / "start-postgres").read_text()
        assert text.count("/usr/lib/postgresql/*/bin") == 1
        self._script.write_text(text.replace("/usr/lib/postgresql/*/bin", str(self._bin)))

    def start(self, *, killed_in: str = "") -> int:
        # Its first argument is `--pgdata=…`.
        makes = 'd=${1#--pgdata=}; mkdir "$d"; echo 17 > "$d/PG_VERSION"'
        programs = {"initdb": makes, "pg_ctl": ":", "createdb": f'echo "$@" > {self.data}.new/base', "postgres": ":"}
        for name, does in programs.items():
            ends = "\nkill -9 $PPID" if name == killed_in else ""
            (self._bin / name).write_text(f"#!/bin/sh\n{does}{ends}\n")
            (self._bin / name).chmod(0o755)
        env = os.environ | {
            "PGDATA": str(self.data),
            "POSTGRES_PASSWORD": "p",
            "POSTGRES_USER": "u",
            "POSTGRES_DB": "d",
        }
        return subprocess.run(["sh", str(self._script)], env=env).returncode


@pytest.mark.parametrize("program", ["initdb", "createdb"])
def test_a_first_start_of_postgres_that_was_killed_leaves_no_half_database(tmp_path, program):
    postgres = Postgres(tmp_path)
    assert postgres.start(killed_in=program) == -9
    assert not postgres.data.exists()
    assert postgres.start() == 0
    assert sorted(path.name for path in postgres.data.iterdir()) == ["PG_VERSION", "base", "pg_hba.conf"]
    # It is there from now on, and is not made again.
    (postgres.data / "base").write_text("runs")
    assert postgres.start() == 0
    assert (postgres.data / "base").read_text() == "runs"


class _Database:
    """What `daemon-health` asks: rows of heartbeats, by their age in seconds."""

    def __init__(self, *ages_s: float) -> None:
        self._ages_s = ages_s

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cursor(self):
        return self

    def execute(self, _: str, values: list[float]) -> None:
        self._silent, self._started = values

    def fetchone(self) -> tuple[int, int]:
        signs = [sign for age_s in self._ages_s if (sign := time.time() - age_s) >= self._started]
        return len(signs), sum(sign < self._silent for sign in signs)


@pytest.mark.parametrize(
    ("age_s", "rows", "expected"),
    [
        (5000, (3, 20), 0),
        (5000, (3, 700), "2 loops, 1 silent"),
        # Whatever the second one was, it was an earlier daemon's: the loop may be switched off since.
        (60, (3, 90), 0),
        (5000, (3, 6000), 0),
        (60, (90, 90), "0 loops, 0 silent"),
        (60, (), "0 loops, 0 silent"),
    ],
)
def test_the_daemon_is_healthy_by_its_own_signs_of_life(monkeypatch, age_s, rows, expected):
    health = runpy.run_path(str(DEPLOY / "daemon-health"))
    for name in ("HOST", "USER", "PASSWORD", "DB"):
        monkeypatch.setenv(f"POSTGRES_{name}", "x")
    database = SimpleNamespace(connect=lambda **_: _Database(*rows))
    monkeypatch.setitem(sys.modules, "psycopg2", database)
    monkeypatch.setitem(health["main"].__globals__, "age_of_container", lambda: age_s)
    assert health["main"]() == expected
