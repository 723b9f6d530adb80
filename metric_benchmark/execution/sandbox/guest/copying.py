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
from dataclasses import dataclass, field
from typing import Any

from .command import find_account

_MAX_DEPTH = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SOURCE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
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
    owner: tuple[int, int] | None = None
    mode: int | None = None
    skipped: list[str] = field(default_factory=list[str])

    def spend(self, size: int, name: str) -> None:
        self.bytes_left -= size
        self.entries_left -= 1
        if self.bytes_left < 0 or self.entries_left < 0:
            raise CopyError("failed", f"{name}: too much to copy (the limit protects the host's disk)")

    def skip(self, name: str, reason: str) -> None:
        if len(self.skipped) < 20:
            self.skipped.append(f"{name} ({reason})")


def run_copy(request: dict[str, Any], fd: int) -> dict[str, Any]:
    """Do ``put_file``, ``put_dir``, ``get_file`` or ``get_dir``; ``fd`` is the host's file or folder.

    Returns:
        The reply to the host: what was left out, and why.
    """
    copy = _Copy(
        outward=request["op"].startswith("get"),
        bytes_left=request["max_bytes"],
        entries_left=request["max_entries"],
        mode=int(request["chmod"], 8) if request.get("chmod") else None,
    )
    if request.get("chown"):
        account = find_account(request["chown"])
        copy.owner = (account.uid, account.gid)
    path = request["path"]
    match request["op"]:
        case "put_file":
            _put_file(copy, fd, path, request["name"])
        case "put_dir":
            os.makedirs(path, exist_ok=True)
            target = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            _copy_tree(copy, fd, target, 0, path)
        case "get_file":
            source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise CopyError("failed", f"{path}: not a regular file")
            _copy_file(copy, source, fd, os.fsencode(request["name"]), path)
        case "get_dir":
            source = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            _copy_tree(copy, source, fd, 0, path)
        case other:
            raise CopyError("failed", f"unknown operation {other}")
    return {"done": True, "skipped": copy.skipped}


def _put_file(copy: _Copy, source: int, path: str, name: str) -> None:
    if path.endswith("/") or os.path.isdir(path):
        path = os.path.join(path, name)
    folder = os.path.dirname(path) or "/"
    os.makedirs(folder, exist_ok=True)
    target = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    _copy_file(copy, source, target, os.fsencode(os.path.basename(path)), path)


def _copy_tree(copy: _Copy, source: int, target: int, depth: int, label: str) -> None:
    if depth > _MAX_DEPTH:
        raise CopyError("failed", f"{label}: folders nested deeper than {_MAX_DEPTH}")
    for text in sorted(os.listdir(source)):
        name = os.fsencode(text)
        where = f"{label.rstrip('/')}/{text}"
        mode = os.lstat(name, dir_fd=source).st_mode
        if stat.S_ISREG(mode):
            file = os.open(name, _SOURCE, dir_fd=source)
            try:
                _copy_file(copy, file, target, name, where)
            finally:
                os.close(file)
        elif stat.S_ISDIR(mode):
            _copy_folder(copy, source, target, name, depth, where)
        elif stat.S_ISLNK(mode):
            _copy_link(copy, source, target, name, depth, where)
        else:
            copy.skip(where, "not a file, folder or link")


def _copy_folder(copy: _Copy, source: int, target: int, name: bytes, depth: int, where: str) -> None:
    copy.spend(0, where)
    inner = os.open(name, _FOLDER, dir_fd=source)
    try:
        _clear(target, name, keep_folder=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=target)
        outer = os.open(name, _FOLDER, dir_fd=target)
        try:
            _copy_tree(copy, inner, outer, depth + 1, where)
            mode = stat.S_IMODE(os.fstat(inner).st_mode)
            _finish(copy, outer, (mode & 0o777) | 0o700 if copy.outward else mode)
        finally:
            os.close(outer)
    finally:
        os.close(inner)


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
