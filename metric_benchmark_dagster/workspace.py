# SPDX-License-Identifier: Apache-2.0
"""The workspace a host serves: one code location per experiment, so that none can get in another's way."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import ConfigError
from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark_dagster.home import REPOSITORY

_LOCATION = """\
# Written by `python -m metric_benchmark_dagster.dev` for one of several experiments.
import os

from metric_benchmark_dagster.build import build_defs
from metric_benchmark_dagster.home import read_nightly, read_on_failure

defs = build_defs(
    experiment={experiment!r},
    output={output!r},
    key_prefix=[{prefix!r}],
    nightly=read_nightly(os.environ),
    on_failure=read_on_failure(os.environ),
)
"""


@dataclass(frozen=True)
class Served:
    """One experiment and its evidence root; `name` is the experiment's, once it was read."""

    experiment: Path
    output: Path
    name: str = ""


def check_served(pairs: Iterable[Served]) -> list[Served]:
    """Reads the experiments' names.

    Raises:
        ConfigError: an experiment is wrong, or two have one name or one evidence root.
    """
    served = [
        Served(one.experiment, one.output, load_experiment(one.experiment, level="analysis", verify=False).name)
        for one in pairs
    ]
    problems: list[str] = []
    for what, values in (
        ("experiment is called", [asset_prefix(one.name) for one in served]),
        ("evidence root is", [str(one.output.absolute()) for one in served]),
    ):
        again = [value for value, n in Counter(values).items() if n > 1]
        problems += [f"more than one {what} {value}; in one workspace each needs its own" for value in again]
    if problems:
        raise ConfigError(problems)
    return served


def write_workspace(home: Path, served: Sequence[Served]) -> Path:
    """Returns the workspace file that serves the experiments.

    One alone is served by the repository's own workspace.yaml, and its assets have plain names. Several have a code
    location each, named after the experiment, as are the first parts of their asset keys.
    """
    if len(served) == 1:
        return REPOSITORY / "workspace.yaml"
    folder = home / "locations"
    locations: list[dict[str, dict[str, str]]] = []
    for one in served:
        target = folder / f"{asset_prefix(one.name)}.py"
        text = _LOCATION.format(
            experiment=str(one.experiment.absolute()), output=str(one.output.absolute()), prefix=asset_prefix(one.name)
        )
        write_bytes(target, text.encode())
        entry = {"relative_path": f"locations/{target.name}", "attribute": "defs", "location_name": one.name}
        locations.append({"python_file": entry})
    workspace = home / "workspace.yaml"
    text: str = yaml.safe_dump(  # pyright: ignore[reportUnknownMemberType]
        {"load_from": locations}, sort_keys=False
    )
    write_bytes(workspace, text.encode())
    return workspace


def asset_prefix(name: str) -> str:
    """Returns the first part of an experiment's asset keys; hyphens and dots are for its name only."""
    return name.replace("-", "_").replace(".", "_")
