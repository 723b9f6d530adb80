# SPDX-License-Identifier: Apache-2.0
"""The environment of a bundle with a runtime: its Python and locked packages, made once and kept in a cache.

An agent runs inside Harbor's process, so its environment is one in which Harbor and this package can be imported too.
Where its Python is ours, it is a layer: the locked packages come first, and all others are found where we found them.
Under another Python Harbor is installed anew, in the versions that are here.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.config.lock import locked_packages, normal_name
from metric_benchmark.errors import ConfigError, ExecutionError, PinError
from metric_benchmark.evidence.writes import storage_errors
from metric_benchmark.execution.interpreters import find_interpreter, missing_interpreter, version_of
from metric_benchmark.hashing import digest_bytes, digest_json
from metric_benchmark.keys import harbor_version

_MARKER = "complete.json"
_PROBE = Path(__file__).parent / "runtime_probe.py"
_BUILD_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Runtime:
    """What a bundle asks for.

    Attributes:
        python: its version, e.g. `3.12` or `3.12.4`.
        requirements: the lock: every package pinned by `==`, those its packages need as well.
        requirements_sha256: the lock's pin.
    """

    python: str
    requirements: Path
    requirements_sha256: str

    @property
    def identity(self) -> Mapping[str, str]:
        """What of it is part of a trial key."""
        return {"python": self.python, "requirements_sha256": self.requirements_sha256}


def ensure_runtime(runtime: Runtime) -> Path:
    """Returns the interpreter of a runtime, which is made first where the cache has none.

    Raises:
        ConfigError: there is no such Python here, or what is locked does not fit together or with Harbor.
        ExecutionError: the packages could not be installed.
        StorageError: the cache cannot be written.
    """
    interpreter = find_interpreter(runtime.python)
    if interpreter is None:
        raise ConfigError(missing_interpreter(runtime.python))
    folder = cache_folder() / "runtimes" / _digest(runtime, interpreter)[:32]
    python = folder / "bin" / "python"
    with _locked(folder):
        if not ((folder / _MARKER).is_file() and python.exists()):
            _build(runtime, interpreter, folder, python)
    return python


def made_runtime(runtime: Runtime) -> Path | None:
    """Returns the interpreter of a runtime that was made before; None where there is none yet."""
    interpreter = find_interpreter(runtime.python)
    if interpreter is None:
        return None
    folder = cache_folder() / "runtimes" / _digest(runtime, interpreter)[:32]
    python = folder / "bin" / "python"
    return python if (folder / _MARKER).is_file() and python.exists() else None


def cache_folder() -> Path:
    """Returns where environments are kept; they can be removed at any time."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "metric-benchmark"


def _is_layer(interpreter: Path) -> bool:
    """Whether packages of ours work under this interpreter."""
    return version_of(interpreter)[:2] == sys.version_info[:2]


def _package_folders() -> list[str]:
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return [folder for folder in folders if Path(folder).is_dir()]


def _source_folder() -> str:
    return str(Path(__file__).resolve().parents[2])


