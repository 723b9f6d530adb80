# SPDX-License-Identifier: Apache-2.0
"""Refuses variants that cannot run before any of them is paid for, each reason once and at its place in the files."""

from __future__ import annotations

from collections.abc import Sequence

from metric_benchmark.config import Experiment
from metric_benchmark.config.yaml_source import Location
from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.execution.bundles import lacking_module
from metric_benchmark.execution.checking import Refused, check_variants
from metric_benchmark.execution.variant import Variant
from metric_benchmark.pipeline.inputs import ExperimentRun


def refuse_variants(run: ExperimentRun, variants: Sequence[Variant]) -> None:
    """Refuses what cannot run; variants that have all their results are not looked at. Writes nothing.

    Raises:
        ConfigError: with every agent that cannot be made, every task that is refused, every variable that is not set.
        ExecutionError: Harbor cannot be asked.
    """
    todo = [variant for variant in variants if not _is_complete(run, variant)]
    problems = variant_problems(run.experiment, todo)
    if problems:
        raise ConfigError(problems)


def variant_problems(experiment: Experiment, variants: Sequence[Variant], *, to_run: bool = True) -> list[Problem]:
    """Returns all that is wrong with agents, tasks and environment, with its place; see `check_variants`."""
    refused = check_variants(variants, experiment.execution, to_run=to_run)
    broken = {item.variant.case_id for item in refused if item.variant.variant_id == "baseline" and _is_agent(item)}
    problems = [
        _problem(experiment, item)
        for item in refused
        # What a mutant inherits is said once, of the baseline.
        if not (_is_agent(item) and item.variant.case_id in broken and _inherits(experiment, item.variant))
    ]
    return list(dict.fromkeys(problems))


def entry_problems(experiment: Experiment) -> list[Problem]:
    """Returns the agents whose bundle does not have the module their `entry` names; nothing is imported."""
    return [
        case.source.problem((*location[:-1], "entry"), lacking)
        for case in experiment.cases
        for location, agent, bundle in case.bundles()
        if (lacking := lacking_module(case.path_of(bundle), agent.entry or "")) is not None
    ]


def _problem(experiment: Experiment, item: Refused) -> Problem:
    source = experiment.case(item.variant.case_id).source
    if item.about == "environment":
        return experiment.execution_source.problem(("environment",), item.message)
    if item.task is not None:
        tasks = [task.id for task in experiment.case(item.variant.case_id).config.tasks]
        return source.problem(("tasks", tasks.index(item.task)), f"task {item.task}: {item.message}")
    location = _location(experiment, item.variant)
    return source.problem(location, f"variant {item.variant.variant_id}: {item.message}")


def _location(experiment: Experiment, variant: Variant) -> Location:
    for index, mutant in enumerate(experiment.case(variant.case_id).config.mutants):
        if mutant.id == variant.variant_id:
            return ("mutants", index, "operator" if mutant.agent is None else "agent")
    return ("baseline", "agent")


def _inherits(experiment: Experiment, variant: Variant) -> bool:
    return _location(experiment, variant)[-1] == "operator"


def _is_agent(item: Refused) -> bool:
    return item.about == "agent"


def _is_complete(run: ExperimentRun, variant: Variant) -> bool:
    if not run.root.index(variant.case_id).exists():
        return False
    entry = run.index(variant.case_id).variants.get(variant.variant_id)
    return entry is not None and entry.config_hash == variant.config_hash and not entry.n_without_verdict
