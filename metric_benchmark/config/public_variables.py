# SPDX-License-Identifier: Apache-2.0
"""Refuses to call a variable public that stands where a secret does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from metric_benchmark.config.fields import REFERENCE, looks_secret
from metric_benchmark.config.yaml_source import YamlSource
from metric_benchmark.errors import Problem


def public_variable_problems(source: YamlSource, names: Iterable[str], used_in: Iterable[YamlSource]) -> list[Problem]:
    """Returns what is wrong with `public_variables`: values of these are not searched in the evidence.

    Args:
        source: the execution file.
        names: the variables it calls public.
        used_in: all files that may refer to them.
    """
    names = list(names)
    if not names:
        return []
    secret = {name: key for file in used_in for name, key in _under_secret_keys(file.value)}
    problems: list[Problem] = []
    for index, name in enumerate(names):
        why = "its name looks like that of a secret" if looks_secret(name) else None
        if name in secret:
            why = f"it is given as {secret[name]!r}, which looks like the key of a secret"
        if why is not None:
            problems.append(source.problem(("public_variables", index), f"{name!r} cannot be public: {why}"))
    return problems


def _under_secret_keys(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields variables referred to below a key that looks secret, with that key."""
    if isinstance(value, dict):
        for name, child in value.items():  # pyright: ignore[reportUnknownVariableType]
            name = str(name)  # pyright: ignore[reportUnknownArgumentType]
            yield from _under_secret_keys(child, name if looks_secret(name, child) else key)
    elif isinstance(value, list):
        for child in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _under_secret_keys(child, key)
    elif isinstance(value, str) and key:
        yield from ((name, key) for name in REFERENCE.findall(value))
