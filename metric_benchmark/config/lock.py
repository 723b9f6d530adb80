# SPDX-License-Identifier: Apache-2.0
"""Requirement locks of bundles: every package pinned by `==`, nothing that could mean something else tomorrow."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_PINNED = re.compile(
    rf"(?P<name>{_NAME})\s*(?:\[[^\]]*\])?\s*==\s*(?P<version>[0-9A-Za-z.!+_-]+)\s*(?P<marker>;[^#]*?)?"
    r"(?P<hashes>(?:\s+--hash=sha\d+:[0-9a-f]+)*)"
)


def normal_name(name: str) -> str:
    """Returns the one name all spellings of a package's name have (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_packages(text: str) -> dict[str, str]:
    """Returns version by normalised package name; what is no pin is left out."""
    return {
        normal_name(match["name"]): match["version"]
        for _, line in _requirements(text)
        if (match := _PINNED.fullmatch(line))
    }


def lock_problems(text: str) -> list[tuple[int, str]]:
    """Returns what keeps a text from being a lock, each with its line."""
    problems: list[tuple[int, str]] = []
    seen: dict[str, int] = {}
    hashed: set[bool] = set()
    for number, line in _requirements(text):
        match = _PINNED.fullmatch(line)
        if match is None:
            problems.append((number, _advice(line)))
            continue
        name = normal_name(match["name"])
        if name in seen and match["marker"] is None:
            problems.append((number, f"{name} is locked twice, first in line {seen[name]}; keep one"))
        seen.setdefault(name, number)
        hashed.add(bool(match["hashes"]))
    if len(hashed) > 1:
        problems.append((1, "some packages have a --hash and some have none; give each of them one, or none"))
    return problems


def _advice(line: str) -> str:
    if line.startswith("-"):
        return (
            f"{line.split()[0]} is no pin; leave options out (pip takes an index from its own settings, PIP_INDEX_URL)"
        )
    if re.match(rf"{_NAME}\s*$|{_NAME}\s*(\[[^\]]*\])?\s*[<>~!]", line):
        return f"{line!r} is no exact version; write `name==version` (`pip freeze` and `pip-compile` do)"
    return f"{line!r} is not understood; write `name==version`"


def _requirements(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line number and text of each requirement; continued lines count as one."""
    parts: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        if not parts:
            start = number
        parts.append(line.removesuffix("\\").strip())
        if line.endswith("\\"):
            continue
        joined = " ".join(part for part in parts if part)
        parts = []
        if joined:
            yield start, joined
    if joined := " ".join(part for part in parts if part):
        yield start, joined
