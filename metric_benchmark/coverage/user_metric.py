# SPDX-License-Identifier: Apache-2.0
"""The parent's side of a user's metric: finds its code without running it, and runs it in a child process."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.answer_json import answer_from_json
from metric_benchmark.coverage.launch import Finished, launch, minimal_environment
from metric_benchmark.coverage.protocol import Answer, LaunchContext, MetricRequest
from metric_benchmark.coverage.workspace import check_names, fill_workspace
from metric_benchmark.errors import ConfigError, MetricError, Problem
from metric_benchmark.hashing import digest_path

#: A metric that takes longer should be a command, which has a timeout of its own choice.
_MEASURE_TIMEOUT_S = 3600.0
_DESCRIBE_TIMEOUT_S = 120.0
_MAX_REPLY_BYTES = 256 * 1024 * 1024
_CODE = "code"


@dataclass(frozen=True)
class UserCode:
    """Where the code of a user's metric is.

    Args:
        target: `module:Class`.
        origin: its file, or the folder of its top-level package.
        is_local: it lies beside the experiment and has to be brought along; else it is installed.
    """

    target: str
    origin: Path
    is_local: bool

    @property
    def sha256(self) -> str:
        """Digest of the code."""
        return digest_path(self.origin)


def find_code(place: str, target: str, base: Path | None) -> UserCode:
    """Finds the code of `module:Class` without importing it; `base` goes before what is installed.

    Raises:
        ConfigError: there is no such module.
    """
    top = target.partition(":")[0].partition(".")[0]
    if not top.isidentifier():
        raise ConfigError(Problem(place, f"{target!r} is no import path; expected 'package.module:Class'"))
    if base is not None:
        for local in (base / f"{top}.py", base / top):
            if local.is_file() or (local / "__init__.py").is_file():
                return UserCode(target, local, is_local=True)
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin not in (None, "built-in", "frozen", "namespace"):
        origin = Path(str(spec.origin))
        return UserCode(target, origin.parent if spec.submodule_search_locations else origin, is_local=False)
    beside = f"beside {base} or among" if base else "among"
    raise ConfigError(
        Problem(place, f"module {top} cannot be imported: it is not {beside} what is installed; install it")
    )


@dataclass(frozen=True)
class Description:
    """What a user's metric says of itself."""

    settings: dict[str, Any]
    label: str | None
    needs_traces: bool
    needs_network: bool
    files: dict[str, str]


@dataclass(frozen=True)
class UserMetric:
    """A metric whose class is imported and run in a child process only."""

    name: str
    code: UserCode

    def describe(self, settings: Mapping[str, Any]) -> Description:
        """Validates settings and asks the class what it needs.

        Raises:
            ConfigError: the class cannot be loaded, is no metric, or refuses the settings.
        """
        with tempfile.TemporaryDirectory(prefix="mb-metric-") as name:
            reply = self._run(Path(name), {"action": "describe", "settings": dict(settings)}, _DESCRIBE_TIMEOUT_S)
        if "description" not in reply:
            raise ConfigError(self._problems(reply))
        found = Description(**reply["description"])
        check_names(self.name, {key: Path(path) for key, path in found.files.items()})
        return found

    def measure(self, request: MetricRequest) -> Answer:
        """Runs the class on a copy of its inputs.

        Raises:
            MetricError: it failed, hung or answered something else than an answer.
        """
        with tempfile.TemporaryDirectory(prefix="mb-metric-") as name:
            folder = Path(name)
            value = fill_workspace(folder, request, request.settings)
            order = {"action": "measure", "settings": request.settings, "request": value}
            reply = self._run(folder, order, _MEASURE_TIMEOUT_S, request.launch)
        if "answer" not in reply:
            raise MetricError(self._problems(reply, request.launch))
        return answer_from_json(self.name, reply["answer"])

    def _run(
        self, folder: Path, order: Mapping[str, Any], timeout_s: float, context: LaunchContext | None = None
    ) -> dict[str, Any]:
        code = None
        if self.code.is_local:
            code = folder / _CODE
            code.mkdir()
            copy = shutil.copytree if self.code.origin.is_dir() else shutil.copy
            copy(self.code.origin, code / self.code.origin.name)
        full = {**order, "name": self.name, "target": self.code.target, "code": str(code) if code else None}
        finished = launch(
            # -P keeps the folder off the import path: a trace must not shadow a module.
            [sys.executable, "-P", "-m", "metric_benchmark.coverage.child_main"],
            cwd=folder,
            stdin=json.dumps(full).encode(),
            environment=minimal_environment(folder),
            timeout_s=timeout_s,
            max_stdout_bytes=_MAX_REPLY_BYTES,
            hide=context.hide if context else (),
            network=context.network if context else False,
        )
        if context:
            context.keep_stderr(finished.stderr)
        try:
            reply = json.loads(finished.stdout) if finished.ended == "exit" else None
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            return {"failed": ended_badly(finished, timeout_s, _MAX_REPLY_BYTES)}
        return reply  # pyright: ignore[reportUnknownVariableType]

    def _problems(self, reply: Mapping[str, Any], context: LaunchContext | None = None) -> list[Problem]:
        if "refused" in reply:
            return [Problem(place, message) for place, message in reply["problems"]]
        hint = ""
        if self.code.is_local and str(reply["failed"]).startswith("ModuleNotFoundError"):
            hint = f" ({self.code.origin.name} is all that was brought along: make it a package to have several files)"
        at = f" at {reply['at']}" if reply.get("at") else ""
        kept = context.kept_stderr if context else None
        told = f"; for the traceback see {kept}" if at and kept is not None and kept.exists() else ""
        return [Problem(f"metric {self.name}", f"failed with {reply['failed']}{at}{hint}; expected an answer{told}")]


def ended_badly(finished: Finished, timeout_s: float, max_bytes: int) -> str:
    """Says how a program ended that gave no answer, with the end of what it wrote to stderr."""
    tail = finished.stderr[-2000:].decode(errors="replace").strip()
    said = f"; the end of its stderr:\n{tail}" if tail else "; it wrote nothing to stderr"
    match finished.ended:
        case "timeout":
            return f"no answer within {timeout_s:g} s and was killed{said}"
        case "too_much_output":
            return f"more than {max_bytes} bytes of answer and was killed{said}"
        case "exit" if finished.returncode < 0:
            return f"signal {-finished.returncode}{said}"
        case _:
            return f"exit status {finished.returncode}{said}"
