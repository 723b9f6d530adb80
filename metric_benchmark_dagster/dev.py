# SPDX-License-Identifier: Apache-2.0
"""Serves Dagster's UI for one experiment: `python -m metric_benchmark_dagster.dev`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import MetricBenchmarkError
from metric_benchmark_dagster.home import (
    DEFAULT_EXPERIMENT,
    DEFAULT_OUTPUT,
    REPOSITORY,
    host_environment,
    prepare_home,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Prepares the instance folder and becomes `dagster dev`."""
    parser = argparse.ArgumentParser(
        prog="python -m metric_benchmark_dagster.dev",
        description="Serves Dagster's UI for an experiment; what `make demo` ran is there to be looked at.",
    )
    parser.add_argument("--experiment", type=Path, default=DEFAULT_EXPERIMENT, help="experiment.yaml or its folder")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="the evidence root")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=3000, help="the port to listen on")
    options = parser.parse_args(argv)
    try:
        load_experiment(options.experiment, level="analysis", verify=False)
        home = prepare_home(options.output)
    except MetricBenchmarkError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    sys.stderr.write(
        f"experiment {options.experiment}\nevidence   {options.output}\ninstance   {home}\n"
        f"UI         http://{options.host}:{options.port}\n"
    )
    command = [sys.executable, "-m", "dagster", "dev", "--workspace", str(REPOSITORY / "workspace.yaml")]
    command += ["--host", options.host, "--port", str(options.port)]
    return os.execve(sys.executable, command, host_environment(options.experiment, options.output, home))


if __name__ == "__main__":
    sys.exit(main())
