# SPDX-License-Identifier: Apache-2.0
"""Reads one YAML file into plain values and remembers on which line each of them stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.hashing import digest_bytes

MAX_BYTES = 16 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 60

type Location = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlSource:
    """A parsed YAML file: its digest, its plain value and the line of every value in it."""

    path: Path
    shown: str
    sha256: str
    value: Any
    lines: dict[Location, int] = field(repr=False)

    def place(self, location: Location = ()) -> str:
        """Names a value as `file:line: a.b[2]`; a value that is not there has its parent's line."""
        known = location
        while known and known not in self.lines:
            known = known[:-1]
        where = f"{self.shown}:{self.lines.get(known, 1)}"
        dotted = _dotted(location)
        return f"{where}: {dotted}" if dotted else where

    def problem(self, location: Location, message: str) -> Problem:
        """Makes the problem of one value."""
        return Problem(self.place(location), message)


def _dotted(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _TooLargeError(Exception):
    pass


class _Loader(yaml.SafeLoader):
    """SafeLoader that gives plain values and lines, refuses duplicate keys and counts what aliases expand to."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.expanded = 0
        self.lines: dict[Location, int] = {}
        self.duplicates: list[tuple[int, str]] = []

    def plain(self, node: yaml.Node, location: Location) -> Any:
        self.expanded += 1
        if self.expanded > MAX_NODES:
            raise _TooLargeError(
                f"the file expands to more than {MAX_NODES} values (aliases count each time they are used)"
            )
        if len(location) > MAX_DEPTH:
            raise _TooLargeError(f"values are nested more than {MAX_DEPTH} deep")
        self.lines[location] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(child, (*location, i)) for i, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        value: Any = self.construct_object(node)  # pyright: ignore[reportUnknownMemberType]
        # Dates and binary blobs would not survive canonical JSON; what was written is what is meant.
        return value if isinstance(value, bool | int | float | str | None) else str(node.value)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            if key in result:
                self.duplicates.append((key_node.start_mark.line + 1, key))
            result[key] = self.plain(value_node, (*location, key))
            self.lines[(*location, key)] = key_node.start_mark.line + 1
        return result


def read_yaml(path: Path, shown: str | None = None) -> YamlSource:
    """Reads a YAML file of ours.

    Args:
        path: the file.
        shown: how messages name it (default: the path as given).

    Raises:
        ConfigError: the file is missing, unreadable, not YAML, not a mapping, has a key twice or expands too far.
    """
    shown = shown or str(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(Problem(shown, "no such file; check the path that names it")) from None
    except OSError as error:
        raise ConfigError(Problem(shown, f"cannot be read: {error.strerror}")) from None
    return parse_yaml(path, data, shown)


def parse_yaml(path: Path, data: bytes, shown: str) -> YamlSource:
    """Parses what a YAML file of ours holds, or shall hold; see `read_yaml`."""
    if len(data) > MAX_BYTES:
        raise ConfigError(Problem(shown, f"{len(data)} bytes; expected at most {MAX_BYTES}"))
    try:
        loader = _Loader(data.decode("utf-8-sig"))
        node = loader.get_single_node()
        value = loader.plain(node, ()) if node is not None else None
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(shown, f"not UTF-8 (byte {error.start}); save the file as UTF-8")) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(Problem(f"{shown}:{line}", f"not valid YAML: {error.problem}")) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(Problem(shown, f"not valid YAML: {error}")) from None
    except _TooLargeError as error:
        raise ConfigError(Problem(shown, f"refused: {error}")) from None
    if loader.duplicates:
        raise ConfigError(
            [Problem(f"{shown}:{line}", f"key {key!r} is given twice; keep one") for line, key in loader.duplicates]
        )
    if not isinstance(value, dict):
        found = {list: "a list", type(None): "an empty file"}.get(type(value), f"a {type(value).__name__}")  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigError(Problem(f"{shown}:1", f"found {found}; expected a mapping with keys such as `schema:`"))
    return YamlSource(path, shown, digest_bytes(data), value, loader.lines)
