# SPDX-License-Identifier: Apache-2.0
"""Proves a loaded experiment before anything is paid for: agents, operators, design, metrics; all problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.config import load_experiment
from metric_benchmark.coverage.registry import MetricSpec, check_metrics
from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.execution.variant import Variant
from metric_benchmark.experiment import check_designs
from metric_benchmark.pipeline import ExperimentRun
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


def load_without_evidence(path: Path) -> ExperimentRun:
    """Loads an experiment for a command that reads no evidence and writes none; its root is only a name.

    Raises:
        ConfigError: the experiment is wrong.
    """
    experiment = load_experiment(path)
    return ExperimentRun(experiment, EvidenceRoot(experiment.folder), experiment.name)


def check_experiment(run: ExperimentRun) -> Checked:
    """Resolves all variants and checks the design and the metrics.

    Raises:
        ConfigError: with all problems of all three.
    """
    problems: list[Problem] = []
    variants: tuple[Variant, ...] = ()
    warnings: list[str] = []
    try:
        variants = resolve_variants(run.experiment)
    except ConfigError as error:
        problems += error.problems
    try:
        warnings = check_designs(run)
    except ConfigError as error:
        source = run.experiment.analysis_source
        problems += [source.problem(("scoring", "kill_rule"), problem.message) for problem in error.problems]
    problems += metric_problems(run)
    if problems:
        raise ConfigError(problems)
    return Checked(variants, tuple(warnings))


def metric_problems(run: ExperimentRun) -> list[Problem]:
    """Returns all that is wrong with the coverage metrics, each with its place in the analysis file."""
    source = run.experiment.analysis_source
    return [
        source.problem(("coverage", index), str(problem))
        for index, metric in enumerate(run.experiment.analysis.coverage)
        for problem in check_metrics(
            [MetricSpec(name=metric.name, metric=metric.metric, settings=metric.settings)], source.path.parent
        )
    ]
