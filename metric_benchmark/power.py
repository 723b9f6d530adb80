# SPDX-License-Identifier: Apache-2.0
"""The power plan of an experiment: joins the kill rules of stage 2 with the simulation of stage 4."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from metric_benchmark.config.models import ScoringConfig
from metric_benchmark.correlation.planning import (
    LINKS,
    TARGET_POWER,
    Claim,
    Design,
    link_of,
    simulate_power,
    simulation_error,
    smallest_detectable_effect,
)
from metric_benchmark.correlation.worlds import ItemWorld
from metric_benchmark.limits import MIN_MUTANTS, MIN_TASKS
from metric_benchmark.records.correlation import PowerOption, PowerPlan, PowerPoint, Settling
from metric_benchmark.scoring.counts import SimulatedAttempts
from metric_benchmark.scoring.design import check_design, min_valid_attempts

#: Simulated experiments per design.
N_SIMULATIONS = 60
#: How often the baseline passes a task in the simulation, and a mutant one that its fault affects.
_BASELINE_RATE, _FAULTY_RATE = 0.95, 0.2
_GOOD_TASKS, _GOOD_MUTANTS, _GOOD_SUBSETS = 40, 20, 200

type Simulate = Callable[[Design], PowerPoint]


def plan_power(
    design: Design,
    scoring: ScoringConfig,
    claim: Claim,
    *,
    seed: int = 0,
    n_simulations: int = N_SIMULATIONS,
    with_options: bool = True,
) -> PowerPlan:
    """Simulates an experiment of the given size, and enlarged versions of it.

    The simulated world is `correlation.worlds.ItemWorld`: whether the experiment at hand is like it nobody knows, so
    the numbers compare designs rather than promise a result.

    Args:
        design: the experiment's size.
        scoring: its kill rule.
        claim: what is decided.
        seed: of the simulation.
        n_simulations: simulated experiments per design.
        with_options: whether to simulate enlarged designs as well.
    """
    curve = [_simulator(scoring, claim, link, seed, n_simulations)(design) for link in LINKS]
    base, planned = curve[-1], _simulator(scoring, claim, LINKS[-1], seed, n_simulations)
    options = _options(design, scoring, base, planned) if with_options else []
    lead = f"power is {base.power:.2f}, that is, a true link is found in {base.power:.0%} of such experiments"
    return PowerPlan(
        seed=seed,
        target_power=TARGET_POWER,
        alpha=claim.alpha,
        planned_link=LINKS[-1],
        curve=curve,
        smallest_effect=smallest_detectable_effect(curve),
        options=options,
        advice=_advice(lead, f"the design suffices: {lead} with {design.n_trials} trials", base, options, design),
        notes=_notes(design, scoring, claim, curve),
        n_tasks=design.n_tasks,
        n_mutants=design.n_mutants,
        n_subsets=design.n_subsets,
        n_baseline=design.n_baseline,
        n_mutant=design.n_mutant,
        minimum_effect=claim.minimum_effect,
        n_family=claim.n_family,
    )


def plan_settling(
    design: Design,
    scoring: ScoringConfig,
    claim: Claim,
    effect: float | None,
    curve: Sequence[PowerPoint],
    *,
    seed: int = 0,
    n_simulations: int = N_SIMULATIONS,
) -> Settling:
    """Simulates what would settle a claim that stayed open, if the association is what was estimated.

    No simulated world has an association the other way. An estimate that points there is taken for none, and nothing is
    proposed to be bought on it.

    Args:
        design: the experiment's size.
        scoring: its kill rule.
        claim: what was decided.
        effect: the calibrated association that was estimated, in the claim's direction; None where there is none.
        curve: the plan of this very design, which says the link that shows as such an effect.
        seed: of the simulation.
        n_simulations: simulated experiments per design.
    """
    link = LINKS[-1] if effect is None else link_of(effect, curve)
    simulate = _simulator(scoring, claim, link, seed, n_simulations, with_refuted=True)

    def settled(of: Design) -> PowerPoint:
        found = simulate(of)
        share = found.power + (found.p_refuted or 0.0)
        return found.model_copy(update={"power": share, "stderr": simulation_error(share, n_simulations)})

    base = settled(design)
    options = _options(design, scoring, base, settled) if effect is None or effect >= 0 else []
    where, claimed = "at the strongest link that was simulated", "it is"
    if effect is not None and effect < 0:
        where = f"if there is no association (the estimate here, −{-effect:.2f}, points the other way)"
        claimed = "there is one of"
    elif effect is not None:
        is_shown = any(point.effect is not None and point.effect >= effect for point in curve)
        beyond = f"{where}, which shows as less than the {effect:+.2f} estimated here"
        where = f"if the association is {effect:+.2f} as estimated" if is_shown else beyond
    lead = (
        f"{where}, {base.power:.0%} of experiments of this size either support or refute that {claimed} at least "
        f"{claim.minimum_effect:g}"
    )
    return Settling(
        effect=effect,
        minimum_effect=claim.minimum_effect,
        share=base.power,
        stderr=base.stderr,
        options=options,
        advice=_advice(lead, f"{lead}: new data of this size will probably do", base, options, design),
    )


def single_changes(design: Design, scoring: ScoringConfig) -> Iterable[tuple[str, dict[str, int]]]:
    """Yields ways to enlarge a design, one thing at a time: subsets cost nothing, the rest costs trials.

    A change says what there is afterwards in all, not what is added.
    """
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


def _simulator(
    scoring: ScoringConfig, claim: Claim, link: float, seed: int, n_simulations: int, *, with_refuted: bool = False
) -> Simulate:
    def simulate(of: Design) -> PowerPoint:
        observe = SimulatedAttempts(
            scoring.kill_rule, min_valid_attempts(scoring), of.n_baseline, of.n_mutant, _BASELINE_RATE, _FAULTY_RATE
        )
        return simulate_power(
            of,
            ItemWorld(link=link),
            observe,
            claim,
            seed=seed,
            n_simulations=n_simulations,
            with_refuted=with_refuted,
        )

    return simulate


def _options(design: Design, scoring: ScoringConfig, base: PowerPoint, simulate: Simulate) -> list[PowerOption]:
    """Simulates single changes, best value first, then combinations of them where no single one suffices."""
    changes = dict(single_changes(design, scoring))
    bigger = {change: replace(design, **sizes) for change, sizes in changes.items()}
    options = [_option(change, of, simulate, design) for change, of in bigger.items() if _has_its_subsets(of)]
    options.sort(key=lambda found: (found.power - base.power) / max(found.extra_trials, 1), reverse=True)
    if not any(_suffices(found.power, found) for found in options) and not _suffices(base.power, design):
        order = sorted((found.change for found in options), key=lambda change: not _is_needed(design, changes[change]))
        # So many subsets are only there once there are more tasks.
        order += [change for change, of in bigger.items() if not _has_its_subsets(of)]
        options += _combine(design, {change: changes[change] for change in order}, simulate)
    return options


def _combine(design: Design, changes: Mapping[str, Mapping[str, int]], simulate: Simulate) -> list[PowerOption]:
    """Adds changes to one another in their order until power suffices; one that adds nothing new is left out."""
    found: list[PowerOption] = []
    names: list[str] = []
    bigger = design
    for change, sizes in changes.items():
        if replace(bigger, **sizes) == bigger or any(getattr(bigger, name) > size for name, size in sizes.items()):
            continue
        if not _has_its_subsets(replace(bigger, **sizes)):
            continue
        bigger = replace(bigger, **sizes)
        names.append(change)
        if len(names) > 1:
            found.append(_option(" + ".join(names), bigger, simulate, design))
            if _suffices(found[-1].power, found[-1]):
                break
    return found


def _has_its_subsets(design: Design) -> bool:
    """Whether there are that many different subsets of the design's sizes."""
    return design.n_subsets <= sum(math.comb(design.n_tasks, size) for size in set(design.sizes))


