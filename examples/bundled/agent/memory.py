# SPDX-License-Identifier: Apache-2.0
"""What the clerk remembers: observations, newest last, and the values that can be read out of them."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

_HIT = re.compile(r"^([^:\n]+):(\d+):(.*)$")


@dataclass(frozen=True)
class Line:
    """One line that was seen, and where."""

    path: str
    number: int
    text: str


@dataclass(frozen=True)
class Observation:
    """What one tool call answered.

    Attributes:
        subject: the path or command it was about.
        lines: the lines of the answer; those of a search carry the path of the file they were found in.
        more: the file seems to go on after the last line.
    """

    tool: str
    subject: str
    text: str
    code: int
    lines: tuple[Line, ...] = ()
    more: bool = False


class Memory:
    """Observations, newest last."""

    def __init__(self) -> None:
        self._observations: list[Observation] = []

    def add(self, observation: Observation) -> None:
        """Remembers one more observation."""
        self._observations.append(observation)

    def forget(self, keep: int) -> None:
        """Drops all but the `keep` newest observations."""
        self._observations = self._observations[-keep:] if keep > 0 else []

    def outdate(self, path: str) -> None:
        """Drops what is known of a file's content, because it was changed."""
        self._observations = [o for o in self._observations if o.tool != "read_file" or o.subject != path]

    def newest(self, *tools: str) -> Observation | None:
        """Returns the newest successful observation of one of the tools."""
        return next((o for o in reversed(self._observations) if o.tool in tools and o.code == 0), None)

    def unfinished(self) -> list[str]:
        """Returns the files that were read in part, the one looked at last first."""
        ends: dict[str, bool] = {}
        for seen in self._observations:
            if seen.tool == "read_file" and seen.code == 0:
                ends.pop(seen.subject, None)
                ends[seen.subject] = seen.more
        return [path for path, more in reversed(ends.items()) if more]

    def pages(self, path: str) -> list[Observation]:
        """Returns the remembered looks at one file."""
        return [o for o in self._observations if o.tool == "read_file" and o.subject == path and o.code == 0]

    def lines(self, near: str = "") -> list[Line]:
        """Returns the remembered lines that hold `near`, each line of a file once, in the order they were seen.

        A line seen again replaces what was seen before: the file may have changed.
        """
        found: dict[tuple[str, int], Line] = {}
        for line in (line for o in self._observations if o.code == 0 for line in o.lines):
            found.pop((line.path, line.number), None)
            found[line.path, line.number] = line
        return [line for line in found.values() if near in line.text]

    def values(self, key: str, near: str = "") -> list[tuple[Line, str]]:
        """Returns the values of `key` among the remembered lines, and the lines."""
        return [(line, value) for line in self.lines(near) if (value := value_in(line.text, key)) is not None]


def value_in(text: str, key: str) -> str | None:
    """Returns the value of `key` in a line such as `key: value`, `key = value` or `... key=value ...`."""
    name = re.escape(key)
    token = re.search(rf"(?:^|\s){name}=(\S+)", text, re.IGNORECASE)
    if token:
        return token[1]
    whole = re.match(rf"\s*{name}\s*[:=]\s*(.*?)\s*$", text, re.IGNORECASE)
    return whole[1] if whole else None


def lines_of(tool: str, subject: str, text: str, first: int) -> tuple[Line, ...]:
    """Splits a tool's answer into lines; a search's lines name the file they come from."""
    if tool == "search":
        hits = (_HIT.match(t) for t in text.splitlines())
        return tuple(Line(posixpath.normpath(m[1]), int(m[2]), m[3]) for m in hits if m)
    return tuple(Line(subject, n, t) for n, t in enumerate(text.splitlines(), first))
