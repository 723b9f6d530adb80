# SPDX-License-Identifier: Apache-2.0
"""Finds a metric by its name: built-in, installed entry point or import path; validates its settings."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from metric_benchmark.coverage.protocol import Metric, Settings
from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.hashing import digest_file, digest_folder, digest_json, implementation_digest

ENTRY_POINT_GROUP = "metric_benchmark.metrics"

_HERE = "metric_benchmark.coverage.metrics"
BUILT_IN: Mapping[str, str] = {
    "suite_size": f"{_HERE}.suite_size:SuiteSize",
    "synthetic": f"{_HERE}.synthetic:Synthetic",
    "tool_arguments_shape": f"{_HERE}.tool_arguments_shape:ToolArgumentsShape",
    "tool_calls": f"{_HERE}.tool_calls:ToolCalls",
}

#: Files of this package that shape what every metric is given.
_SHARED = ("coverage/atif.py", "coverage/per_trace.py", "coverage/protocol.py", "coverage/traces.py")


@dataclass(frozen=True)
class MetricSpec:
    """A metric as `analysis.yaml` names it.

    Args:
        name: its label in the records.
        metric: what implements it; default: the metric called `name`.
        settings: not yet validated.
    """

    name: str
    metric: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def target(self) -> str:
        """What implements it."""
        return self.metric or self.name


@dataclass(frozen=True)
class ResolvedMetric:
    """A metric that was found and whose settings are valid."""

    spec: MetricSpec
    implementation: Metric
    settings: BaseModel
    code_sha256: str
    label: str | None
    needs_traces: bool
    is_external: bool

    @property
    def settings_json(self) -> dict[str, Any]:
        """The settings with all defaults, as JSON values."""
        return self.settings.model_dump(mode="json")


def known_metrics() -> dict[str, str]:
    """Returns all named metrics -> `module:Class`; a built-in goes before an entry point of its name."""
    found = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    return {**found, **BUILT_IN}


def check_metrics(specs: Iterable[MetricSpec], base: Path | None = None) -> tuple[Problem, ...]:
    """Returns all that is wrong with the metrics of an analysis, without measuring anything."""
    problems: list[Problem] = []
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            problems.append(Problem(f"metric {spec.name}", "listed twice; give each metric its own name"))
        seen.add(spec.name)
        try:
            resolve_metric(spec, base)
        except ConfigError as error:
            problems += error.problems
    return tuple(problems)


def resolve_metric(spec: MetricSpec, base: Path | None = None) -> ResolvedMetric:
    """Finds a metric and validates its settings.

    Args:
        spec: the metric as configured.
        base: folder in which the module of an import path is looked for first.

    Raises:
        ConfigError: unknown name, module that cannot be imported, something that is no metric, bad settings.
    """
    place = f"metric {spec.name}"
    path = spec.target
    if ":" not in path:
        known = known_metrics()
        if path not in known:
            near = difflib.get_close_matches(path, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}."
            raise ConfigError(
                Problem(
                    place,
                    f"no metric is called {path!r}; {hint} Your own is named by 'package.module:Class'.",
                )
            )
        path = known[path]
    with _importable_from(base):
        cls, module = _load(place, path)
        code = _code_digest(module)
    model: type[BaseModel] = getattr(cls, "Settings", Settings)
    return ResolvedMetric(
        spec=spec,
        implementation=cast("Metric", cls()),
        settings=_validate(place, model, spec.settings),
        code_sha256=code,
        label=getattr(cls, "label", None),
        needs_traces=bool(getattr(cls, "needs_traces", True)),
        is_external=bool(getattr(cls, "is_external", False)),
    )


@contextmanager
def _importable_from(base: Path | None) -> Generator[None]:
    if base is None:
        yield
        return
    sys.path.insert(0, str(base))
    try:
        importlib.invalidate_caches()
        yield
    finally:
        sys.path.remove(str(base))


def _load(place: str, path: str) -> tuple[Any, str]:
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(
            Problem(place, f"module {module_name} cannot be imported: {type(error).__name__}: {error}")
        ) from error
    cls = getattr(module, attribute, None)
    if not isinstance(cls, type) or not callable(getattr(cls, "measure", None)):
        raise ConfigError(
            Problem(place, f"{path}: expected a class with a method `measure(request)`, found {cls!r}")
        )
    return cls, module_name


def _code_digest(module_name: str) -> str:
    """Digests the metric's file, or the whole top-level package that holds it."""
    ours = "metric_benchmark.coverage."
    if module_name.startswith(ours):
        own = f"coverage/{module_name.removeprefix(ours).replace('.', '/')}.py"
        return implementation_digest(*sorted({*_SHARED, own}))
    top = module_name.partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is not None and spec.origin is not None and spec.submodule_search_locations is not None:
        own = digest_folder(Path(spec.origin).parent)
    else:
        origin = getattr(sys.modules[module_name], "__file__", None)
        own = digest_file(Path(origin)) if origin else module_name
    return digest_json([own, implementation_digest(*_SHARED)])


def _validate(place: str, model: type[BaseModel], settings: Mapping[str, Any]) -> BaseModel:
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
            problems.append(Problem(f"{place}, settings.{key}", message))
        raise ConfigError(problems) from error
