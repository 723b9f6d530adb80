# SPDX-License-Identifier: Apache-2.0
"""The power plan of an experiment: joins the kill rules of stage 2 with the simulation of stage 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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

    def option(change: str, bigger: Design) -> PowerOption:
        return _option(change, bigger, power_of(bigger), design)

    curve = power_curve(design, observer(design), seed=seed, n_simulations=n_simulations)
    base = power_of(design)
    changes = dict(single_changes(design, scoring)) if with_options else {}
    options = [option(change, replace(design, **sizes)) for change, sizes in changes.items()]
    options.sort(key=lambda found: (found.power - base.power) / max(found.extra_trials, 1), reverse=True)
    if not any(map(_suffices, options)) and not _is_enough(base.power, design):
        order = sorted((found.change for found in options), key=lambda change: not _is_needed(design, changes[change]))
        options += _combine(design, {change: changes[change] for change in order}, option)
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
        n_tasks=design.n_tasks,
        n_mutants=design.n_mutants,
        n_subsets=design.n_subsets,
        n_baseline=design.n_baseline,
        n_mutant=design.n_mutant,
    )


def single_changes(design: Design, scoring: ScoringConfig) -> Iterable[tuple[str, dict[str, int]]]:
    """Yields ways to enlarge a design, one thing at a time: subsets cost nothing, the rest costs trials."""
    if design.n_subsets < _GOOD_SUBSETS:
        yield f"{_GOOD_SUBSETS} subsets", {"n_subsets": _GOOD_SUBSETS}
    tasks = max(_GOOD_TASKS, 2 * design.n_tasks)
    yield f"{tasks} tasks", {"n_tasks": tasks}
    mutants = max(_GOOD_MUTANTS, 2 * design.n_mutants)
    yield f"{mutants} mutants", {"n_mutants": mutants}
    if scoring.kill_rule.name != "deterministic":
        baseline, mutant = 2 * design.n_baseline, 2 * design.n_mutant
        yield f"{mutant} attempts per mutant", {"n_mutant": mutant}
        yield f"{baseline} baseline attempts", {"n_baseline": baseline}
        yield "twice the attempts of both", {"n_baseline": baseline, "n_mutant": mutant}


def _combine(
    design: Design, changes: Mapping[str, Mapping[str, int]], option: Callable[[str, Design], PowerOption]
) -> list[PowerOption]:
    """Adds changes to one another in their order until power suffices; one that adds nothing new is left out."""
    found: list[PowerOption] = []
    names: list[str] = []
    bigger = design
    for change, sizes in changes.items():
        if replace(bigger, **sizes) == bigger or any(getattr(bigger, name) > size for name, size in sizes.items()):
            continue
        bigger = replace(bigger, **sizes)
        names.append(change)
        if len(names) > 1:
            found.append(option(" + ".join(names), bigger))
            if _suffices(found[-1]):
                break
    return found


def _suffices(found: PowerOption) -> bool:
    return found.power >= TARGET_POWER and found.n_tasks >= _LEAST_TASKS and found.n_mutants >= _LEAST_MUTANTS


def _is_enough(power: float, design: Design) -> bool:
    return power >= TARGET_POWER and design.n_tasks >= _LEAST_TASKS and design.n_mutants >= _LEAST_MUTANTS


def _is_needed(design: Design, sizes: Mapping[str, int]) -> bool:
    """Whether no verdict is possible without a change, or it costs nothing."""
    return (
        (design.n_tasks < _LEAST_TASKS and "n_tasks" in sizes)
        or (design.n_mutants < _LEAST_MUTANTS and "n_mutants" in sizes)
        or "n_subsets" in sizes
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


def _advice(base: PowerPoint, options: Sequence[PowerOption], design: Design) -> str:
    power = f"power is {base.power:.2f}, that is, a true link is found in {base.power:.0%} of such experiments"
    if _is_enough(base.power, design):
        return f"the design suffices: {power} at the planned link with {design.n_trials} trials"
    if not options:
        return f"{power} at the planned link with {design.n_trials} trials"
    enough = [option for option in options if _suffices(option)]
    if enough:
        best = min(enough, key=lambda option: option.extra_trials)
        kind = "combination tried" if " + " in best.change else "single change"
        return (
            f"{power}; the cheapest {kind} that reaches {TARGET_POWER:g} and allows a verdict is {best.change} "
            f"({best.extra_trials} trials more, power {best.power:.2f})"
        )
    best = max(options, key=lambda option: option.power)
    if best.power <= base.power:
        return f"{power}; none of the changes tried helps"
    return (
        f"{power} and nothing that was tried reaches {TARGET_POWER:g}; {best.change} comes nearest "
        f"({best.extra_trials} trials more, power {best.power:.2f})"
    )


def _notes(design: Design, scoring: ScoringConfig) -> list[str]:
    check = check_design(scoring, n_baseline=design.n_baseline, n_mutant=design.n_mutant, n_tasks=design.n_tasks)
    notes = [text for text in (check.refusal, check.warning) if text]
    if design.n_tasks < _LEAST_TASKS:
        notes.append(f"{design.n_tasks} tasks: below {_LEAST_TASKS} every verdict is inconclusive")
    if design.n_mutants < _LEAST_MUTANTS:
        notes.append(f"{design.n_mutants} mutants: below {_LEAST_MUTANTS} every verdict is inconclusive")
    return notes
