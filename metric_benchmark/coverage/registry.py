# SPDX-License-Identifier: Apache-2.0
"""Finds a metric by its name: built-in, installed entry point or import path; validates its settings."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from metric_benchmark.coverage.inputs import Locate, locator
from metric_benchmark.coverage.loading import load_class, settings_model, validate_settings
from metric_benchmark.coverage.protocol import Metric
from metric_benchmark.coverage.user_metric import Description, UserMetric, find_code
from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.hashing import digest_json, implementation_digest

ENTRY_POINT_GROUP = "metric_benchmark.metrics"

#: Files of this package that shape what every metric is given.
_TRACES = ("coverage/atif.py", "coverage/per_trace.py", "coverage/protocol.py", "coverage/traces.py")
#: Files that shape what a program is given.
_PROGRAMS = ("coverage/workspace.py",)


@dataclass(frozen=True)
class BuiltIn:
    """A metric of ours: where its class is, and all files whose code can change its answer."""

    module: str
    attribute: str
    shared: tuple[str, ...] = _TRACES

    @property
    def path(self) -> str:
        """`module:Class`."""
        return f"metric_benchmark.coverage.metrics.{self.module}:{self.attribute}"

    @property
    def code_sha256(self) -> str:
        """Digest of its code."""
        return implementation_digest(*sorted({*self.shared, f"coverage/metrics/{self.module}.py"}))


_AUDIT = (*_TRACES, "coverage/audit")
BUILT_IN: Mapping[str, BuiltIn] = {
    "audit_capabilities": BuiltIn("audit", "AuditCapabilities", _AUDIT),
    "audit_failure_cases": BuiltIn("audit", "AuditFailureCases", _AUDIT),
    "audit_tools": BuiltIn("audit", "AuditTools", _AUDIT),
    "command": BuiltIn("command", "Command", _PROGRAMS),
    "instruction_ngrams": BuiltIn("instruction_ngrams", "InstructionNgrams"),
    "model_judge": BuiltIn("model_judge", "ModelJudge", (*_AUDIT, "coverage/judge", "coverage/metrics/audit.py")),
    "observation_kinds": BuiltIn("observation_kinds", "ObservationKinds"),
    "suite_size": BuiltIn("suite_size", "SuiteSize"),
    "synthetic": BuiltIn("synthetic", "Synthetic"),
    "tool_arguments_shape": BuiltIn("tool_arguments_shape", "ToolArgumentsShape"),
    "tool_bigrams": BuiltIn("tool_bigrams", "ToolBigrams"),
    "tool_calls": BuiltIn("tool_calls", "ToolCalls"),
    "trajectory_length": BuiltIn("trajectory_length", "TrajectoryLength"),
}


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
    """A metric that was found and whose settings are valid.

    Args:
        spec: as configured.
        implementation: what to ask.
        settings: what `MetricRequest.settings` will be.
        settings_json: the same with all defaults, as JSON values.
        code_sha256: digest of all code that can change an answer.
        label: see `MetricCoverage.label`.
        needs_traces: whether a task without a trace is unmeasured.
        is_external: whether asking it launches a program or a model, which `replay` forbids.
        network: whether what it launches may use the network.
        find_files: names the files it reads.
    """

    spec: MetricSpec
    implementation: Metric
    settings: Any
    settings_json: dict[str, Any]
    code_sha256: str
    label: str | None = None
    needs_traces: bool = True
    is_external: bool = False
    network: bool = False
    find_files: Callable[[Locate], Mapping[str, Path]] = lambda locate: {}


Describe = Callable[[UserMetric, Mapping[str, Any]], Description]


def known_metrics() -> dict[str, str]:
    """Returns all named metrics -> `module:Class`; a built-in goes before an entry point of its name."""
    found = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    return {**found, **{name: built_in.path for name, built_in in BUILT_IN.items()}}


def check_metrics(
    specs: Iterable[MetricSpec],
    base: Path | None = None,
    *,
    roots: Iterable[Path] = (),
    cases: Iterable[str] = (),
    launch: bool = True,
) -> tuple[Problem, ...]:
    """Returns all that is wrong with the metrics of an analysis, without measuring anything.

    Args:
        specs: the metrics as configured.
        base: folder of `analysis.yaml`.
        roots: further folders that paths in settings may lead into.
        cases: ids of the cases whose files should be there too.
        launch: start a child process per metric of the user's, to check its class and settings.
    """
    specs, roots = list(specs), list(roots)
    problems: list[Problem] = []
    describe = UserMetric.describe if launch else None
    for spec in specs:
        try:
            found = resolve_metric(spec, base, describe)
            for case_id in cases if found else ():
                found.find_files(locator(f"metric {spec.name}", case_id, base, roots))
        except ConfigError as error:
            problems += error.problems
    return (*dict.fromkeys(problems), *_repeated(specs))


def resolve_metrics(
    specs: Iterable[MetricSpec], base: Path | None = None, describe: Describe = UserMetric.describe
) -> list[ResolvedMetric]:
    """Finds all metrics.

    Raises:
        ConfigError: all that is wrong with them.
    """
    specs = list(specs)
    problems = _repeated(specs)
    resolved: list[ResolvedMetric] = []
    for spec in specs:
        try:
            resolved.append(resolve_metric(spec, base, describe))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return resolved


def _repeated(specs: list[MetricSpec]) -> list[Problem]:
    names = [spec.name for spec in specs]
    return [
        Problem(f"metric {name}", "listed twice; give each metric its own name")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def resolve_metric(
    spec: MetricSpec, base: Path | None = None, describe: Describe | None = UserMetric.describe
) -> ResolvedMetric:
    """Finds a metric and validates its settings.

    Args:
        spec: the metric as configured.
        base: folder in which the module of an import path is looked for first.
        describe: asks a user's metric about itself; None leaves its class and settings unchecked.

    Raises:
        ConfigError: unknown name, module that cannot be imported, something that is no metric, bad settings.
    """
    if spec.target in BUILT_IN:
        return _resolve_built_in(spec, BUILT_IN[spec.target])
    path = spec.target
    if ":" not in path:
        known = known_metrics()
        if path not in known:
            near = difflib.get_close_matches(path, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}."
            message = f"no metric is called {path!r}; {hint} Your own is named by 'package.module:Class'."
            raise ConfigError(Problem(f"metric {spec.name}", message))
        path = known[path]
    metric = UserMetric(spec.name, find_code(f"metric {spec.name}", path, base))
    settings = dict(spec.settings)
    about = describe(metric, settings) if describe else Description(settings, None, True, False, {})
    return ResolvedMetric(
        spec=spec,
        implementation=cast("Metric", metric),
        settings=about.settings,
        settings_json=about.settings,
        code_sha256=digest_json([metric.code.sha256, implementation_digest(*_TRACES, *_PROGRAMS)]),
        label=about.label,
        needs_traces=about.needs_traces,
        is_external=True,
        network=about.needs_network,
        find_files=lambda locate: {name: locate(written) for name, written in about.files.items()},
    )


def _resolve_built_in(spec: MetricSpec, built_in: BuiltIn) -> ResolvedMetric:
    place = f"metric {spec.name}"
    cls = load_class(place, built_in.path)
    settings = validate_settings(place, settings_model(cls), spec.settings)
    find_files: Any = getattr(cls, "find_files", None)
    return ResolvedMetric(
        spec=spec,
        implementation=cls(),
        settings=settings,
        settings_json=settings.model_dump(mode="json"),
        code_sha256=built_in.code_sha256,
        label=getattr(cls, "label", None),
        needs_traces=getattr(cls, "needs_traces", True),
        is_external=getattr(cls, "is_external", False),
        find_files=(lambda locate: find_files(settings, locate)) if find_files else (lambda locate: {}),
    )
