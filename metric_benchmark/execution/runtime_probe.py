# SPDX-License-Identifier: Apache-2.0
"""Run inside an environment that was made for a bundle: says what is wrong with it, as one line of JSON."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path


def problems(packages: Mapping[str, str], harbor_version: str, source: str) -> Iterator[str]:
    """Yields what is wrong.

    Args:
        packages: the locked packages and their versions.
        harbor_version: the version of Harbor that must be found.
        source: the folder the package must be imported from.
    """
    for name, version in packages.items():
        found = _version(name)
        if found is None:
            continue  # Not for this platform or Python: its marker said so.
        if found != version:
            yield f"{name} is {found} in the environment, but {version} is locked"
        yield from _lacking(name)
    try:
        importlib.import_module("harbor.job")
        package = importlib.import_module("metric_benchmark")
        importlib.import_module("metric_benchmark.execution.worker")
    except Exception as error:  # noqa: BLE001 - whatever a package of another version does when it is imported
        yield f"Harbor does not work with these packages: {type(error).__name__}: {error}; lock versions it accepts"
        return
    if (found := _version("harbor")) != harbor_version:
        yield f"harbor is {found} in the environment, but trials are run with {harbor_version}; take it out of the lock"
    if Path(str(package.__file__)).resolve().parents[1] != Path(source):
        yield f"metric_benchmark comes from {package.__file__}, not from {source}; take it out of the lock"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _lacking(name: str) -> Iterator[str]:
    """Yields what a package needs and does not find."""
    from packaging.requirements import Requirement

    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = _version(requirement.name)
        if found is None:
            yield f"{name} needs {requirement.name}, which is neither locked nor there already; lock it as well"
        elif not requirement.specifier.contains(found, prereleases=True):
            yield f"{name} needs {requirement.name}{requirement.specifier}, but {found} is there; lock one that fits"


if __name__ == "__main__":
    # Whatever the imports print must not stand in the answer's line.
    answer = list(problems(**json.load(sys.stdin)))
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
