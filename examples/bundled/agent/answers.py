# SPDX-License-Identifier: Apache-2.0
"""The values an instruction asks for, taken from memory; what is not there is looked for once."""

from __future__ import annotations

import posixpath
import re
from decimal import Decimal

from .memory import Memory
from .plan import Term
from .reading import Reader, Use

#: Written down for a value that could not be found.
UNKNOWN = "unknown"

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: These need all of a file, so one that was read in part is read to its end first.
_OVER_ALL = frozenset(
    {"sum of every", "number of", "largest", "smallest", "last", "file with the largest", "file with the smallest"}
)


class Answers:
    """Evaluates terms over what is remembered."""

    def __init__(self, use: Use, memory: Memory, reader: Reader) -> None:
        self._use = use
        self._memory = memory
        self._reader = reader
        self.searched_for = ""

    async def text(self, terms: tuple[Term, ...]) -> str:
        """Returns the values, one per line."""
        return "".join([f"{await self.value(term)}\n" for term in terms])

    async def value(self, term: Term) -> str:
        """Returns one value, or "unknown"."""
        if term.operator:
            return await self._calculate(term)
        if term.how == "word":
            return term.key
        if term.how == "checksum of":
            seen = await self._use("checksum", path=term.key)
            return seen.text.split()[0] if seen.code == 0 and seen.text.strip() else UNKNOWN
        if not term.key:
            return self._count_or_quote(term)
        return await self._look_up(term)

    def _count_or_quote(self, term: Term) -> str:
        if term.how == "output":
            seen = self._memory.newest("run")
            return seen.text.strip() if seen else UNKNOWN
        if term.how == "number of files":
            seen = self._memory.newest("list_dir", "find_files")
            return str(sum(line.text.endswith(term.near) for line in seen.lines)) if seen else UNKNOWN
        seen = self._memory.newest("search")
        return str(len(seen.lines if seen else self._memory.lines(self.searched_for)))

    async def _look_up(self, term: Term) -> str:
        near = await self.value(Term("", term.near)) if term.join else term.near
        if term.how in _OVER_ALL:
            for path in self._memory.unfinished():
                await self._reader.read_on(path)
        found = self._memory.values(term.key, near)
        if not found:
            await self._seek(term.key, near)
            found = self._memory.values(term.key, near)
        if not found:
            return UNKNOWN
        values = [value for _, value in found]
        match term.how:
            case "first":
                return values[0]
            case "number of":
                return str(len(values))
            case "sum of every":
                return str(sum((_number(v) for v in values), Decimal(0)))
            case "largest":
                return max(values, key=_number)
            case "smallest":
                return min(values, key=_number)
            case "file with the largest":
                return posixpath.basename(max(found, key=lambda f: _number(f[1]))[0].path)
            case "file with the smallest":
                return posixpath.basename(min(found, key=lambda f: _number(f[1]))[0].path)
            case _:
                return values[-1]

    async def _seek(self, key: str, near: str) -> None:
        """Looks for a value that is not in memory: on the next pages of what was begun, then anywhere."""
        for path in self._memory.unfinished():
            await self._reader.read_on(path, enough=lambda: bool(self._memory.values(key, near)))
        if not near and not self._memory.values(key):
            await self._use("search", pattern=f"^ *{key} *[:=]", path=".", recursive=True, ignore_case=True, regex=True)

    async def _calculate(self, term: Term) -> str:
        left = await self.value(Term(term.how, term.key, term.near, term.join))
        right = await self.value(Term("", term.other))
        if UNKNOWN in (left, right):
            return UNKNOWN
        a, b = _number(left), _number(right)
        return str({"plus": a + b, "minus": a - b, "times": a * b}[term.operator])


def _number(text: str) -> Decimal:
    match = _NUMBER.search(text)
    return Decimal(match[0]) if match else Decimal(0)
