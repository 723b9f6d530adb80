# SPDX-License-Identifier: Apache-2.0
# No pathlib in here: it would double the time the interpreter takes to start.
# ruff: noqa: PTH103, PTH112, PTH118, PTH119, PTH120
"""Copies files between the host and a sandbox, in a process that has the sandbox's root and one host descriptor.

Paths given by the host are resolved inside the sandbox. On the host's side every name is opened relative to a
descriptor and never through a symbolic link, so nothing a sandbox holds can lead a copy elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from .command import find_account

_MAX_DEPTH = 100
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW
_TARGET = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CopyError(Exception):
    """A copy that was refused or could not be done; ``kind`` tells the host which exception to raise."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class _Copy:
    """What one copy may still take, and what it left out.

    Attributes:
        outward: towards the host: no special modes, no links that leave the tree.
    """

    outward: bool
    bytes_left: int
    entries_left: int
    is_withdrawn: Callable[[], bool]
    owner: tuple[int, int] | None = None
    mode: int | None = None
    skipped: list[str] = field(default_factory=list[str])

    def spend(self, size: int, name: str) -> None:
        self.check()
        self.bytes_left -= size
        self.entries_left -= 1
        if self.bytes_left < 0 or self.entries_left < 0:
            raise CopyError("failed", f"{name}: too much to copy (the limit protects the host's disk)")

    def check(self) -> None:
        if self.is_withdrawn():
            raise CopyError("failed", "withdrawn")

    def skip(self, name: str, reason: str) -> None:
        if len(self.skipped) < 20:
            self.skipped.append(f"{name} ({reason})")


def run_copy(request: dict[str, Any], fd: int, is_withdrawn: Callable[[], bool]) -> dict[str, Any]:
    """Do ``put_file``, ``put_dir``, ``get_file`` or ``get_dir``; ``fd`` is the host's file or folder.

    Returns:
        The reply to the host: what was left out, and why.

    Raises:
        CopyError: the copy is refused or withdrawn.
        OSError: it cannot be done.
    """
    copy = _Copy(
        outward=request["op"].startswith("get"),
        bytes_left=request["max_bytes"],
        entries_left=request["max_entries"],
        is_withdrawn=is_withdrawn,
        mode=int(request["chmod"], 8) if request.get("chmod") else None,
    )
    if request.get("chown"):
        account = find_account(request["chown"])
        copy.owner = (account.uid, account.gid)
    path, name = request["path"], os.fsencode(request["name"])
    match request["op"]:
        case "put_file":
            _put_file(copy, fd, path, request["name"])
        case "put_dir":
            os.makedirs(path, exist_ok=True)
            with _opened(path, os.O_DIRECTORY) as target:
                _copy_tree(copy, fd, target, 0, path)
        case "get_file":
            with _opened(path, os.O_NONBLOCK) as source:
                if not stat.S_ISREG(os.fstat(source).st_mode):
                    raise CopyError("failed", f"{path}: not a regular file")
                _copy_file(copy, source, fd, name, path)
        case _:
            with _opened(path, os.O_DIRECTORY) as source:
                _copy_tree(copy, source, fd, 0, path)
    return {"done": True, "skipped": copy.skipped}


@contextlib.contextmanager
def _opened(path: bytes | str, flags: int, folder: int | None = None) -> Generator[int]:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _put_file(copy: _Copy, source: int, path: str, name: str) -> None:
    if path.endswith("/") or os.path.isdir(path):
        path = os.path.join(path, name)
    folder = os.path.dirname(path) or "/"
    os.makedirs(folder, exist_ok=True)
    with _opened(folder, os.O_DIRECTORY) as target:
        _copy_file(copy, source, target, os.fsencode(os.path.basename(path)), path)


def _copy_tree(copy: _Copy, source: int, target: int, depth: int, label: str) -> None:
    if depth > _MAX_DEPTH:
        raise CopyError("failed", f"{label}: folders nested deeper than {_MAX_DEPTH}")
    for text in sorted(os.listdir(source)):
        name = os.fsencode(text)
        where = f"{label.rstrip('/')}/{text}"
        mode = os.lstat(name, dir_fd=source).st_mode
        if stat.S_ISREG(mode):
            with _opened(name, os.O_NOFOLLOW | os.O_NONBLOCK, source) as file:
                _copy_file(copy, file, target, name, where)
        elif stat.S_ISDIR(mode):
            _copy_folder(copy, source, target, name, depth, where)
        elif stat.S_ISLNK(mode):
            _copy_link(copy, source, target, name, depth, where)
        else:
            copy.skip(where, "not a file, folder or link")


def _copy_folder(copy: _Copy, source: int, target: int, name: bytes, depth: int, where: str) -> None:
    copy.spend(0, where)
    with _opened(name, _FOLDER, source) as inner:
        _clear(target, name, keep_folder=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=target)
        with _opened(name, _FOLDER, target) as outer:
            _copy_tree(copy, inner, outer, depth + 1, where)
            mode = stat.S_IMODE(os.fstat(inner).st_mode)
            _finish(copy, outer, (mode & 0o777) | 0o700 if copy.outward else mode)


def _copy_file(copy: _Copy, source: int, target: int, name: bytes, where: str) -> None:
    facts = os.fstat(source)
    if not stat.S_ISREG(facts.st_mode):
        copy.skip(where, "not a file any more")
        return
    copy.spend(facts.st_size, where)
    _clear(target, name, keep_folder=False)
    file = os.open(name, _TARGET, 0o600, dir_fd=target)
    try:
        left = facts.st_size
        while left > 0 and (sent := os.sendfile(file, source, None, min(left, 1 << 24))):
            left -= sent
            copy.check()
        mode = stat.S_IMODE(facts.st_mode)
        _finish(copy, file, (mode & 0o777) | 0o600 if copy.outward else mode)
    finally:
        os.close(file)


def _copy_link(copy: _Copy, source: int, target: int, name: bytes, depth: int, where: str) -> None:
    copy.spend(0, where)
    link = os.readlink(name, dir_fd=source)
    if copy.outward and not stays_inside(link, depth):
        copy.skip(where, "a link that leaves the folder")
        return
    _clear(target, name, keep_folder=False)
    os.symlink(link, name, dir_fd=target)
    if copy.owner is not None:
        os.chown(name, *copy.owner, dir_fd=target, follow_symlinks=False)


def stays_inside(link: bytes, depth: int) -> bool:
    """Whether following ``link`` from ``depth`` folders below the top cannot leave the tree.

    Only leading ``..`` are allowed, at most ``depth`` of them: a later ``..`` could step up from wherever another link
    of the tree led to.
    """
    if link.startswith(b"/"):
        return False
    parts = [part for part in link.split(b"/") if part not in (b"", b".")]
    ups = 0
    while ups < len(parts) and parts[ups] == b"..":
        ups += 1
    return ups <= depth and b".." not in parts[ups:]


def _clear(folder: int, name: bytes, *, keep_folder: bool) -> None:
    """Remove what is in the way of an entry of another kind."""
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        if not keep_folder:
            raise CopyError("failed", f"{os.fsdecode(name)}: a folder is in the way of a file")
    else:
        os.unlink(name, dir_fd=folder)


def _finish(copy: _Copy, file: int, mode: int) -> None:
    if copy.owner is not None:
        os.fchown(file, *copy.owner)
    os.fchmod(file, mode if copy.mode is None else copy.mode)
