# SPDX-License-Identifier: Apache-2.0
"""The metric protocol: what a coverage metric is given, and the two ways in which it may answer.

A metric is given the baseline's traces, the case description, the subsets and its own settings. It is not
given kills, scores or any other variant's traces: a number computed from those could not be judged by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark.records.base import Undefined


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool by the agent."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back: of the call `call_id`, or of no particular call."""

    text: str
    call_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step of a trace. Steps of one `thread` follow each other; a subagent is a thread of its own."""

    source: Literal["system", "user", "agent"]
    message: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    observations: tuple[Observation, ...] = ()
    thread: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Trace:
    """What the baseline did in one attempt at one task.

    Args:
        task: task id.
        attempt: rank of the attempt, from 1.
        path: the trajectory file; the first one in a multi-step task.
        sha256: SHA-256 of the bytes of `path`.
        digest: digest of all files of the trajectory, as recorded in the evidence.
        folder: the trial folder.
        files: all files that were read.
        notes: what could not be read.
    """

    task: str
    attempt: int
    path: Path
    sha256: str
    digest: str
    folder: Path
    load: Callable[[], tuple[TraceStep, ...]] = field(repr=False, compare=False)
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The steps in order, without copied context. A long trace is read again each time."""
        return self.load()

    @classmethod
    def of(cls, task: str, *steps: TraceStep, attempt: int = 1, sha256: str = "0" * 64) -> Trace:
        """Builds a trace from steps in memory, for tests of a metric."""
        return cls(task, attempt, Path(f"{task}.json"), sha256, sha256, Path(), lambda: steps)


@dataclass(frozen=True)
class LaunchContext:
    """What a metric needs that launches a program or a model.

    Args:
        name: the metric's name in the records, for messages.
        request_sha256: digest of the request.
        keep: folder in which prompts, answers and stderr are kept as evidence; None keeps nothing.
        hide: folders the program should find empty.
        network: whether it may use the network.
    """

    name: str
    request_sha256: str = ""
    keep: Path | None = None
    hide: tuple[Path, ...] = ()
    network: bool = False

    @property
    def kept_stderr(self) -> Path | None:
        """Where what a program wrote to stderr is kept: beside its cached answer."""
        return None if self.keep is None else self.keep / f"{self.request_sha256}.stderr.txt"

    def keep_stderr(self, data: bytes) -> None:
        """Keeps what a program wrote to stderr."""
        if self.kept_stderr is not None and data:
            write_bytes(self.kept_stderr, data)


@dataclass(frozen=True)
class MetricRequest:
    """All that a metric is given.

    Args:
        case_id: the case.
        description: the case description as written: `title`, `text`, optional `tools`.
        tasks: all task ids, sorted, measured or not.
        traces: the readable traces, sorted by task and attempt.
        unmeasured: task -> why there is no readable trace of it.
        subsets: subset id -> its task ids, sorted.
        settings: the metric's own settings, an instance of its `Settings`.
        files: the files its `find_files` named, under the same names.
        launch: what a metric needs that launches something; None for all others.
    """

    case_id: str
    description: Mapping[str, Any]
    tasks: tuple[str, ...]
    traces: tuple[Trace, ...]
    unmeasured: Mapping[str, str]
    subsets: Mapping[str, tuple[str, ...]]
    settings: Any
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    launch: LaunchContext | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CoverMatrix:
    """The preferred answer: which items each task's trace exercises.

    Args:
        items: the universe, in the order to be shown. Coverage is a share of it.
        tasks: task -> covered items; every task must be here or in `unmeasured`.
        unmeasured: task -> why the metric can say nothing about it.
        counts: numbers to be shown next to the coverage.
        notes: what a reader should know.
    """

    items: tuple[str, ...]
    tasks: Mapping[str, frozenset[str]]
    unmeasured: Mapping[str, str] = field(default_factory=dict[str, str])
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpaqueCoverage:
    """The other answer: a number in [0, 1] per subset, whose making cannot be seen.

    Args:
        subsets: subset -> coverage, or `Undefined` with a reason; every subset must be here.
        tasks: task -> coverage of that task alone; optional.
        unmeasured: as in `CoverMatrix`.
    """

    subsets: Mapping[str, float | Undefined]
    tasks: Mapping[str, float] = field(default_factory=dict[str, float])
    unmeasured: Mapping[str, str] = field(default_factory=dict[str, str])
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()


Answer = CoverMatrix | OpaqueCoverage


class Settings(BaseModel):
    """Base of a metric's settings: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Metric(Protocol):
    """A coverage metric: a class without constructor arguments.

    Class attributes a metric may set; `registry.resolve_metric` supplies the defaults:
        Settings: the model of its settings; default: no settings.
        needs_traces: whether a task without a trace is unmeasured; default True.
        label: see `MetricCoverage.label`; default None.
        find_files: class method `(settings, locate) -> Mapping[str, Path]`; the files the metric reads besides
            traces, by the name under which it is given them. `locate` turns a path written in settings into a real
            one. Raises `ConfigError` where one is missing or wrong.
    """

    Settings: ClassVar[type[BaseModel]]

    def measure(self, request: MetricRequest) -> Answer:
        """Answers for one case."""
        ...
