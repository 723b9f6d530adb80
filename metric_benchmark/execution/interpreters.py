# SPDX-License-Identifier: Apache-2.0
"""Finds a Python of a wanted version on this machine: the one that runs now, on PATH, or one pyenv or uv installed."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_ASK = "import sys, venv; print(*sys.version_info[:3])"
_ASK_TIMEOUT_S = 30.0


def find_interpreter(version: str) -> Path | None:
    """Returns a Python of this version that works, or None where there is none.

    Args:
        version: e.g. `3.12` or `3.12.4`.
    """
    if _is_version(version, sys.version_info[:3]):
        return Path(sys.executable)
    return next((python for python in _candidates(version) if _is_version(version, version_of(python))), None)


def missing_interpreter(version: str) -> str:
    """Says that there is none, and what to do."""
    running = ".".join(map(str, sys.version_info[:3]))
    return (
        f"runtime: there is no Python {version} here: this one is {running}, and neither PATH (as "
        f"`python{_minor(version)}`) nor pyenv nor uv has one that works; install it, or ask for another version"
    )


@functools.cache
def version_of(python: Path) -> tuple[int, ...]:
    """Returns the version of an interpreter that can make environments; nothing where it does not work.

    Being there is not enough: pyenv's `python3.13` on PATH answers with an error unless that version was chosen.
    """
    if python == Path(sys.executable):
        return sys.version_info[:3]
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _ASK], capture_output=True, text=True, check=False, timeout=_ASK_TIMEOUT_S
        )
        return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else ()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _is_version(wanted: str, found: Sequence[int]) -> bool:
    parts = [int(part) for part in wanted.split(".")]
    return list(found[: len(parts)]) == parts


def _candidates(version: str) -> Iterator[Path]:
    minor = _minor(version)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield Path(folder or os.curdir).absolute() / f"python{minor}"
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    for folder in (*pyenv.glob(f"{minor}*"), *uv.glob(f"cpython-{minor}*")):
        yield folder / "bin" / f"python{minor}"
