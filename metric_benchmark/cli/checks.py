# SPDX-License-Identifier: Apache-2.0
"""Proves a loaded experiment before anything is paid for: agents, operators, design, metrics; all problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.config import Experiment, Level, load_experiment
from metric_benchmark.coverage.registry import MetricSpec, check_metrics
from metric_benchmark.errors import ConfigError, PinError, Problem
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.execution.interpreters import find_interpreter, missing_interpreter
from metric_benchmark.execution.variant import Variant
from metric_benchmark.experiment import check_designs, name_run
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.checking import entry_problems, variant_problems
from metric_benchmark.variants import resolve_variants


@dataclass(frozen=True)
class Checked:
    """An experiment that can be run, and what should be known before it is."""

    variants: tuple[Variant, ...]
    warnings: tuple[str, ...]

    @property
    def n_trials(self) -> int:
        """How many trials the experiment asks for."""
        return sum(variant.n_trials for variant in self.variants)

    def of(self, case_id: str) -> Sequence[Variant]:
        """Returns the variants of one case."""
        return [variant for variant in self.variants if variant.case_id == case_id]


@dataclass(frozen=True)
class Ready:
    """A run that was checked."""

    run: ExperimentRun
    checked: Checked


def prepare(experiment: Path, output: Path | None, *, run_id: str | None = None, level: Level = "all") -> Ready:
    """Opens an experiment and checks all that can be wrong with it; writes nothing.

    Args:
        experiment: `experiment.yaml` or its folder.
        output: the evidence root; without one the root is a name only.
        run_id: names the run.
        level: what of the experiment must be there.

    Raises:
        ConfigError: with all problems of the files, or of agents, operators, design and metrics.
        PinError: nothing but pins is wrong.
        EvidenceError: the root holds evidence of another run.
    """
    stale: PinError | None = None
    try:
        loaded = load_experiment(experiment, level=level)
    except PinError as error:
        # What else is wrong should be known before the files are signed again.
        loaded, stale = load_experiment(experiment, level=level, verify=False), error
    checked = _check(loaded)
    if stale is not None:
        raise stale
    return Ready(_nameless(loaded) if output is None else name_run(loaded, output, run_id=run_id), checked)


def prepare_all(experiment: Path) -> Ready:
    """Checks an experiment as `prepare` does, then makes every agent and loads every task; for `verify`.

    Raises:
        ConfigError: with all problems of one of these layers.
        PinError: nothing but pins is wrong with the files.
    """
    ready = prepare(experiment, None)
    problems = variant_problems(ready.run.experiment, ready.checked.variants, to_run=False)
    if problems:
        raise ConfigError(problems)
    return ready


def _nameless(experiment: Experiment) -> ExperimentRun:
    """Stands for a run that reads and writes no evidence."""
    return ExperimentRun(experiment, EvidenceRoot(experiment.folder), experiment.name)


def _check(experiment: Experiment) -> Checked:
    problems: list[Problem] = []
    variants: tuple[Variant, ...] = ()
    warnings: list[str] = []
    try:
        variants = resolve_variants(experiment)
    except ConfigError as error:
        problems += error.problems
    problems += entry_problems(experiment)
    problems += [
        Problem(f"{variant.key}", missing_interpreter(variant.runtime.python))
        for variant in variants
        if variant.runtime is not None and find_interpreter(variant.runtime.python) is None
    ]
    try:
        warnings = check_designs(_nameless(experiment))
    except ConfigError as error:
        problems += error.problems
    problems += metric_problems(experiment)
    if problems:
        raise ConfigError(problems)
    return Checked(variants, tuple(warnings))


def metric_problems(experiment: Experiment) -> list[Problem]:
    """Returns all that is wrong with the coverage metrics, each with its place in the analysis file."""
    source = experiment.analysis_source
    return [
        source.problem(("coverage", index), str(problem))
        for index, metric in enumerate(experiment.analysis.coverage)
        for problem in check_metrics(
            [MetricSpec(name=metric.name, metric=metric.metric, settings=metric.settings)],
            source.path.parent,
            roots=experiment.roots,
            cases=[case.case_id for case in experiment.cases],
        )
    ]
