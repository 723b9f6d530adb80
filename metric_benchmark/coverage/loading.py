# SPDX-License-Identifier: Apache-2.0
"""Imports a metric's class and validates its settings; in a child process where the class is not ours."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ValidationError

from metric_benchmark.coverage.protocol import Settings
from metric_benchmark.errors import ConfigError, Problem


def load_class(place: str, path: str) -> type[Any]:
    """Imports `module:Class`.

    Raises:
        ConfigError: it cannot be imported, or is no metric.
    """
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module does while it is imported is their message
        raise ConfigError(
            Problem(place, f"module {module_name} cannot be imported: {type(error).__name__}: {error}")
        ) from error
    if not hasattr(module, attribute):
        raise ConfigError(Problem(place, _missing(module, attribute)))
    cls = getattr(module, attribute)
    if not _is_metric(cls):
        raise ConfigError(Problem(place, f"{path}: expected a class with a method `measure(request)`, found {cls!r}"))
    return cls


def _missing(module: ModuleType, attribute: str) -> str:
    """Says that a module lacks a class, with those it may have been meant for."""
    metrics = sorted(name for name, value in vars(module).items() if _is_metric(value))
    near = difflib.get_close_matches(attribute, metrics, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean `{near[0]}`?"
    else:
        shown = ", ".join(f"`{name}`" for name in metrics)
        hint = f"expected a class with a method `measure(request)`; it has {shown or 'none'}"
    return f"{Path(module.__file__ or module.__name__).name} has no `{attribute}`; {hint}"


def _is_metric(value: object) -> bool:
    return isinstance(value, type) and callable(getattr(value, "measure", None))


def settings_model(cls: type[Any]) -> type[BaseModel]:
    """Returns the model of a metric's settings; one that has none takes no settings."""
    return getattr(cls, "Settings", Settings)


def validate_settings(place: str, model: type[BaseModel], settings: Mapping[str, Any]) -> BaseModel:
    """Validates settings.

    Raises:
        ConfigError: all that is wrong with them, an unknown one with the nearest known.
    """
    try:
        return model.model_validate(dict(settings))
    except ValidationError as error:
        known = sorted(model.model_fields)
        problems: list[Problem] = []
        for item in error.errors(include_url=False):
            key = ".".join(map(str, item["loc"]))
            message = str(item["msg"])
            if item["type"] == "extra_forbidden":
                near = difflib.get_close_matches(key, known, n=1)
                message = f"unknown setting; {f'did you mean {near[0]}?' if near else f'known are {known}'}"
            problems.append(Problem(f"{place}, settings.{key}" if key else place, message))
        raise ConfigError(problems) from error
