# SPDX-License-Identifier: Apache-2.0
"""Reads one YAML file into plain values and remembers on which line each of them stands."""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.hashing import digest_bytes, is_utf8

if TYPE_CHECKING:
    from yaml._yaml import CParser
else:
    try:
        from yaml._yaml import CParser
    except ImportError:
        # PyYAML was built without libyaml; the loader made of this is then not used.
        CParser = Parser

MAX_BYTES = 2 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 60
_TOO_MANY = f"the file expands to more than {MAX_NODES} values (aliases count each time they are used)"
_TOO_DEEP = f"values are nested more than {MAX_DEPTH} deep"
#: Numbers that YAML reads as no one means them: 010 as 8 and 1:30 as 90.
_ODD_NUMBER = re.compile(r"[-+]?0[0-9_]+|[-+]?[0-9][0-9_.]*(:[0-9.]+)+")

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


class _Plain(SafeConstructor, Resolver):
    """Gives plain values and lines, refuses what could be misread and counts what aliases expand to."""

    def __init__(self) -> None:
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self.expanded = 0
        self.lines: dict[Location, int] = {}
        self.refused: list[tuple[int, str]] = []

    def plain(self, node: yaml.Node, location: Location) -> Any:
        self.expanded += 1
        if self.expanded > MAX_NODES:
            raise _TooLargeError(_TOO_MANY)
        if len(location) > MAX_DEPTH:
            raise _TooLargeError(_TOO_DEEP)
        self.lines[location] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(child, (*location, i)) for i, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        value: Any = self.construct_object(node)  # pyright: ignore[reportUnknownMemberType]
        if isinstance(value, int | float) and _ODD_NUMBER.fullmatch(node.value):
            self._refuse(
                node, f"found {_cut(node.value)}, which YAML reads as {value}; write that, or a text in quotes"
            )
        # Dates and binary blobs would not survive canonical JSON; what was written is what is meant.
        plain = value if isinstance(value, bool | int | float | str | None) else str(node.value)
        if isinstance(plain, str) and not is_utf8(plain):
            self._refuse(node, "found half of a surrogate pair; write the character itself")
        return plain

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, "found a list or a mapping as a key; expected a text")
                continue
            if key_node.tag == "tag:yaml.org,2002:merge":
                self._refuse(key_node, "found the merge key `<<`; write the keys out")
                continue
            key = str(key_node.value)
            if not is_utf8(key):
                self._refuse(key_node, "found half of a surrogate pair; write the character itself")
                continue
            if key in result:
                self._refuse(key_node, f"key {_cut(key)!r} is given twice; keep one")
            result[key] = self.plain(value_node, (*location, key))
            self.lines[(*location, key)] = key_node.start_mark.line + 1
        return result

    def _refuse(self, node: yaml.Node, message: str) -> None:
        self.refused.append((node.start_mark.line + 1, message))


class _Loader(_Plain, Composer, Reader, Scanner, Parser):
    """Reads everything, slowly: refuses tags, and what is too large before it is read to its end."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Plain.__init__(self)
        self._size = _Size()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = cast("Any", Parser.peek_event(self))  # pyright: ignore[reportUnknownMemberType]
        self._size.enter(event)
        tag: str | None = getattr(event, "tag", None)
        if tag is not None and event.start_mark is not None and isinstance(event, yaml.NodeEvent):
            self.refused.append(
                (event.start_mark.line + 1, f"found the tag {_cut(tag)!r}; write plain values, texts in quotes")
            )
            # Whatever it says, it makes no object.
            event.tag = None  # pyright: ignore[reportAttributeAccessIssue]
            if isinstance(event, yaml.ScalarEvent):
                event.implicit = (True, True)
        try:
            return super().compose_node(parent, index)  # pyright: ignore[reportArgumentType]
        finally:
            self._size.leave()


class _QuickLoader(CParser, _Plain):
    """Reads what `_is_ordinary`, in C; its C recurses as deep as the values are nested."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        _Plain.__init__(self)


class _Size:
    """Counts values and how deep they are nested, of what a file holds before aliases are expanded."""

    def __init__(self) -> None:
        self._n = 0
        self._depth = 0

    def enter(self, event: yaml.Event) -> None:
        """Counts a value, which lasts until `leave`."""
        self._n += not isinstance(event, yaml.AliasEvent)
        if self._n > MAX_NODES:
            raise _TooLargeError(_TOO_MANY)
        self._depth += 1
        if self._depth > MAX_DEPTH + 1:
            raise _TooLargeError(_TOO_DEEP)

    def leave(self) -> None:
        """Ends the value that was entered last."""
        self._depth -= 1


def _is_ordinary(text: str) -> bool:
    """Whether the file has no tag; raises where it is too large or nested too deep."""
    parser, size = CParser(text), _Size()
    while (event := parser.get_event()) is not None:
        if isinstance(event, yaml.CollectionEndEvent):
            size.leave()
        elif isinstance(event, yaml.NodeEvent):
            size.enter(event)
            if getattr(event, "tag", None) is not None:
                return False
            if not isinstance(event, yaml.CollectionStartEvent):
                size.leave()
    return True


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _parse(text: str) -> tuple[Any, _Plain]:
    """Parses with the quick parser, five times as fast, where this machine has it; refusals are in the loader.

    What the quick parser cannot read is read by the other, which has better words for it.
    """
    if hasattr(yaml, "CSafeLoader"):
        with suppress(yaml.YAMLError):
            if _is_ordinary(text):
                return _value(_QuickLoader(text))
    return _value(_Loader(text))


def _value(loader: _Loader | _QuickLoader) -> tuple[Any, _Plain]:
    node: Any = loader.get_single_node()
    return (loader.plain(node, ()) if node is not None else None), loader


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
        # A named pipe or a terminal would wait for a writer for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(Problem(shown, "is no regular file; name a YAML file"))
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(Problem(shown, "no such file; check the path that names it")) from None
    except OSError as error:
        raise ConfigError(Problem(shown[:300], f"cannot be read: {error.strerror}")) from None
    return parse_yaml(path, data, shown)


def parse_yaml(path: Path, data: bytes, shown: str, *, such_as: str = "schema") -> YamlSource:
    """Parses what a YAML file of ours holds, or shall hold; see `read_yaml`. `such_as` is a key it may have."""
    if len(data) > MAX_BYTES:
        raise ConfigError(Problem(shown, f"{len(data)} bytes; expected at most {MAX_BYTES}"))
    try:
        text = data.decode("utf-8-sig")
        value, loader = _parse(text)
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(shown, f"not UTF-8 (byte {error.start}); save the file as UTF-8")) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(Problem(f"{shown}:{line}", f"not valid YAML: {error.problem}")) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(Problem(shown, f"not valid YAML: {error}")) from None
    except _TooLargeError as error:
        raise ConfigError(Problem(shown, f"refused: {error}")) from None
    if loader.refused:
        raise ConfigError([Problem(f"{shown}:{line}", message) for line, message in sorted(loader.refused)])
    if not isinstance(value, dict):
        found = {list: "a list", type(None): "an empty file"}.get(type(value), f"a {type(value).__name__}")  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigError(Problem(f"{shown}:1", f"found {found}; expected a mapping with keys such as `{such_as}:`"))
    return YamlSource(path, shown, digest_bytes(data), value, loader.lines)
