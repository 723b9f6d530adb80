# SPDX-License-Identifier: Apache-2.0
"""The local sandbox: a Harbor environment made of this machine's namespaces, without a daemon.

What needs Harbor is loaded when it is asked for, so that :func:`check_sandbox` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metric_benchmark.execution.sandbox.checking import check_sandbox, clean_leftovers, running_sandboxes

if TYPE_CHECKING:
    from metric_benchmark.execution.sandbox.environment import LocalSandboxEnvironment
    from metric_benchmark.execution.sandbox.options import SandboxOptions
    from metric_benchmark.execution.sandbox.tasks import check_task

__all__ = [
    "LocalSandboxEnvironment",
    "SandboxOptions",
    "check_sandbox",
    "check_task",
    "clean_leftovers",
    "running_sandboxes",
]

_LAZY = {"LocalSandboxEnvironment": "environment", "SandboxOptions": "options", "check_task": "tasks"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
