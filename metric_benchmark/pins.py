# SPDX-License-Identifier: Apache-2.0
"""Signing: computes the pins of an experiment and writes them into its YAML files, keeping their layout."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.config import Case, Experiment, YamlSource, load_experiment
from metric_benchmark.config.fields import Pinned
from metric_benchmark.config.yaml_source import Location
from metric_benchmark.hashing import digest_path

_ENTRY_PIN = re.compile(r"^(\s*(?:- )?)sha256:.*$")
_INLINE_PIN = re.compile(r",?\s*sha256:\s*[^,}\s]*")


@dataclass(frozen=True)
class Signed:
    """What `sign` did: how many pins it checked and which files it rewrote."""

    n_pins: int
    changed: tuple[Path, ...]


def sign_experiment(path: Path | str) -> Signed:
    """Writes the digest of every pinned file and folder into the files that name them.

    Only `sha256` values change; comments and layout stay. The result is loaded again, so that what was written is
    known to hold.

    Raises:
        ConfigError: the experiment has problems other than its pins.
    """
    experiment = load_experiment(path, verify=False)
    changed: list[Path] = []
    n_pins = 0
    for case in experiment.cases:
        pins = _case_pins(case)
        n_pins += len(pins)
        changed += _rewrite(case.source, pins)
    # The case files' own digests are only known now.
    cases_pins = _cases_pins(experiment)
    changed += _rewrite(experiment.cases_source, cases_pins)
    load_experiment(path)
    return Signed(n_pins + len(cases_pins), tuple(changed))


def _case_pins(case: Case) -> list[tuple[Location, str]]:
    pins: list[tuple[Location, Pinned]] = [
        (("description",), case.config.description),
        (("subsets",), case.config.subsets),
        *((("tasks", i), task) for i, task in enumerate(case.config.tasks)),
        *((location, bundle) for location, _, bundle in case.bundles()),
    ]
    return [(location, digest_path(case.path_of(pinned))) for location, pinned in pins]


def _cases_pins(experiment: Experiment) -> list[tuple[Location, str]]:
    folder = experiment.cases_source.path.parent
    return [
        (("cases", i), digest_path((folder / pinned.path).resolve()))
        for i, pinned in enumerate(experiment.cases_config.cases)
    ]


def _rewrite(source: YamlSource, pins: list[tuple[Location, str]]) -> list[Path]:
    before = source.path.read_text(encoding="utf-8")
    lines = before.splitlines()
    # From the last entry to the first, so that an inserted line moves nothing still to come.
    for location, digest in sorted(pins, key=lambda pin: source.lines[(*pin[0], "path")], reverse=True):
        path_line = source.lines[(*location, "path")] - 1
        pin_line = source.lines.get((*location, "sha256"))
        if pin_line is not None and pin_line - 1 != path_line:
            lines[pin_line - 1] = _ENTRY_PIN.sub(rf"\g<1>sha256: {digest}", lines[pin_line - 1])
        elif "{" in lines[path_line]:
            lines[path_line] = _pin_inline(lines[path_line], digest)
        else:
            lines.insert(path_line + 1, " " * _key_column(lines[path_line]) + f"sha256: {digest}")
    after = "\n".join(lines) + "\n"
    if after == before:
        return []
    _replace(source.path, after)
    return [source.path]


def _pin_inline(line: str, digest: str) -> str:
    """Sets the pin of a one-line mapping such as `- {id: a, path: tasks/a, sha256: ...}`."""
    start = line.index("path:")
    end = line.index("}", start)
    inside = _INLINE_PIN.sub("", line[:end])
    return f"{inside.rstrip()}, sha256: {digest}{line[end:]}"


def _key_column(line: str) -> int:
    return line.index("path:")


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    Path(name).chmod(path.stat().st_mode & 0o777)
    Path(name).replace(path)
