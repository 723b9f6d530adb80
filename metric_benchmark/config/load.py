# SPDX-License-Identifier: Apache-2.0
"""Loads an experiment: all its files at once, every problem reported in one go, pins verified before use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from metric_benchmark.config.collecting import Collector, shown_path
from metric_benchmark.config.fields import Pinned
from metric_benchmark.config.lock import lock_problems
from metric_benchmark.config.models import (
    AgentSpec,
    AnalysisConfig,
    CaseConfig,
    CasesConfig,
    DescriptionConfig,
    ExecutionConfig,
    ExperimentConfig,
    SubsetsConfig,
)
from metric_benchmark.config.places import has_task_toml, neighbour, require_experiment
from metric_benchmark.config.public_variables import public_variable_problems, task_settings
from metric_benchmark.config.yaml_source import Location, YamlSource
from metric_benchmark.errors import ConfigError, PinError, Problem
from metric_benchmark.hashing import digest_bytes, digest_folder
from metric_benchmark.memory import garbage_kept

#: A case's id as it is written at the start of a line; what is written otherwise is parsed.
_CASE_ID = re.compile(rb"^case_id: *([a-z0-9][a-z0-9._-]*)[ \r]*$", re.MULTILINE)

#: `execution` needs tasks and bundles; `analysis` never touches them.
type Level = Literal["execution", "analysis", "all"]


@dataclass(frozen=True)
class Case:
    """One case with the files it names."""

    config: CaseConfig
    source: YamlSource
    sha256: str
    subsets: SubsetsConfig
    description: DescriptionConfig

    @property
    def case_id(self) -> str:
        """The case's id."""
        return self.config.case_id

    @property
    def folder(self) -> Path:
        """The folder paths in the case file are relative to."""
        return self.source.path.parent

    def path_of(self, pinned: Pinned) -> Path:
        """Returns the absolute path of something the case pins."""
        return (self.folder / pinned.path).resolve()

    def bundles(self) -> Iterator[tuple[Location, AgentSpec, Pinned]]:
        """Yields where each agent bundle is named, its agent spec and its pin."""
        for location, agent in self._agents():
            if agent.bundle is not None:
                yield (*location, "bundle"), agent, agent.bundle

    def locks(self) -> Iterator[tuple[Location, Pinned]]:
        """Yields where each bundle's requirement lock is named, and its pin."""
        for location, agent in self._agents():
            if agent.runtime is not None:
                yield (*location, "runtime", "requirements"), agent.runtime.requirements

    def _agents(self) -> Iterator[tuple[Location, AgentSpec]]:
        yield ("baseline", "agent"), self.config.baseline.agent
        for i, mutant in enumerate(self.config.mutants):
            if mutant.agent is not None:
                yield ("mutants", i, "agent"), mutant.agent


@dataclass(frozen=True)
class Experiment:
    """A loaded experiment; which of its parts are there depends on the load level."""

    config: ExperimentConfig
    source: YamlSource
    cases_source: YamlSource
    cases_config: CasesConfig
    cases_sha256: str
    cases: tuple[Case, ...]
    execution: ExecutionConfig
    execution_source: YamlSource
    execution_sha256: str
    analysis: AnalysisConfig
    analysis_source: YamlSource
    analysis_sha256: str
    roots: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The experiment's name; the run id unless one is given."""
        return self.config.name

    @property
    def folder(self) -> Path:
        """The folder that holds `experiment.yaml`."""
        return self.source.path.parent

    def case(self, case_id: str) -> Case:
        """Returns one case.

        Raises:
            ConfigError: the experiment has no such case.
        """
        for case in self.cases:
            if case.case_id == case_id:
                return case
        known = ", ".join(case.case_id for case in self.cases)
        raise ConfigError(self.source.problem(("cases",), f"no case {case_id!r}; the experiment has: {known}"))


