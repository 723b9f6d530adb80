# SPDX-License-Identifier: Apache-2.0
"""How the clerk gets to see a file: page by page, elsewhere when it is missing, note by note."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable

from .memory import Line, Memory, Observation, value_in
from .tools import NOT_FOUND, PAGE_LINES

#: Calls one tool with arguments and returns what was observed (it is remembered already).
Use = Callable[..., Awaitable[Observation]]

#: What would take more looks than this is left alone.
MAX_PAGES = 4
MAX_FILES = 6


class Reader:
    """Reads files with tools, and finds ways to those that are not where they were said to be."""

    def __init__(self, use: Use, memory: Memory) -> None:
        self._use = use
        self._memory = memory

    async def read(self, path: str, fallback: str = "") -> Observation:
        """Reads the first page of a file; when it is missing, of `fallback` or of its namesake elsewhere."""
        seen = await self._use("read_file", path=path)
        if "Is a directory" in seen.text:
            return await self.read_each(path)
        if seen.code != 0 and fallback:
            seen = await self._use("read_file", path=fallback)
        if seen.code != 0 and (elsewhere := await self.locate(path)):
            seen = await self._use("read_file", path=elsewhere)
        return seen

    async def read_on(self, path: str, enough: Callable[[], bool] = lambda: False) -> None:
        """Turns the pages of a file that was read in part until it ends, or until `enough`."""
        for _ in range(MAX_PAGES):
            pages = self._memory.pages(path)
            if not pages or not pages[-1].more or enough():
                return
            start = pages[-1].lines[-1].number + 1
            await self._use("read_file", path=path, start=start, lines=PAGE_LINES)

    async def read_tail(self, path: str, count: int) -> None:
        """Reads the end of a file; without a program for that, all of it."""
        seen = await self._use("read_file", path=path, tail=count)
        if seen.code != 0:
            await self.read(path)
            await self.read_on(path)

    async def read_each(self, folder: str) -> Observation:
        """Lists a folder and reads the files in it."""
        listing = await self._use("list_dir", path=folder)
        for line in listing.lines[:MAX_FILES]:
            await self._use("read_file", path=posixpath.join(folder, line.text))
        return listing

    async def read_whole(self, path: str) -> list[Line]:
        """Reads a file from its first line to its last and returns the lines."""
        self._memory.outdate(path)
        seen = await self.read(path)
        await self.read_on(seen.subject)
        return [line for page in self._memory.pages(seen.subject) for line in page.lines]

    async def follow_notes(self, key: str) -> None:
        """Reads the file that the newest `key: path` names, and so on, until a file names no other."""
        for _ in range(MAX_FILES):
            seen = self._memory.newest("read_file")
            named = [v for line in (seen.lines if seen else ()) if (v := value_in(line.text, key))]
            if not named or self._memory.pages(named[-1]):
                return
            if (await self.read(named[-1])).code != 0:
                return

    async def locate(self, path: str) -> str:
        """Looks for a file of that name anywhere, then for one that is spelt with other capitals."""
        name = posixpath.basename(path.rstrip("/"))
        for spelling in ({}, {"ignore_case": True}):
            found = await self._use("find_files", name=name, **spelling)
            if found.code == NOT_FOUND:
                return ""
            if found.lines:
                return posixpath.normpath(found.lines[0].text)
        return ""
