# SPDX-License-Identifier: Apache-2.0
"""Examines this machine: what trials need, what works, and what to do about what does not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metric_benchmark.errors import StorageError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.execution.docker_leftovers import Removed, remove_of_dead_owners
from metric_benchmark.execution.sandbox import check_sandbox, clean_leftovers, running_sandboxes

type State = Literal["works", "absent", "broken"]

SANDBOX, DOCKER = "local sandbox", "Docker engine"
_ANSWER_S = 10.0
#: Variables that model providers' clients read their credentials from.
_CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "AZURE_API_KEY",
    "OPENROUTER_API_KEY",
    "DAYTONA_API_KEY",
    "E2B_API_KEY",
    "MODAL_TOKEN_ID",
    "RUNLOOP_API_KEY",
)


@dataclass(frozen=True)
class Finding:
    """What was found of one thing; `remedy` is empty where there is nothing to do."""

    name: str
    state: State
    found: str
    remedy: str = ""


def examine() -> tuple[Finding, ...]:
    """Examines everything; takes some seconds where a Docker engine does not answer."""
    return (_python(), _harbor(), _sandbox(), *_docker(), *_dagster(), _locks(), _credentials())


def can_run_trials(findings: Iterable[Finding]) -> bool:
    """Whether at least one environment for trials works."""
    return any(finding.state == "works" for finding in findings if finding.name in (SANDBOX, DOCKER))


@dataclass(frozen=True)
class Cleaned:
    """What dead runs had left and is gone now: processes by number, the rest by Docker's names."""

    sandboxes: tuple[int, ...]
    docker: Removed


def remove_leftovers() -> Cleaned:
    """Ends sandboxes and removes containers, networks and volumes whose owner is gone."""
    return Cleaned(tuple(clean_leftovers()), remove_of_dead_owners())


def _python() -> Finding:
    return Finding("Python", "works", f"{platform.python_version()} on {platform.system()} {platform.release()}")


def _harbor() -> Finding:
    version = _version("harbor")
    if version is None:
        return Finding("Harbor", "broken", "not installed", "install metric-benchmark with its dependencies")
    return Finding("Harbor", "works", version)


def _sandbox() -> Finding:
    problems = check_sandbox()
    if problems:
        remedy = "use `environment: docker`, or allow user namespaces"
        return Finding(SANDBOX, "absent", "; ".join(problems), remedy)
    count = len(running_sandboxes())
    user = "root" if os.geteuid() == 0 else "an ordinary user: tasks know no user but root"
    return Finding(SANDBOX, "works", f"namespaces work for {user}" + (f"; {count} running" if count else ""))


def _docker() -> tuple[Finding, Finding]:
    if shutil.which("docker") is None:
        remedy = "only needed for `environment: docker`"
        return (
            Finding(DOCKER, "absent", "no `docker` command", remedy),
            Finding("Docker Compose", "absent", "no `docker` command", remedy),
        )
    status, text = _ask("docker", "version", "--format", "{{.Server.Version}}")
    if status == 0:
        engine = Finding(DOCKER, "works", text)
    else:
        remedy = "start the Docker engine, or check that this user may use it"
        engine = Finding(DOCKER, "broken", text or "does not answer", remedy)
    status, text = _ask("docker", "compose", "version", "--short")
    if status == 0:
        return engine, Finding("Docker Compose", "works", text)
    return engine, Finding("Docker Compose", "broken", text or "not there", "install the Docker Compose plugin (v2)")


def _dagster() -> tuple[Finding, ...]:
    core, server = _version("dagster"), _version("dagster-webserver")
    if core is None:
        return (Finding("Dagster", "absent", "not installed", "only needed for the Dagster side; see the README"),)
    if core != server:
        remedy = "install versions of one release"
        return (Finding("Dagster", "broken", f"dagster {core}, but dagster-webserver {server or 'missing'}", remedy),)
    return (Finding("Dagster", "works", core),)


def _locks() -> Finding:
    """Locks are tried in the current folder, since that is where output usually goes."""
    here = Path.cwd()
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".mb-doctor-", dir=here) as scratch,
            lock_root(EvidenceRoot(Path(scratch)), "exclusive"),
        ):
            free_gb = shutil.disk_usage(here).free / 1e9
            return Finding("file locks", "works", f"in {here}, {free_gb:.1f} GB free")
    except (OSError, StorageError) as error:
        remedy = "put evidence on a local disk this user may write to"
        return Finding("file locks", "broken", " ".join(str(error).split()), remedy)


def _credentials() -> Finding:
    names = [name for name in _CREDENTIALS if os.environ.get(name)]
    if names:
        return Finding("credentials", "works", f"set: {', '.join(names)}")
    return Finding("credentials", "absent", "none set", "only needed for agents or metrics that call a model")


def _ask(*command: str) -> tuple[int, str]:
    """Runs a command and returns its status and its first line."""
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_ANSWER_S
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {_ANSWER_S:.0f} s"
    except OSError as error:
        return 1, str(error)
    return answer.returncode, _first_line([*answer.stdout.splitlines(), *answer.stderr.splitlines()])


def _first_line(lines: Sequence[str]) -> str:
    return next((line.strip() for line in lines if line.strip()), "")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