@garbage_kept()
def load_experiment(
    path: Path | str, *, level: Level = "all", verify: bool = True, only: str | None = None
) -> Experiment:
    """Loads and checks an experiment.

    Args:
        path: `experiment.yaml`, or the folder that holds it.
        level: `execution` and `all` check that task folders and bundles exist and match their pins; `analysis` never
            looks at them.
        verify: whether every pin must be there and match. `sign` loads without.
        only: a case's id: of the other cases' files only the pins are checked, and `cases` has this one alone. For work
            that looks at one case of hundreds.

    Raises:
        ConfigError: with all problems of all files.
        PinError: nothing but pins is wrong; with all of them.
    """
    path = Path(path)
    if path.is_dir():
        require_experiment(path)
    path = (path / "experiment.yaml" if path.is_dir() else path).absolute()
    # The folder is resolved first, so that "inside" below compares real places.
    path = path.parent.resolve() / path.name
    out = Collector(path.parent)
    source = out.read(path)
    config = out.parse(source, ExperimentConfig)
    if source is None or config is None:
        out.finish()
        raise AssertionError("unreachable")
    roots = _roots(source, config, out)
    inside = _inside(out, (path.parent, *roots))

    cases_path, execution_path, analysis_path = (
        inside(source, (key,), getattr(config, key)) for key in ("cases", "execution", "analysis")
    )
    cases_source = out.read(cases_path) if cases_path else None
    cases_config = out.parse(cases_source, CasesConfig)
    execution_source = out.read(execution_path) if execution_path else None
    execution = out.parse(execution_source, ExecutionConfig)
    analysis_source = out.read(analysis_path) if analysis_path else None
    analysis = out.parse(analysis_source, AnalysisConfig)
    cases: list[Case] = []
    if cases_source and cases_config:
        for index, pinned in enumerate(cases_config.cases):
            if only is not None and _is_another(out, inside, cases_source, index, pinned, only, verify):
                continue
            case = _load_case(out, inside, cases_source, index, pinned, level, verify)
            if case is not None:
                cases.append(case)
        _unique_cases(out, cases_source, cases)
    if execution_source and execution:
        sources = [execution_source, *([analysis_source] if analysis_source else []), *(case.source for case in cases)]
        used_in: list[tuple[str, Any]] = [(file.shown, file.value) for file in sources]
        if level != "analysis" and execution.public_variables:
            used_in += [
                (f"{task.path}/task.toml", task_settings(case.path_of(task)))
                for case in cases
                for task in case.config.tasks
            ]
        out.problems += public_variable_problems(execution_source, execution.public_variables, used_in)
    out.finish()
    if only is not None and not cases:
        # No such case: whoever asks for it is told which there are.
        return load_experiment(path, level=level, verify=verify)
    # `finish` has raised unless everything is there.
    assert cases_source is not None
    assert cases_config is not None
    assert execution_source is not None
    assert execution is not None
    assert analysis_source is not None
    assert analysis is not None
    return Experiment(
        config=config,
        source=source,
        cases_source=cases_source,
        cases_config=cases_config,
        cases_sha256=cases_source.sha256,
        cases=tuple(cases),
        execution=execution,
        execution_source=execution_source,
        execution_sha256=execution_source.sha256,
        analysis=analysis,
        analysis_source=analysis_source,
        analysis_sha256=analysis_source.sha256,
        roots=roots,
    )


type _Inside = Callable[[YamlSource, Location, str], Path | None]


def _roots(source: YamlSource, config: ExperimentConfig, out: Collector) -> tuple[Path, ...]:
    roots: list[Path] = []
    for index, root in enumerate(config.roots):
        try:
            found = (source.path.parent / root).resolve()
            is_folder = found.is_dir()
        except (OSError, RuntimeError, ValueError):
            found, is_folder = source.path.parent, False
        if is_folder:
            roots.append(found)
        else:
            out.problems.append(source.problem(("roots", index), f"no such folder: {root}"))
    return tuple(roots)


