# SPDX-License-Identifier: Apache-2.0
"""What a design can show: the simulated power of each case, for `plan --power`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

import typer

from metric_benchmark.cli.console import say, say_table, warn
from metric_benchmark.cli.working import working
from metric_benchmark.config import Experiment
from metric_benchmark.errors import LockedError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark.pipeline.planning import Plans, keep_plans, kept_plans, plan_case
from metric_benchmark.pipeline.saved import require_evidence_or_nothing
from metric_benchmark.records.correlation import PowerPlan, PowerPoint

_MOST_OPTIONS = 5
#: Of a plot, by the ending of its file.
_FORMATS: Mapping[str, Literal["svg", "png"]] = {".svg": "svg", ".png": "png"}


def power_plans(experiment: Experiment, kept_in: EvidenceRoot | None) -> dict[str, PowerPlan]:
    """Simulates every case at its own size; takes some seconds a case.

    Args:
        experiment: the experiment.
        kept_in: evidence beside which plans are kept; those it has are not simulated again.
    """
    if kept_in is not None:
        require_evidence_or_nothing(kept_in)
    found = kept_plans(kept_in, experiment) if kept_in is not None else Plans()
    if found.problem is not None:
        warn(found.problem)
    plans: dict[str, PowerPlan] = {}
    with working() as tell:
        for case in experiment.cases:
            if case.case_id not in found.cases:
                tell(f"simulating case {case.case_id}")
            plans[case.case_id] = found.cases.get(case.case_id) or plan_case(experiment, case)
    if kept_in is not None and plans != found.cases:
        _keep(kept_in, experiment, Plans(plans, found.settling))
    return plans


def _keep(root: EvidenceRoot, experiment: Experiment, plans: Plans) -> None:
    """Keeps plans unless somebody works on the whole evidence: what was simulated is worth showing all the same."""
    try:
        with lock_root(root, "shared"):
            keep_plans(root, experiment, plans)
    except LockedError as error:
        warn(f"this plan is not kept beside the evidence, so that its report will not have it: {error}")


def check_plot(path: Path) -> None:
    """Refuses a file whose ending names no format a plot can have.

    Raises:
        BadParameter: it does not.
    """
    if path.suffix.lower() not in _FORMATS:
        found = f"it ends in {path.suffix!r}" if path.suffix else "it has no ending"
        raise typer.BadParameter(f"{path}: {found}; expected .svg or .png", param_hint="--plot")


def write_plot(path: Path, plans: Mapping[str, PowerPlan]) -> None:
    """Draws the power of all cases into a file; its ending says the format."""
    from metric_benchmark.reporting.power_plot import plot_power

    write_bytes(path.absolute(), plot_power(plans, _FORMATS[path.suffix.lower()]))


def say_power(case_id: str, plan: PowerPlan) -> None:
    """Prints what a case's design can show, and what would show more."""
    say()
    effect = f", minimum effect {plan.minimum_effect:g}" if plan.minimum_effect else ""
    family = f", one of {plan.n_family} claims" if plan.n_family > 1 else ""
    say(f"case {case_id}: power at alpha = {plan.alpha:g}{effect}{family}, simulated (not a promise: worlds differ)")
    say_table(["association", "found in"], _curve_rows(plan.curve))
    if plan.smallest_effect is not None:
        say(f"smallest association found with {plan.target_power:.0%} power: {plan.smallest_effect:.2f}")
    else:
        say(f"no association that was simulated is found with {plan.target_power:.0%} power")
    if plan.options:
        say()
        options = [
            [option.change, option.extra_trials, f"{option.power:.0%}"] for option in plan.options[:_MOST_OPTIONS]
        ]
        say_table(["enlarged to", "more trials", "found in"], options)
    say()
    say(plan.advice)
    for text in plan.notes:
        say(f"- {text}")


def _curve_rows(curve: Sequence[PowerPoint]) -> list[list[object]]:
    """Returns the curve by rising association; links that show as the same one are one row, their mean."""
    alike: dict[float | None, list[PowerPoint]] = {}
    for point in curve:
        alike.setdefault(None if point.effect is None else round(point.effect, 3) + 0.0, []).append(point)
    rows: list[list[object]] = []
    for effect in sorted(alike, key=lambda effect: (effect is None, effect or 0.0)):
        points = alike[effect]
        power, stderr = fmean(p.power for p in points), fmean(p.stderr for p in points)
        rows.append([effect, f"{power:.0%} (+-{stderr:.0%})"])
    return rows
