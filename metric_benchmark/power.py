# SPDX-License-Identifier: Apache-2.0
"""The power plan of an experiment: joins the kill rules of stage 2 with the simulation of stage 4."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from metric_benchmark.config.models import ScoringConfig
from metric_benchmark.correlation.planning import (
    TARGET_POWER,
    Design,
    Observe,
    power_curve,
    simulate_power,
    smallest_detectable_effect,
)
from metric_benchmark.correlation.worlds import ItemWorld
from metric_benchmark.records.correlation import PowerOption, PowerPlan, PowerPoint
from metric_benchmark.scoring.counts import SimulatedAttempts
from metric_benchmark.scoring.design import check_design, min_valid_attempts

#: Below these a verdict is inconclusive whatever the power (3 of the limits in `correlation.inference`).
_LEAST_TASKS, _LEAST_MUTANTS = 20, 10
_GOOD_TASKS, _GOOD_MUTANTS, _GOOD_SUBSETS = 40, 20, 200


def plan_power(
    design: Design,
    scoring: ScoringConfig,
    *,
    seed: int = 0,
    alpha: float = 0.05,
    planned_link: float = 1.0,
    n_simulations: int = 60,
    baseline_rate: float = 0.95,
    faulty_rate: float = 0.2,
    with_options: bool = True,
) -> PowerPlan:
    """Simulates an experiment of the given size, and enlarged versions of it.

    The simulated world is `correlation.worlds.ItemWorld`: whether the experiment at hand is like it nobody knows, so
    the numbers compare designs rather than promise a result.

    Args:
        design: the experiment's size.
        scoring: its kill rule.
        seed: of the simulation.
        alpha: level of the claim.
        planned_link: the link at which designs are compared; 1 gives a partial correlation of about .4.
        n_simulations: simulated experiments per design.
        baseline_rate: how often the baseline is expected to pass a task.
        faulty_rate: how often a mutant is expected to pass a task that its fault affects.
        with_options: whether to simulate enlarged designs as well.
    """

    def observer(of: Design) -> Observe:
        return SimulatedAttempts(
            scoring.kill_rule, min_valid_attempts(scoring), of.n_baseline, of.n_mutant, baseline_rate, faulty_rate
        )

    def power_of(of: Design) -> PowerPoint:
        world = ItemWorld(link=planned_link)
        return simulate_power(of, world, observer(of), seed=seed, n_simulations=n_simulations, alpha=alpha)

    curve = power_curve(design, observer(design), seed=seed, n_simulations=n_simulations)
    base = power_of(design)
    options = [
        _option(change, bigger, power_of(bigger), design)
        for change, bigger in (enlarged_designs(design, scoring) if with_options else ())
    ]
    options.sort(key=lambda option: (option.power - base.power) / max(option.extra_trials, 1), reverse=True)
    return PowerPlan(
        seed=seed,
        target_power=TARGET_POWER,
        alpha=alpha,
        planned_link=planned_link,
        curve=curve,
        smallest_effect=smallest_detectable_effect(curve),
        options=options,
        advice=_advice(base, options, design),
        notes=_notes(design, scoring),
    )


def enlarged_designs(design: Design, scoring: ScoringConfig) -> Iterable[tuple[str, Design]]:
    """Yields ways to enlarge a design, one thing at a time: subsets cost nothing, the rest costs trials."""
    if design.n_subsets < _GOOD_SUBSETS:
        yield f"{_GOOD_SUBSETS} subsets", replace(design, n_subsets=_GOOD_SUBSETS)
    tasks = max(_GOOD_TASKS, 2 * design.n_tasks)
    yield f"{tasks} tasks", design.with_tasks(tasks)
    mutants = max(_GOOD_MUTANTS, 2 * design.n_mutants)
    yield f"{mutants} mutants", replace(design, n_mutants=mutants)
    if scoring.kill_rule.name != "deterministic":
        more = 2 * design.n_mutant
        yield f"{more} attempts per mutant", replace(design, n_mutant=more)
        more = 2 * design.n_baseline
        yield f"{more} baseline attempts", replace(design, n_baseline=more)
        yield (
            "twice the attempts of both",
            replace(design, n_baseline=2 * design.n_baseline, n_mutant=2 * design.n_mutant),
        )


def _option(change: str, bigger: Design, point: PowerPoint, base: Design) -> PowerOption:
    return PowerOption(
        change=change,
        n_tasks=bigger.n_tasks,
        n_mutants=bigger.n_mutants,
        n_subsets=bigger.n_subsets,
        n_baseline=bigger.n_baseline,
        n_mutant=bigger.n_mutant,
        n_trials=bigger.n_trials,
        extra_trials=bigger.n_trials - base.n_trials,
        power=point.power,
        stderr=point.stderr,
    )


def _advice(base: PowerPoint, options: list[PowerOption], design: Design) -> str:
    if base.power >= TARGET_POWER:
        return f"the design suffices: power {base.power:.2f} at the planned link with {design.n_trials} trials"
    enough = [option for option in options if option.power >= TARGET_POWER]
    if enough:
        best = min(enough, key=lambda option: option.extra_trials)
        return (
            f"power is {base.power:.2f}; the cheapest single change that reaches {TARGET_POWER:g} is {best.change} "
            f"({best.extra_trials} trials more, power {best.power:.2f})"
        )
    helpful = [option for option in options if option.power > base.power]
    if helpful:
        best = helpful[0]
        return (
            f"power is {base.power:.2f} and no single change reaches {TARGET_POWER:g}; {best.change} helps most for "
            f"its price ({best.extra_trials} trials more, power {best.power:.2f}); combine several"
        )
    return f"power is {base.power:.2f}; none of the changes tried helps, so combine several"


def _notes(design: Design, scoring: ScoringConfig) -> list[str]:
    check = check_design(scoring, n_baseline=design.n_baseline, n_mutant=design.n_mutant, n_tasks=design.n_tasks)
    notes = [text for text in (check.refusal, check.warning) if text]
    if design.n_tasks < _LEAST_TASKS:
        notes.append(f"{design.n_tasks} tasks: below {_LEAST_TASKS} every verdict is inconclusive")
    if design.n_mutants < _LEAST_MUTANTS:
        notes.append(f"{design.n_mutants} mutants: below {_LEAST_MUTANTS} every verdict is inconclusive")
    return notes
