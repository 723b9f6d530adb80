# SPDX-License-Identifier: Apache-2.0
"""What a design can show: the simulated power of each case, for `plan --power`."""

from __future__ import annotations

from metric_benchmark.cli.console import note, say, say_table
from metric_benchmark.config import Case, Experiment
from metric_benchmark.correlation.planning import Design
from metric_benchmark.power import plan_power
from metric_benchmark.records.correlation import PowerPlan

_MOST_OPTIONS = 5


def power_plans(experiment: Experiment) -> dict[str, PowerPlan]:
    """Simulates every case at its own size; takes some seconds a case."""
    settings = experiment.analysis.correlation
    alpha = min((hypothesis.alpha for hypothesis in settings.hypotheses), default=0.05)
    found: dict[str, PowerPlan] = {}
    for case in experiment.cases:
        note(f"simulating case {case.case_id}")
        found[case.case_id] = plan_power(
            case_design(experiment, case), experiment.analysis.scoring, seed=settings.seed, alpha=alpha
        )
    return found


def case_design(experiment: Experiment, case: Case) -> Design:
    """Returns the size of a case's experiment."""
    roles = experiment.execution.roles
    return Design(
        n_tasks=len(case.config.tasks),
        n_mutants=len(case.config.mutants),
        n_subsets=len(case.subsets.subsets),
        sizes=tuple(len(subset.tasks) for subset in case.subsets.subsets),
        n_baseline=roles.baseline.attempts,
        n_mutant=roles.mutant.attempts,
        n_screening=roles.screening.attempts if roles.screening else 0,
        n_controls=roles.control.count if roles.control else 0,
        n_control=roles.control.attempts if roles.control else 0,
    )


def say_power(case_id: str, plan: PowerPlan) -> None:
    """Prints what a case's design can show, and what would show more."""
    say()
    say(f"case {case_id}: power at alpha = {plan.alpha:g}, simulated (a world like this one, not a promise)")
    rows = [[point.effect, f"{point.power:.0%} (+-{point.stderr:.0%})"] for point in plan.curve]
    say_table(["association", "found in"], rows)
    if plan.options:
        say()
        options = [
            [option.change, option.extra_trials, f"{option.power:.0%}"] for option in plan.options[:_MOST_OPTIONS]
        ]
        say_table(["what could be added", "more trials", "found in"], options)
    say()
    say(plan.advice)
    for text in plan.notes:
        say(f"- {text}")
