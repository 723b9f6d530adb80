# SPDX-License-Identifier: Apache-2.0
"""Serves Dagster's UI for one experiment or several: `python -m metric_benchmark_dagster.dev`."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from metric_benchmark.errors import ConfigError, MetricBenchmarkError, Problem
from metric_benchmark.webserver import DEFAULT_HOST, DEFAULT_PORT
from metric_benchmark_dagster.home import (
    CRON_VARIABLE,
    DEFAULT_EXPERIMENT,
    DEFAULT_OUTPUT,
    EXPERIMENT_VARIABLE,
    OUTPUT_VARIABLE,
    TIMEZONE_VARIABLE,
    host_environment,
    prepare_home,
    read_nightly,
    read_on_failure,
)
from metric_benchmark_dagster.hooks import resolve_hook
from metric_benchmark_dagster.nightly import Nightly
from metric_benchmark_dagster.workspace import Served, check_served, write_workspace


def main(argv: Sequence[str] | None = None) -> int:
    """Prepares the instance folder and becomes `dagster dev`."""
    parser = argparse.ArgumentParser(
        prog="python -m metric_benchmark_dagster.dev",
        description="Serves Dagster's UI for an experiment: that of --experiment and --output, else that of "
        f"{EXPERIMENT_VARIABLE} and {OUTPUT_VARIABLE}, else what `make demo` ran. Several are served by repeating "
        "--experiment and --output in pairs; each is a code location of its own.",
    )
    parser.add_argument("--experiment", type=Path, action="append", help="experiment.yaml or its folder; repeatable")
    parser.add_argument("--output", type=Path, action="append", help="the evidence root of the experiment before it")
    parser.add_argument("--home", type=Path, help="the instance's folder (default: .dagster beside the first output)")
    parser.add_argument("--host", default=DEFAULT_HOST, help="the address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="the port to listen on")
    options = parser.parse_args(argv)
    experiments: list[Path] = options.experiment or []
    outputs: list[Path] = options.output or []
    where = ("--experiment", "--output")
    if not experiments and not outputs:
        where = (EXPERIMENT_VARIABLE, OUTPUT_VARIABLE)
        experiments, outputs = ([Path(value)] if (value := os.environ.get(name)) else [] for name in where)
    if len(experiments) != len(outputs):
        parser.error(
            f"found {len(experiments)} {where[0]} and {len(outputs)} {where[1]}; expected one of each in pairs: an "
            "experiment is served with its own evidence"
        )
    if not experiments:
        experiments, outputs = [DEFAULT_EXPERIMENT], [DEFAULT_OUTPUT]
    try:
        _check_settings(os.environ)
        served = check_served(Served(*pair) for pair in zip(experiments, outputs, strict=True))
        home = prepare_home(outputs[0], options.home)
        workspace = write_workspace(home, served)
    except MetricBenchmarkError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    for one in served:
        sys.stderr.write(f"experiment {one.experiment}\nevidence   {one.output}\n")
    sys.stderr.write(f"instance   {home}\nUI         http://{options.host}:{options.port}\n")
    command = [sys.executable, "-m", "dagster", "dev", "--workspace", str(workspace)]
    command += ["--host", options.host, "--port", str(options.port)]
    return os.execve(sys.executable, command, host_environment(experiments[0], outputs[0], home))


def _check_settings(environment: Mapping[str, str]) -> None:
    """Refuses settings that would only be found wrong once the UI is up, in place of the experiment.

    Raises:
        ConfigError: with every wrong one.
    """
    import dagster as dg

    problems: list[Problem] = []
    nightly = Nightly(cron=environment.get(CRON_VARIABLE) or Nightly().cron)
    try:
        nightly = read_nightly(environment)
    except ConfigError as error:
        problems += error.problems
    try:
        dg.ScheduleDefinition(job_name="any", cron_schedule=nightly.cron, execution_timezone=nightly.timezone)
    except dg.DagsterInvalidDefinitionError:
        zone = f" in time zone {nightly.timezone!r}" if nightly.timezone else ""
        problems.append(
            Problem(
                f"{CRON_VARIABLE}, {TIMEZONE_VARIABLE}",
                f"found {nightly.cron!r}{zone}; expected a cron expression of five fields such as '0 2 * * *', and a "
                "time zone such as Europe/Berlin",
            )
        )
    try:
        if hook := read_on_failure(environment):
            resolve_hook(hook)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)


if __name__ == "__main__":
    sys.exit(main())