def _digest(runtime: Runtime, interpreter: Path) -> str:
    """Digests what the environment depends on, so that one made for another machine state is never used."""
    return digest_json(
        {
            **runtime.identity,
            "interpreter": str(interpreter),
            "version": list(version_of(interpreter)),
            "harbor": harbor_version(),
            "packages": _package_folders() if _is_layer(interpreter) else [],
            "source": _source_folder(),
        }
    )


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Two runs that need one environment make it once."""
    path = folder.with_name(f"{folder.name}.lock")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _build(runtime: Runtime, interpreter: Path, folder: Path, python: Path) -> None:
    lock = runtime.requirements.read_bytes()
    if digest_bytes(lock) != runtime.requirements_sha256:
        raise PinError(f"{runtime.requirements}: has changed since it was pinned; restore it, or sign and run again")
    packages = locked_packages(lock.decode("utf-8"))
    with storage_errors(folder):
        if folder.exists():
            shutil.rmtree(folder)
    is_layer = _is_layer(interpreter)
    has_pip = importlib.util.find_spec("pip") is not None
    make = [str(interpreter), "-m", "venv", *(["--without-pip"] if has_pip else []), str(folder)]
    _run(make, f"the environment for {runtime.requirements} could not be made")
    pip = [sys.executable, "-m", "pip", "--python", str(python)] if has_pip else [str(python), "-m", "pip"]
    install = [*pip, "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
    if not is_layer:
        ours = folder / "ours.txt"
        with storage_errors(ours):
            ours.write_text(_own_versions(), encoding="utf-8")
        _run(
            # Compiling all of it ahead takes longer than the rest; a run compiles what it imports.
            [*install, "--no-compile", "--constraint", str(ours), *_own_requirements()],
            f"Harbor could not be installed for Python {runtime.python}",
        )
    if packages:
        # A lock is complete, so nothing is resolved: what runs is what was pinned and nothing else.
        _run(
            [*install, "--no-deps", "--requirement", str(runtime.requirements)],
            f"the packages of {runtime.requirements} could not be installed",
        )
    _find_the_rest(python, is_layer=is_layer)
    _probe(runtime, python, packages)
    with storage_errors(folder):
        (folder / _MARKER).write_text(json.dumps(dict(runtime.identity)), encoding="utf-8")


def _own_requirements() -> list[str]:
    """Returns what a process of ours needs to run Harbor jobs; not what the command line or Dagster need."""
    wanted = ("dockerfile-parse", "pydantic", "pyyaml")
    versions = [f"{name}=={importlib.metadata.version(name)}" for name in wanted]
    return [f"harbor=={harbor_version()}", *versions]


def _own_versions() -> str:
    """Returns the versions of all packages here: Harbor works with the same ones under every Python.

    A package that is there twice is the one first on the path: that one is imported.
    """
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        # What is left of a package that was removed halfway has no name.
        if distribution.name:
            found.setdefault(normal_name(distribution.name), distribution.version)
    return "".join(f"{name}=={version}\n" for name, version in sorted(found.items()))


def _find_the_rest(python: Path, *, is_layer: bool) -> None:
    """Has the environment find this package, and in a layer all other packages of ours, behind its own."""
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    with storage_errors(packages):
        if not is_layer:
            # This package alone: what else is in its folder may be made for another Python.
            (packages / "metric_benchmark").symlink_to(Path(_source_folder()) / "metric_benchmark")
            return
        # `addsitedir` and not the bare path, so that what is installed there in editable form is found as well.
        folders = dict.fromkeys([*_package_folders(), _source_folder()])
        lines = [f"import site; site.addsitedir({folder!r})\n" for folder in folders]
        (packages / "zz-metric-benchmark.pth").write_text("".join(lines), encoding="utf-8")


def _probe(runtime: Runtime, python: Path, packages: Mapping[str, str]) -> None:
    """Proves that the environment holds what was locked, and that Harbor still works in it."""
    request = json.dumps({"packages": dict(packages), "harbor_version": harbor_version(), "source": _source_folder()})
    done = subprocess.run(
        [str(python), "-P", str(_PROBE)],
        input=request,
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_TIMEOUT_S,
    )
    try:
        problems: Any = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        problems = [f"the environment does not work: {_tail(done.stderr)}"]
    if problems:
        raise ConfigError([f"{runtime.requirements}: {problem}" for problem in problems])


def _run(command: list[str], what: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=_BUILD_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise ExecutionError(f"{what} within {_BUILD_TIMEOUT_S:.0f} s; run again") from None
    if done.returncode != 0:
        raise ExecutionError(
            f"{what}; correct the lock, or run again when the package index answers:\n{_tail(done.stderr)}"
        )


def _tail(text: str, size: int = 1500) -> str:
    return text.strip()[-size:] or "it said nothing"
