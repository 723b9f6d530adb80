# SPDX-License-Identifier: Apache-2.0
"""The Dagster instance that belongs to an evidence root: a folder beside it, with this repository's dagster.yaml."""

import os
from pathlib import Path

from metric_benchmark.errors import ConfigError
from metric_benchmark.evidence.writes import write_bytes

REPOSITORY = Path(__file__).resolve().parents[1]
#: The bundled example and where its evidence goes when nothing else is named.
DEFAULT_EXPERIMENT = REPOSITORY / "examples" / "bundled" / "experiment.yaml"
DEFAULT_OUTPUT = REPOSITORY / "runs" / "demo"

EXPERIMENT_VARIABLE = "METRIC_BENCHMARK_EXPERIMENT"
OUTPUT_VARIABLE = "METRIC_BENCHMARK_OUTPUT"
RUN_ID_VARIABLE = "METRIC_BENCHMARK_RUN_ID"


def prepare_home(output: Path) -> Path:
    """Creates the instance folder of an evidence root, `.dagster/<its name>` beside it, and returns it.

    Each evidence root has an instance of its own, so that the events of two experiments never mix.

    Raises:
        ConfigError: this is not a checkout of the repository, which has the instance's configuration.
        StorageError: the folder cannot be written.
    """
    source = REPOSITORY / "dagster.yaml"
    if not source.is_file():
        raise ConfigError(f"{source}: missing; run this from a checkout of the repository")
    output = output.absolute()
    home = output.parent / ".dagster" / output.name
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
