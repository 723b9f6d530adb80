# SPDX-License-Identifier: Apache-2.0
"""How the clerk works through a plan, and what it does when a step goes wrong."""

from __future__ import annotations

import posixpath
import re
import shlex

from .answers import Answers
from .memory import Memory, value_in
from .plan import Step, Term
from .reading import Reader, Use
from .tools import NOT_FOUND

_MAX_RUNS = 4
_RUN_FIRST = re.compile(r"run (?P<quote>[`'\"])(?P<command>.+?)(?P=quote) first")
_NEEDS_OPTION = re.compile(r"(?:needs|missing) --(?P<name>[\w-]+)")
_NOT_SET = re.compile(r"(?P<name>[\w-]+) is not set in (?P<path>[\w./-]+)")
_BUSY = re.compile(r"\b(?:busy|try again)\b", re.IGNORECASE)


class Clerk:
    """Follows a plan with tools and a memory; everything it writes down comes out of what it observed."""

    def __init__(self, use: Use, memory: Memory) -> None:
        self._use = use
        self._memory = memory
        self._reader = Reader(use, memory)
        self._answers = Answers(use, memory, self._reader)
        self._written: dict[str, str] = {}

    async def do(self, step: Step, fallback: str = "") -> None:
        """Does one step; `fallback` is a path to use when its target is missing."""
        target = await self._answers.value(Term("", step.target)) if step.named else step.target
        match step.verb:
            case "read":
                await self._reader.read(target, fallback)
            case "read_lines":
                start, end = int(step.options["start"]), int(step.options["end"])
                await self._use("read_file", path=target, start=start, lines=end - start + 1)
            case "read_tail":
                await self._reader.read_tail(target, int(step.options["tail"]))
            case "read_each":
                await self._reader.read_each(target)
            case "read_found":
                if (found := self._memory.newest("search", "find_files")) and found.lines:
                    line = found.lines[0]
                    await self._reader.read(line.path if found.tool == "search" else line.text)
            case "read_listed":
                if (listing := self._memory.newest("list_dir")) and listing.lines:
                    names = sorted(line.text for line in listing.lines)
                    name = names[0] if step.options["which"] == "first" else names[-1]
                    await self._reader.read(posixpath.join(listing.subject, name))
            case "follow":
                await self._reader.follow_notes(target)
            case "list":
                await self._use("list_dir", path=target, **step.options)
            case "find":
                await self._use("find_files", name=target, **step.options)
            case "search":
                await self._search(target, step)
            case "run":
                await self._run(target, str(step.options.get("cwd", "")))
            case "move":
                await self._move(target, str(step.options["to"]))
            case "set":
                await self._set(target, (await self._answers.text(step.terms)).strip(), str(step.options["path"]))
            case "append":
                text = await self._answers.text(step.terms)
                await self._use("write_file", path=target, content=text, append=True)
            case "write":
                await self._write(target, await self._answers.text(step.terms))
            case "check":
                await self._check(target)
            case _:
                pass  # a fallback belongs to the step before it

    async def _search(self, where: str, step: Step) -> None:
        pattern = str(step.options["pattern"])
        if step.options.get("value"):
            pattern = await self._answers.value(Term("", pattern))
        self._answers.searched_for = pattern
        one_file = bool(posixpath.splitext(where)[1])
        how = {} if one_file else {"recursive": True}
        if step.options.get("ignore_case"):
            how["ignore_case"] = True
        seen = await self._use("search", pattern=pattern, path=where, **how)
        if seen.code == NOT_FOUND and one_file:
            await self._reader.read_whole(where)
        elif seen.code == NOT_FOUND:
            await self._reader.read_each(where)
        elif not seen.lines and "ignore_case" not in how:
            await self._use("search", pattern=pattern, path=where, **how, ignore_case=True)

    async def _run(self, command: str, cwd: str) -> None:
        """Runs a command; when it fails, does what its message asks for and runs it again."""
        for _ in range(_MAX_RUNS):
            seen = await self._use("run", command=command, **({"cwd": cwd} if cwd else {}))
            if seen.code == 0:
                return
            if seen.code == 126:
                command = f"bash {command}"
            elif m := _RUN_FIRST.search(seen.text):
                await self._use("run", command=m["command"], **({"cwd": cwd} if cwd else {}))
            elif m := _NEEDS_OPTION.search(seen.text):
                command += f" --{m['name']} {shlex.quote(await self._answers.value(Term('', m['name'])))}"
            elif m := _NOT_SET.search(seen.text):
                value = await self._answers.value(Term("", m["name"]))
                await self._set(m["name"], value, posixpath.join(cwd, m["path"]))
            elif seen.code == NOT_FOUND:
                program, _, rest = command.partition(" ")
                elsewhere = await self._reader.locate(program)
                if not elsewhere:
                    return
                command, cwd = f"./{elsewhere} {rest}".strip(), ""
            elif not _BUSY.search(seen.text):
                return

    async def _write(self, path: str, text: str) -> None:
        self._written[path] = text
        await self._use("write_file", path=path, content=text)

    async def _check(self, path: str) -> None:
        """Looks at a file just written, and writes it once more when it holds something else."""
        seen = await self._use("read_file", path=path)
        if path in self._written and seen.text.strip() != self._written[path].strip():
            await self._write(path, self._written[path])

    async def _set(self, key: str, value: str, path: str) -> None:
        """Changes one setting of a file and leaves the other lines as they are."""
        lines = [line.text for line in await self._reader.read_whole(path)]
        changed = [re.sub(r"([:=]\s*).*", lambda m: m[1] + value, t) if _sets(t, key) else t for t in lines]
        if not any(_sets(t, key) for t in lines):
            changed.append(f"{key}={value}")
        await self._write(path, "".join(f"{t}\n" for t in changed))

    async def _move(self, source: str, to: str) -> None:
        seen = await self._use("move_file", path=source, to=to)
        if seen.code != 0 and (elsewhere := await self._reader.locate(source)):
            await self._use("move_file", path=elsewhere, to=to)


def _sets(text: str, key: str) -> bool:
    return value_in(text, key) is not None