def _inside(out: Collector, allowed: tuple[Path, ...]) -> _Inside:
    def resolve(source: YamlSource, location: Location, relative: str) -> Path | None:
        try:
            found = (source.path.parent / relative).resolve()
            # Also finds out whether a folder on the way may not be entered.
            with suppress(FileNotFoundError, NotADirectoryError):
                found.stat()
        except (OSError, RuntimeError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "a symbolic link that leads to itself"
            out.problems.append(source.problem(location, f"{relative[:200]} cannot be used: {why}"))
            return None
        if not any(found.is_relative_to(root) for root in allowed):
            out.problems.append(
                source.problem(
                    location,
                    f"{relative} leaves the experiment's folder; move it inside or declare its folder under `roots:`",
                )
            )
            return None
        return found

    return resolve


def _is_another(
    out: Collector, inside: _Inside, named_in: YamlSource, index: int, pinned: Pinned, only: str, verify: bool
) -> bool:
    """Tells whether a case file is plainly that of another case, without parsing it; checks its pin then."""
    path = inside(named_in, ("cases", index, "path"), pinned.path)
    try:
        data = path.read_bytes() if path else b""
    except OSError:
        return False
    found = _CASE_ID.findall(data)
    if len(found) != 1 or found[0].decode() == only:
        return False
    if verify:
        _check_pin(out, named_in, ("cases", index), pinned, digest_bytes(data))
    return True


def _load_case(
    out: Collector, inside: _Inside, named_in: YamlSource, index: int, pinned: Pinned, level: Level, verify: bool
) -> Case | None:
    location: Location = ("cases", index)
    path = inside(named_in, (*location, "path"), pinned.path)
    source = out.read(path) if path else None
    config = out.parse(source, CaseConfig)
    if path is None or source is None or config is None:
        return None
    if verify:
        _check_pin(out, named_in, location, pinned, source.sha256)
    files: dict[str, YamlSource | None] = {}
    for key in ("description", "subsets"):
        item: Pinned = getattr(config, key)
        target = inside(source, (key, "path"), item.path)
        found = files[key] = out.read(target) if target else None
        if found and verify:
            _check_pin(out, source, (key,), item, found.sha256)
    description = out.parse(files["description"], DescriptionConfig)
    subsets = out.parse(files["subsets"], SubsetsConfig)
    if files["subsets"] and subsets:
        _check_subsets(out, files["subsets"], subsets, source, config)
    if description is None or subsets is None:
        return None
    case = Case(config, source, source.sha256, subsets, description)
    if level != "analysis":
        _check_folders(out, inside, case, verify)
    return case


def _check_subsets(
    out: Collector, source: YamlSource, subsets: SubsetsConfig, case: YamlSource, config: CaseConfig
) -> None:
    known = {task.id for task in config.tasks}
    unknown: dict[str, list[tuple[Location, str]]] = {}
    for i, subset in enumerate(subsets.subsets):
        for j, task in enumerate(subset.tasks):
            if task not in known:
                unknown.setdefault(task, []).append((("subsets", i, "tasks", j), subset.id))
    again = f"run `metric-benchmark subsets generate {case.shown}`"
    advice = f"{again} to draw them again" if subsets.generator else f"correct it, or {again}"
    for task, found in unknown.items():
        location, first = found[0]
        who = f"subset {first!r} names" if len(found) == 1 else f"subset {first!r} and {len(found) - 1} more name"
        out.problems.append(
            source.problem(location, f"{who} task {task!r}, which case {config.case_id!r} does not have; {advice}")
        )


def _check_folders(out: Collector, inside: _Inside, case: Case, verify: bool) -> None:
    wanted: list[tuple[Location, Pinned, str]] = [
        (("tasks", i), task, f"task folder {task.path}") for i, task in enumerate(case.config.tasks)
    ]
    wanted += [(location, bundle, f"agent bundle {bundle.path}") for location, _, bundle in case.bundles()]
    for location, lock in case.locks():
        _check_lock(out, inside, case, location, lock, verify)
    seen: dict[Path, str] = {}
    for location, pinned, what in wanted:
        path = inside(case.source, (*location, "path"), pinned.path)
        if path is None:
            continue
        if what.startswith("task"):
            # A trial is matched to its task by folder; one folder under two ids would be ambiguous.
            if path in seen:
                out.problems.append(case.source.problem(location, f"{what} is also that of task {seen[path]!r}"))
            seen[path] = getattr(pinned, "id", "")
        if not path.is_dir():
            near = neighbour(path)
            hint = f"; did you mean {(Path(pinned.path).parent / near).as_posix()}?" if near else ""
            out.problems.append(case.source.problem((*location, "path"), f"{what} does not exist{hint}"))
        elif what.startswith("task") and not has_task_toml(path):
            out.problems.append(
                case.source.problem((*location, "path"), f"{what} has no task.toml; it is not a Harbor task")
            )
        elif verify:
            try:
                found = digest_folder(path)
            except PinError as error:
                out.problems.append(case.source.problem((*location, "path"), str(error)))
            else:
                _check_pin(out, case.source, location, pinned, found)


def _check_lock(out: Collector, inside: _Inside, case: Case, location: Location, lock: Pinned, verify: bool) -> None:
    path = inside(case.source, (*location, "path"), lock.path)
    if path is None:
        return
    if not path.is_file():
        out.problems.append(case.source.problem((*location, "path"), f"requirements lock {lock.path} does not exist"))
        return
    try:
        data = path.read_bytes()
    except OSError as error:
        out.problems.append(case.source.problem((*location, "path"), f"{lock.path} cannot be read: {error.strerror}"))
        return
    out.problems += [
        Problem(f"{shown_path(path, out.folder)}:{line}", message)
        for line, message in lock_problems(data.decode("utf-8", errors="replace"))
    ]
    if verify:
        _check_pin(out, case.source, location, lock, digest_bytes(data))


def _check_pin(out: Collector, source: YamlSource, location: Location, pinned: Pinned, found: str) -> None:
    if pinned.sha256 is None:
        out.pins.append(source.problem(location, f"{pinned.path} is not pinned; run `metric-benchmark sign` once"))
    elif found != pinned.sha256:
        out.pins.append(
            source.problem(
                (*location, "sha256"),
                f"{pinned.path} has changed: found {found[:16]}..., pinned {pinned.sha256[:16]}...; restore it, or "
                "run `metric-benchmark sign` to accept the change",
            )
        )


def _unique_cases(out: Collector, source: YamlSource, cases: list[Case]) -> None:
    seen: dict[str, str] = {}
    for index, case in enumerate(cases):
        if case.case_id in seen:
            out.problems.append(
                source.problem(("cases", index), f"case id {case.case_id!r} is also that of {seen[case.case_id]}")
            )
        seen[case.case_id] = case.source.shown
