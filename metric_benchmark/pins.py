# SPDX-License-Identifier: Apache-2.0
"""Signing: computes the pins of an experiment and writes them into its YAML files, keeping their layout."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from metric_benchmark.config import Case, Experiment, YamlSource, load_experiment
from metric_benchmark.config.fields import Pinned
from metric_benchmark.config.yaml_source import Location
from metric_benchmark.errors import PinError, Problem
from metric_benchmark.evidence.writes import storage_errors
from metric_benchmark.hashing import digest_path


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
        *case.locks(),
    ]
    found: list[tuple[Location, str]] = []
    problems: list[Problem] = []
    for location, pinned in pins:
        try:
            found.append((location, digest_path(case.path_of(pinned))))
        except PinError as error:
            problems.append(case.source.problem((*location, "path"), str(error)))
    if problems:
        raise PinError(problems)
    return found


def _cases_pins(experiment: Experiment) -> list[tuple[Location, str]]:
    folder = experiment.cases_source.path.parent
    return [
        (("cases", i), digest_path((folder / pinned.path).resolve()))
        for i, pinned in enumerate(experiment.cases_config.cases)
    ]


def _rewrite(source: YamlSource, pins: list[tuple[Location, str]]) -> list[Path]:
    before = source.path.read_bytes().decode("utf-8")
    after = set_pins(before, pins)
    if after == before:
        return []
    replace_text(source.path, after)
    return [source.path]


def set_pins(text: str, pins: Iterable[tuple[Location, str]]) -> str:
    """Sets `sha256` of mappings of a YAML text; every other character stays as it is.

    Args:
        text: the YAML.
        pins: where each mapping stands, and its digest. The mapping has a `path`.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    edits = [edit for location, digest in pins if (edit := _edit(text, _mapping(root, location), digest))]
    # From the last to the first, so that no edit moves what is still to come.
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _mapping(root: yaml.Node | None, location: Location) -> yaml.MappingNode:
    node = root
    for part in location:
        if isinstance(node, yaml.MappingNode):
            node = dict(_items(node))[str(part)][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
    assert isinstance(node, yaml.MappingNode)
    return node


def _items(node: yaml.MappingNode) -> list[tuple[str, tuple[yaml.Node, yaml.Node]]]:
    return [(str(key.value), (key, value)) for key, value in node.value]


def _edit(text: str, node: yaml.MappingNode, digest: str) -> tuple[int, int, str] | None:
    """Returns which characters to replace by what; None when the pin is right already."""
    found = dict(_items(node))
    if "sha256" in found:
        value = found["sha256"][1]
        start, end = value.start_mark.index, value.end_mark.index
        if value.value == digest:
            return None
        # A key without a value has nothing behind its colon, not even a space.
        return start, end, f" {digest}" if text[start - 1] == ":" else digest
    key, path = found["path"]
    if node.flow_style:
        return path.end_mark.index, path.end_mark.index, f", sha256: {digest}"
    newline = "\r\n" if "\r\n" in text else "\n"
    end = text.find(newline, path.end_mark.index)
    end = len(text) if end < 0 else end
    return end, end, f"{newline}{' ' * key.start_mark.column}sha256: {digest}"


def replace_text(path: Path, text: str) -> None:
    """Replaces a YAML file by an edited one, atomically; its mode stays.

    Raises:
        StorageError: it cannot be written; the old file is intact.
    """
    with storage_errors(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(path.stat().st_mode & 0o777)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