def _suffices(power: float, size: Design | PowerOption) -> bool:
    """Whether power is enough and a verdict is possible at all."""
    return power >= TARGET_POWER and size.n_tasks >= MIN_TASKS and size.n_mutants >= MIN_MUTANTS


def _is_needed(design: Design, sizes: Mapping[str, int]) -> bool:
    """Whether no verdict is possible without a change, or it costs nothing."""
    return (
        (design.n_tasks < MIN_TASKS and "n_tasks" in sizes)
        or (design.n_mutants < MIN_MUTANTS and "n_mutants" in sizes)
        or "n_subsets" in sizes
    )


def _option(change: str, bigger: Design, simulate: Simulate, base: Design) -> PowerOption:
    point = simulate(bigger)
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


def _advice(lead: str, sufficient: str, base: PowerPoint, options: Sequence[PowerOption], design: Design) -> str:
    if _suffices(base.power, design):
        return sufficient
    if not options:
        return f"{lead} with {design.n_trials} trials"
    enough = [option for option in options if _suffices(option.power, option)]
    if enough:
        best = min(enough, key=lambda option: option.extra_trials)
        kind = "combination tried" if " + " in best.change else "single change"
        return (
            f"{lead}; the cheapest {kind} that reaches {TARGET_POWER:.0%} and allows a verdict is to have "
            f"{best.change} ({best.extra_trials} trials more: {best.power:.0%})"
        )
    best = max(options, key=lambda option: option.power)
    if best.power <= base.power:
        return f"{lead}; none of the changes tried helps"
    return (
        f"{lead} and nothing that was tried reaches {TARGET_POWER:.0%}; to have {best.change} comes nearest "
        f"({best.extra_trials} trials more: {best.power:.0%})"
    )


def _notes(design: Design, scoring: ScoringConfig, claim: Claim, curve: Sequence[PowerPoint]) -> list[str]:
    check = check_design(scoring, n_baseline=design.n_baseline, n_mutant=design.n_mutant, n_tasks=design.n_tasks)
    notes = [text for text in (check.refusal, check.warning) if text]
    if design.n_tasks < MIN_TASKS:
        notes.append(f"{design.n_tasks} tasks: below {MIN_TASKS} every verdict is inconclusive")
    if design.n_mutants < MIN_MUTANTS:
        notes.append(f"{design.n_mutants} mutants: below {MIN_MUTANTS} every verdict is inconclusive")
    if claim.smallest_p > claim.alpha:
        notes.append(
            f"{claim.replicates} permutations give no adjusted p-value below {claim.smallest_p:.3g} to one of "
            f"{claim.n_family} claims, so nothing can be supported at {claim.alpha:g}; set `correlation.replicates` to "
            f"{math.ceil(claim.n_family / claim.alpha)} or more"
        )
    strongest = max((point.effect for point in curve if point.effect is not None), default=None)
    if strongest is not None and strongest < claim.minimum_effect:
        notes.append(
            f"even the strongest link that was simulated shows as {strongest:.2f}, less than the minimum effect "
            f"{claim.minimum_effect:g}"
        )
    return notes
