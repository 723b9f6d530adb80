# SPDX-License-Identifier: Apache-2.0
"""Digests: canonical JSON, files, folders, and the code of a part of this package."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from metric_benchmark.errors import PinError

_IGNORED_DIRS = frozenset({"__pycache__"})
_FIRST_READ, _NEXT_READS = 1 << 16, 1 << 20
#: One for all: `json.dumps` makes one for every call.
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def canonical_json(value: Any) -> bytes:
    """Encodes a JSON value in the one form we digest and write: sorted keys, UTF-8, no NaN.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    return _ENCODER.encode(value).encode()


def is_utf8(text: str) -> bool:
    """Whether UTF-8, and so canonical JSON, can hold a text: halves of surrogate pairs it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def digest_bytes(data: bytes) -> str:
    """Returns the SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """Returns the SHA-256 of the canonical JSON of `value`."""
    return digest_bytes(canonical_json(value))


def digest_file(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes.

    Raises:
        OSError: the file cannot be read.
    """
    # Most files of the evidence are a few kB: one read, and no buffer to set up, makes them five times faster.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(handle, _FIRST_READ)
        digest = hashlib.sha256(data)
        while data:
            data = os.read(handle, _NEXT_READS)
            digest.update(data)
    finally:
        os.close(handle)
    return digest.hexdigest()


def walk_files(folder: Path) -> Iterator[Path]:
    """Yields the files below `folder` in the order of their POSIX paths; compiled Python is left out.

    Raises:
        PinError: a folder cannot be listed; left out, what it holds could change without notice.
    """
    found: list[Path] = []
    for parent, dirs, files in os.walk(folder, onerror=_refuse):
        dirs[:] = sorted(d for d in dirs if d not in _IGNORED_DIRS)
        here = Path(parent)
        found += [here / d for d in dirs if (here / d).is_symlink()]
        found += [here / f for f in files if not f.endswith(".pyc")]
    yield from sorted(found, key=lambda p: p.relative_to(folder).as_posix())


def _refuse(error: OSError) -> NoReturn:
    raise PinError(f"{error.filename}: cannot be read: {error.strerror}") from error


def digest_folder(folder: Path) -> str:
    """Returns one SHA-256 over all files below `folder`: paths, owner-execute bits and contents.

    Symbolic links count by their target text, which must stay inside the folder.

    Raises:
        PinError: something in the folder cannot be read, has a name that is not UTF-8, is a link that leaves the folder
            or leads to itself, or is neither a file, a folder nor a link.
    """
    root = folder.resolve()
    try:
        return digest_json([_line(path, folder, root) for path in walk_files(folder)])
    except OSError as error:
        _refuse(error)


def _line(path: Path, folder: Path, root: Path) -> list[str]:
    name = path.relative_to(folder).as_posix()
    if not is_utf8(name):
        raise PinError(f"{os.fsencode(path)!r}: its name is not UTF-8; rename it")
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode):
        return [name, "x" if mode & stat.S_IXUSR else "-", digest_file(path)]
    if not stat.S_ISLNK(mode):
        raise PinError(f"{path}: neither a file, a folder nor a link; remove it from the pinned folder")
    try:
        target = str(path.readlink())
        target.encode()
        # Python 3.13 resolves a link that leads to itself as if nothing were wrong.
        if _is_loop(path):
            raise RuntimeError
        is_inside = path.resolve().is_relative_to(root)
    except (RuntimeError, OSError, UnicodeEncodeError):
        raise PinError(f"{path}: a symbolic link that leads nowhere; remove it from the pinned folder") from None
    if not is_inside:
        raise PinError(f"{path}: a symbolic link that leaves the pinned folder; copy the file instead")
    return [name, "link", target]


def _is_loop(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def digest_path(path: Path) -> str:
    """Returns the digest of a file or of a folder, whichever `path` is.

    Raises:
        PinError: it cannot be read.
    """
    try:
        return digest_folder(path) if path.is_dir() else digest_file(path)
    except OSError as error:
        _refuse(error)


@functools.cache
def implementation_digest(*parts: str) -> str:
    """Returns one SHA-256 over the source of parts of this package, e.g. `("scoring",)` or `("hashing.py",)`."""
    root = Path(__file__).parent
    return digest_json([[part, digest_path(root / part)] for part in parts])
