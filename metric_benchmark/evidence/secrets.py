# SPDX-License-Identifier: Apache-2.0
"""Searches files for the values of secrets, in the forms programs write them in; it never says a value."""

from __future__ import annotations

import base64
import html
import json
import os
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.errors import EvidenceError

#: Shorter values are not searched: they are no secrets, and would be found by chance.
MIN_LENGTH = 6
#: A line of a longer value, or what base64 makes of one, is searched from this length on.
_MIN_LINE = 16
_MIN_BASE64 = 8
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Hit:
    """A file that holds the value of a variable, and in which form."""

    path: Path
    variable: str
    form: str

    def message(self) -> str:
        """Says so, without the value."""
        return f"holds the value of ${{{self.variable}}}{'' if self.form == 'plain' else f' ({self.form})'}"


class SecretSearch:
    """Searches for the values of variables.

    Args:
        values: by variable, one or more; those shorter than `MIN_LENGTH` are left out.
    """

    def __init__(self, values: Mapping[str, str | Sequence[str]]) -> None:
        self._patterns = [
            (variable, form, pattern)
            for variable, found in sorted(values.items())
            for value in ([found] if isinstance(found, str) else found)
            if is_searchable(value)
            for form, pattern in written_forms(value)
        ]
        self._overlap = max((len(pattern) for _, _, pattern in self._patterns), default=1) - 1

    def search(self, folder: Path, *, without: Iterable[Path] = ()) -> Iterator[Hit]:
        """Yields one hit per file and variable, of all files below a folder; names and targets of links count too.

        Args:
            folder: what to search; a file is searched alone.
            without: folders to leave out.

        Raises:
            EvidenceError: a file cannot be read, so nobody knows what it holds.
        """
        if not self._patterns:
            return
        left_out = set(without)
        if folder.is_file():
            yield from self._search_file(folder)
            return
        for parent, dirs, files in os.walk(folder):
            here = Path(parent)
            dirs[:] = sorted(name for name in dirs if here / name not in left_out)
            for name in (*dirs, *sorted(files)):
                path = here / name
                text = os.fsencode(name)
                if path.is_symlink():
                    text += b"\0" + os.fsencode(path.readlink())
                elif path.is_file():
                    yield from self._search_file(path)
                yield from (
                    Hit(self._hidden(path), hit.variable, f"in its name, {hit.form}") for hit in self._find(path, text)
                )

    def _search_file(self, path: Path) -> Iterator[Hit]:
        """Reads a file in pieces that overlap by the longest form."""
        found: set[str] = set()
        try:
            with path.open("rb", buffering=0) as stream:
                tail = b""
                while data := stream.read(_CHUNK):
                    for hit in self._find(path, tail + data):
                        if hit.variable not in found:
                            found.add(hit.variable)
                            yield hit
                    tail = (tail + data)[-self._overlap :] if self._overlap else b""
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be searched for secrets: {error.strerror}; make it readable") from None

    def _find(self, path: Path, data: bytes) -> Iterator[Hit]:
        seen: set[str] = set()
        for variable, form, pattern in self._patterns:
            if variable not in seen and pattern in data:
                seen.add(variable)
                yield Hit(path, variable, form)

    def _hidden(self, path: Path) -> Path:
        """Returns a path without the values in it."""
        data = os.fsencode(path)
        for _, _, pattern in self._patterns:
            data = data.replace(pattern, b"***")
        return Path(os.fsdecode(data))


def is_searchable(value: str) -> bool:
    """Whether a value is long enough to be searched for."""
    return len(value.strip()) >= MIN_LENGTH


def written_forms(value: str) -> tuple[tuple[str, bytes], ...]:
    """Returns the byte strings that give a value away, each with the name of its form; the plain value comes first.

    Args:
        value: the value; of one with several lines, each long line counts as well.
    """
    value = value.strip()
    lines = [line.strip() for line in value.splitlines()]
    parts = [value] + ([line for line in lines if len(line) >= _MIN_LINE] if len(lines) > 1 else [])
    found: dict[bytes, str] = {}
    for part in parts:
        for form, pattern in _forms(part):
            found.setdefault(pattern, form)
    return tuple((form, pattern) for pattern, form in found.items())


def _forms(value: str) -> Iterator[tuple[str, bytes]]:
    data = value.encode("utf-8", "surrogateescape")
    yield "plain", data
    once = value
    for form in ("JSON-escaped", "JSON-escaped twice"):
        for is_ascii in (False, True):
            escaped = json.dumps(once, ensure_ascii=is_ascii)[1:-1]
            yield form, escaped.encode("utf-8", "surrogateescape")
            yield form, escaped.replace("/", "\\/").encode("utf-8", "surrogateescape")
        once = json.dumps(once, ensure_ascii=False)[1:-1]
    yield "in a Python literal", repr(value)[1:-1].encode("utf-8", "surrogateescape")
    yield "HTML-escaped", html.escape(value).encode("utf-8", "surrogateescape")
    for quote in (urllib.parse.quote, urllib.parse.quote_plus):
        for safe in ("", "/"):
            quoted = quote(data, safe=safe)
            yield "URL-encoded", quoted.encode()
            yield "URL-encoded", _lower_escapes(quoted).encode()
    yield "in hexadecimal", data.hex().encode()
    yield "in hexadecimal", data.hex().upper().encode()
    yield from (("base64", pattern) for pattern in _base64(data))


def _lower_escapes(quoted: str) -> str:
    parts = quoted.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def _base64(data: bytes) -> Iterator[bytes]:
    """Yields what base64 makes of bytes wherever they stand in what is encoded: the digits they alone decide."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data)
        first = -(-offset * 8 // 6)
        digits = encoded[first : (offset + len(data)) * 8 // 6]
        if len(digits) >= _MIN_BASE64:
            yield digits
            yield digits.replace(b"+", b"-").replace(b"/", b"_")
