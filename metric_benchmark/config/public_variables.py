# SPDX-License-Identifier: Apache-2.0
"""Refuses to call a variable public that stands where a secret does."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from metric_benchmark.config.fields import REFERENCE_OR_DEFAULT, looks_secret
from metric_benchmark.config.yaml_source import YamlSource
from metric_benchmark.errors import Problem

#: `scheme://user:password@`; either may hold references, and those a colon of their own.
_URL_PASSWORD = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:\$\{[^}]*\}|\$(?!\{)|[^\s/:@$])*:(?P<password>(?:\$\{[^}]*\}|\$(?!\{)|[^\s/@$])+)@",
    re.IGNORECASE,
)


def public_variable_problems(
    source: YamlSource, names: Iterable[str], used_in: Iterable[tuple[str, Any]]
) -> list[Problem]:
    """Returns what is wrong with `public_variables`: values of these are not searched in the evidence.

    Args:
        source: the execution file.
        names: the variables it calls public.
        used_in: name and content of all files that may refer to them.
    """
    names = list(names)
    if not names:
        return []
    secret: dict[str, str] = {}
    for file, value in used_in:
        for name, how in _secret_uses(value):
            secret.setdefault(name, f"{file} gives it as {how}")
    problems: list[Problem] = []
    for index, name in enumerate(names):
        why = "its name looks like that of a secret" if looks_secret(name) else None
        why = secret.get(name, why)
        if why is not None:
            problems.append(source.problem(("public_variables", index), f"{name!r} cannot be public: {why}"))
    return problems


def task_settings(folder: Path) -> Mapping[str, Any]:
    """Returns what a task's `task.toml` says; nothing where it cannot be read: Harbor says why."""
    try:
        return tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _secret_uses(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields variables referred to where a secret stands, and as what."""
    if isinstance(value, dict):
        for name, child in value.items():  # pyright: ignore[reportUnknownVariableType]
            name = str(name)  # pyright: ignore[reportUnknownArgumentType]
            yield from _secret_uses(child, name if looks_secret(name, child) else key)
    elif isinstance(value, list):
        for child in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _secret_uses(child, key)
    elif isinstance(value, str):
        if key:
            how = f"{key!r}, which looks like the key of a secret"
            yield from ((name, how) for name in REFERENCE_OR_DEFAULT.findall(value))
        for url in _URL_PASSWORD.finditer(value):
            yield from ((name, "the password in a URL") for name in REFERENCE_OR_DEFAULT.findall(url["password"]))
