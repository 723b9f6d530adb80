# SPDX-License-Identifier: Apache-2.0
"""The clerk's tools: each call becomes one shell command, with ways around a program that is missing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

Arguments = Mapping[str, str | int | bool]

#: How many lines one look at a file shows.
PAGE_LINES = 40
#: The shell's exit status for a program that does not exist.
NOT_FOUND = 127
#: Lets `**` stand for all files below a folder. Unlike `grep -r`, their order is the same on every file system.
_EVERYTHING = "shopt -s globstar"


def commands(tool: str, arguments: Arguments) -> list[str]:
    """Returns the shell commands that do the same thing, the preferred one first.

    Raises:
        KeyError: no such tool.
    """
    return _TOOLS[tool](arguments)


def quote(arguments: Arguments, name: str) -> str:
    """Quotes one argument for the shell."""
    return shlex.quote(str(arguments[name]))


def _list_dir(arguments: Arguments) -> list[str]:
    path = quote(arguments, "path")
    if arguments.get("recursive"):
        return [f"set -o pipefail; find {path} -type f | sort", f"{_EVERYTHING}; grep -ls '' {path}/**"]
    return [f"ls -1A {path}", f"set -o pipefail; find {path} -mindepth 1 -maxdepth 1 -printf '%f\\n' | sort"]


def _read_file(arguments: Arguments) -> list[str]:
    path = quote(arguments, "path")
    if "tail" in arguments:
        return [f"tail -n {arguments['tail']} {path}"]
    if "start" in arguments:
        start = int(arguments["start"])
        return [f"sed -n '{start},{start + int(arguments['lines']) - 1}p' {path}"]
    return [f"head -n {PAGE_LINES} {path}", f"sed -n '1,{PAGE_LINES}p' {path}"]


def _search(arguments: Arguments) -> list[str]:
    flags = "-Hn" + ("i" if arguments.get("ignore_case") else "") + ("" if arguments.get("regex") else "F")
    pattern, path = quote(arguments, "pattern"), quote(arguments, "path")
    if arguments.get("recursive"):
        return [f"{_EVERYTHING}; grep {flags}s -d skip -e {pattern} {path}/**"]
    return [f"grep {flags} -e {pattern} {path}"]


def _find_files(arguments: Arguments) -> list[str]:
    test = "-iname" if arguments.get("ignore_case") else "-name"
    return [f"set -o pipefail; find . {test} {quote(arguments, 'name')} | sort"]


def _run(arguments: Arguments) -> list[str]:
    where = f"cd {quote(arguments, 'cwd')} && " if "cwd" in arguments else ""
    return [f"{where}{arguments['command']}"]


def _write_file(arguments: Arguments) -> list[str]:
    arrow = ">>" if arguments.get("append") else ">"
    target = f"{arrow} {quote(arguments, 'path')}"
    return [f"{_make_parent(arguments, 'path')}printf '%s' {quote(arguments, 'content')} {target}"]


def _move_file(arguments: Arguments) -> list[str]:
    return [f"{_make_parent(arguments, 'to')}mv {quote(arguments, 'path')} {quote(arguments, 'to')}"]


def _checksum(arguments: Arguments) -> list[str]:
    return [f"sha256sum {quote(arguments, 'path')}"]


def _make_parent(arguments: Arguments, name: str) -> str:
    parent, slash, _ = str(arguments[name]).rpartition("/")
    return f"mkdir -p {shlex.quote(parent)} && " if slash and parent else ""


_TOOLS = {
    "list_dir": _list_dir,
    "read_file": _read_file,
    "search": _search,
    "find_files": _find_files,
    "run": _run,
    "write_file": _write_file,
    "move_file": _move_file,
    "checksum": _checksum,
}
