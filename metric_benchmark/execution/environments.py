# SPDX-License-Identifier: Apache-2.0
"""Where trials run: turns the `environment` setting into what Harbor is given and what a trial key holds."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.config.models import EnvironmentSpec
from metric_benchmark.errors import ConfigError
from metric_benchmark.keys import SANDBOX_PROTOCOL, import_path_digest

SANDBOX = "metric_benchmark.execution.sandbox:LocalSandboxEnvironment"
#: Containers start a real init and get one second to stop: Harbor's PID 1 ignores SIGTERM, which costs 10 s a trial.
DOCKER_OVERLAY = Path(__file__).parent / "docker-overlay.yaml"


@dataclass(frozen=True)
class Environment:
    """A resolved environment.

    Attributes:
        kind: `local`, `docker`, another Harbor type, or an import path.
        harbor: fields of Harbor's `EnvironmentConfig`.
        identity: what of it is part of a trial key and of the records; no path of this machine.
    """

    kind: str
    harbor: Mapping[str, Any]
    identity: Mapping[str, Any]


def resolve_environment(spec: EnvironmentSpec) -> Environment:
    """Resolves the setting; `auto` is the local sandbox where it works, else Docker.

    Raises:
        ConfigError: the type is not one Harbor has, or the import path is not installed.
    """
    extra: dict[str, Any] = {"kwargs": dict(spec.kwargs), "env": dict(spec.env)}
    if spec.import_path is not None:
        identity = {"import_path": spec.import_path, "code": import_path_digest(spec.import_path), **extra}
        return Environment(spec.import_path, {"import_path": spec.import_path, **extra}, identity)
    kind = spec.type or "auto"
    if kind == "auto":
        kind = "docker" if sandbox_problems() else "local"
    if kind == "local":
        return Environment(
            "local",
            {"import_path": SANDBOX, **extra},
            {"type": "local", "protocol": SANDBOX_PROTOCOL, **extra},
        )
    from harbor.models.environment_type import EnvironmentType

    known = [item.value for item in EnvironmentType]
    if kind not in known:
        near = difflib.get_close_matches(kind, ["auto", "local", *known], n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"expected auto, local, {', '.join(known)}, or an `import_path`"
        )
        raise ConfigError(f"environment {kind!r} is unknown; {hint}")
    harbor: dict[str, Any] = {"type": kind, **extra}
    if kind == "docker":
        harbor["extra_docker_compose"] = [str(DOCKER_OVERLAY)]
    return Environment(kind, harbor, {"type": kind, **extra})


@functools.cache
def sandbox_problems() -> tuple[str, ...]:
    """Returns why the local sandbox cannot work on this machine; empty when it can."""
    from metric_benchmark.execution.sandbox import check_sandbox

    return tuple(check_sandbox())
