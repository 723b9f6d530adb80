# SPDX-License-Identifier: Apache-2.0
"""The Dagster instance that belongs to an evidence root: a folder beside it, with this repository's dagster.yaml."""

import os
from collections.abc import Mapping
from pathlib import Path

from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark_dagster.nightly import Nightly

REPOSITORY = Path(__file__).resolve().parents[1]
#: The bundled example and where its evidence goes when nothing else is named.
DEFAULT_EXPERIMENT = REPOSITORY / "examples" / "bundled" / "experiment.yaml"
DEFAULT_OUTPUT = REPOSITORY / "runs" / "demo"

EXPERIMENT_VARIABLE = "METRIC_BENCHMARK_EXPERIMENT"
OUTPUT_VARIABLE = "METRIC_BENCHMARK_OUTPUT"
RUN_ID_VARIABLE = "METRIC_BENCHMARK_RUN_ID"
#: Before the name of every asset, where several experiments share an instance.
PREFIX_VARIABLE = "METRIC_BENCHMARK_KEY_PREFIX"
CRON_VARIABLE = "METRIC_BENCHMARK_CRON"
TIMEZONE_VARIABLE = "METRIC_BENCHMARK_TIMEZONE"
MAX_RUNS_VARIABLE = "METRIC_BENCHMARK_MAX_RUNS"
MAX_COST_VARIABLE = "METRIC_BENCHMARK_MAX_COST_USD"
MAX_RUNTIME_VARIABLE = "METRIC_BENCHMARK_MAX_RUNTIME_S"
ON_FAILURE_VARIABLE = "METRIC_BENCHMARK_ON_FAILURE"


def prepare_home(output: Path, home: Path | None = None) -> Path:
    """Creates an instance folder and returns it; by default that of an evidence root, `.dagster/<its name>` beside it.

    Each evidence root has an instance of its own, so that the events of two experiments never mix.

    Raises:
        ConfigError: this is not a checkout of the repository, which has the instance's configuration.
        StorageError: the folder cannot be written.
    """
    source = REPOSITORY / "dagster.yaml"
    if not source.is_file():
        raise ConfigError(f"{source}: missing; run this from a checkout of the repository")
    output = output.absolute()
    home = output.parent / ".dagster" / output.name if home is None else home.absolute()
    target = home / "dagster.yaml"
    if not target.exists() or target.read_bytes() != source.read_bytes():
        write_bytes(target, source.read_bytes())
    return home


def host_environment(experiment: Path | str, output: Path, home: Path) -> dict[str, str]:
    """Returns the environment of a Dagster host that serves an experiment."""
    return os.environ | {
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        EXPERIMENT_VARIABLE: str(Path(experiment).absolute()),
        OUTPUT_VARIABLE: str(output.absolute()),
    }


def read_nightly(environment: Mapping[str, str]) -> Nightly:
    """Reads the settings of the scheduled backfill; what is not set keeps its default.

    Raises:
        ConfigError: a number is none; every wrong one is named.
    """
    problems: list[Problem] = []

    def number[T: (int, float)](variable: str, kind: type[T], default: T) -> T:
        text = environment.get(variable) or ""
        try:
            value = kind(text) if text else default
        except ValueError:
            value = kind(-1)
        if text and not (0 < value < float("inf")):
            problems.append(Problem(variable, f"found {text!r}; expected a positive number"))
        return value

    default = Nightly()
    max_cost_usd = number(MAX_COST_VARIABLE, float, 0.0)
    found = Nightly(
        cron=environment.get(CRON_VARIABLE) or default.cron,
        timezone=environment.get(TIMEZONE_VARIABLE) or None,
        max_runs=number(MAX_RUNS_VARIABLE, int, default.max_runs),
        max_cost_usd=max_cost_usd or None,
        max_runtime_s=number(MAX_RUNTIME_VARIABLE, int, default.max_runtime_s),
    )
    if problems:
        raise ConfigError(problems)
    return found


def read_on_failure(environment: Mapping[str, str]) -> str | None:
    """Reads who is told about failed runs: `module:function` or a webhook's URL; nobody by default."""
    return environment.get(ON_FAILURE_VARIABLE) or None
