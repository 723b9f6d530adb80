# SPDX-License-Identifier: Apache-2.0
"""Gathers the problems of an experiment's files, so that a user sees all of them at once."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metric_benchmark.config.explain import parse_model
from metric_benchmark.config.fields import Config, literal_secrets
from metric_benchmark.config.yaml_source import Location, YamlSource, read_yaml
from metric_benchmark.errors import ConfigError, PinError, Problem


class Collector:
    """Gathers problems, so that a user sees all of them at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.pins: list[Problem] = []

    @contextmanager
    def collecting(self) -> Generator[None]:
        """Keeps the problems of what is raised within."""
        try:
            yield
        except ConfigError as error:
            self.problems += error.problems

    def read(self, path: Path) -> YamlSource | None:
        """Reads a YAML file, if it can be read."""
        with self.collecting():
            return read_yaml(path, shown_path(path, self.folder))
        return None

    def parse[M: Config](self, source: YamlSource | None, model: type[M]) -> M | None:
        """Validates a source, if it could be read."""
        if source is None:
            return None
        self.problems += [
            source.problem(
                location, f"a literal secret: {why}; write `${{VAR}}` and set the variable in the environment"
            )
            for location, why in literal_secrets(source.value)
            if _may_hold_secret(location)
        ]
        parsed: M | None = None
        before = len(self.problems)
        with self.collecting():
            parsed = parse_model(source, model)
        # Free-form values (kwargs, params, settings) are no business of the models.
        told = {problem.place for problem in self.problems[before:]}
        self.problems += [problem for problem in _odd_values(source, source.value) if problem.place not in told]
        return parsed

    def finish(self) -> None:
        """Raises what was gathered, if anything was."""
        # Whatever else is wrong means editing files, and so signing them again: pins come last.
        if self.problems:
            raise ConfigError(_once(self.problems))
        if self.pins:
            raise PinError(_once(self.pins))


def _may_hold_secret(location: Location) -> bool:
    # Pins, our own settings (`reward_key`) and names of metrics are not secrets, whatever their keys look like.
    if location[:2] == ("gates", "min_suite_coverage"):
        return False
    return not location or location[-1] not in {"sha256", "reward_key"}


def _once(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))


def _odd_values(source: YamlSource, value: Any, location: Location = ()) -> Iterator[Problem]:
    """Finds what YAML can say and JSON cannot, so that no digest or record could hold it."""
    if isinstance(value, dict):
        for key, child in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _odd_values(source, child, (*location, str(key)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for index, child in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from _odd_values(source, child, (*location, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield source.problem(location, f"found {value}; expected a finite number")


def shown_path(path: Path, folder: Path) -> str:
    """Names a file the way the user would: relative to where they are, else relative to the experiment."""
    for base in (Path.cwd(), folder):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)
