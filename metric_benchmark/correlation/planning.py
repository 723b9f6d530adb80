# SPDX-License-Identifier: Apache-2.0
"""Power by simulation: what an experiment of this size can show, and what to add for the least money."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.correlation.bootstrap import two_way_bootstrap
from metric_benchmark.correlation.permutation import Permutations, task_permutation_test
from metric_benchmark.correlation.verdicts import decide
from metric_benchmark.correlation.worlds import ItemWorld, draw_membership
from metric_benchmark.multiplicity import P_TOLERANCE
from metric_benchmark.records.correlation import Calibrated, PowerPoint

Bools = NDArray[np.bool_]
#: From true faults (T x M) to the kills that the attempts show (T x M).
Observe = Callable[[Bools, np.random.Generator], Bools]

#: Power that counts as enough.
TARGET_POWER = 0.8
_PURPOSE_POWER = 8
_RESAMPLES = 199
#: Permutations that are looked at first: most experiments without a link show by them that none is found.
_FIRST_PERMUTATIONS = 99
#: Links between coverage and kills along which power is simulated, weakest first; designs are compared at the last.
LINKS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Design:
    """Size of an experiment: tasks T, mutants M, subsets K, the subsets' sizes, and attempts by role."""

    n_tasks: int
    n_mutants: int
    n_subsets: int
    sizes: tuple[int, ...]
    n_baseline: int = 1
    n_mutant: int = 1
    n_screening: int = 0
    n_controls: int = 0
    n_control: int = 0

    @property
    def n_trials(self) -> int:
        """Trials to pay for."""
        per_task = self.n_baseline + self.n_screening + self.n_controls * self.n_control
        return self.n_tasks * (per_task + self.n_mutants * self.n_mutant)


@dataclass(frozen=True)
class Claim:
    """What an experiment will decide.

    Attributes:
        alpha: level of the claim.
        minimum_effect: the smallest association that would matter; 0 where nothing is claimed.
        n_family: claims that share the level by Holm's procedure. The others are taken to stay open, so that a claim's
            p-value is multiplied by their number; which is the least power it can have.
        replicates: permutations of the analysis.
    """

    alpha: float = 0.05
    minimum_effect: float = 0.0
    n_family: int = 1
    replicates: int = 2000

    @property
    def smallest_p(self) -> float:
        """The smallest adjusted p-value that so many permutations can give."""
        return min(1.0, self.n_family / (self.replicates + 1))

    @property
    def n_simulated_replicates(self) -> int:
        """Permutations of a simulated experiment: enough to tell p-values around the level, no more than are done."""
        return min(self.replicates, max(199, math.ceil(10 * self.n_family / self.alpha) - 1))


def simulate_power(
    design: Design,
    world: ItemWorld,
    observe: Observe,
    claim: Claim,
    *,
    seed: int,
    n_simulations: int = 100,
    with_refuted: bool = False,
) -> PowerPoint:
    """Simulates an experiment many times and counts its verdicts, decided as `verdicts.decide` does.

    What bars a verdict, such as too few tasks, is left out: it is known before anything is simulated.

    Args:
        design: the experiment's size.
        world: the true link.
        observe: what attempts show of the faults; `scoring.counts.SimulatedAttempts`.
        claim: what is decided.
        seed: of the simulation.
        n_simulations: simulated experiments. The power's standard error is at most half of 1/sqrt of it.
        with_refuted: whether to count how often the claim is refuted, too, which takes longer.
    """
    children = np.random.SeedSequence(seed, spawn_key=(_PURPOSE_POWER,)).spawn(n_simulations)
    n_supported = n_refuted = 0
    estimates: list[float] = []
    for child in children:
        rng = np.random.default_rng(child)
        membership = draw_membership(rng, design.n_subsets, design.n_tasks, design.sizes)
        faults, cover = world.draw(rng, design.n_tasks, design.n_mutants)
        kills = observe(faults, rng)
        inner = int(rng.integers(2**63))
        found = _test(membership, kills, cover, claim, seed=inner)
        null = found.null_mean
        if math.isnan(found.observed) or math.isnan(null):
            continue
        estimate, p_adjusted = found.observed - null, min(1.0, found.p_value() * claim.n_family)
        estimates.append(estimate)
        # Without these no interval makes the claim supported, or refuted.
        may_support = estimate >= claim.minimum_effect and p_adjusted <= claim.alpha + P_TOLERANCE
        if not may_support and not (with_refuted and estimate < claim.minimum_effect):
            continue
        boot = two_way_bootstrap(membership, kills, cover, seed=inner, n_replicates=_RESAMPLES)
        if not boot.stderr_z > 0:
            continue
        low, high = boot.interval(1 - 2 * claim.alpha)
        verdict = decide(
            Calibrated(estimate=estimate, low=low - null, high=high - null, null_mean=null),
            p_adjusted,
            minimum_effect=claim.minimum_effect,
            alpha=claim.alpha,
        ).verdict
        n_supported += verdict == "supported"
        n_refuted += verdict == "refuted"
    power = n_supported / n_simulations
    return PowerPoint(
        link=world.link,
        effect=float(np.mean(estimates)) if estimates else None,
        power=power,
        stderr=simulation_error(power, n_simulations),
        p_refuted=n_refuted / n_simulations if with_refuted else None,
        n_simulations=n_simulations,
        n_trials=design.n_trials,
    )


def _test(membership: Bools, kills: Bools, cover: Bools, claim: Claim, *, seed: int) -> Permutations:
    """Permutes on only while the claim may still be supported: the p-value cannot fall below what has exceeded already.

    The random permutations that are looked at first are the first of all.
    """
    first = task_permutation_test(membership, kills, cover, seed=seed, n_replicates=_FIRST_PERMUTATIONS)
    n_replicates = claim.n_simulated_replicates
    n_counted = first.p_value() * (_FIRST_PERMUTATIONS + 1)
    is_lost = n_counted * claim.n_family > (claim.alpha + P_TOLERANCE) * (n_replicates + 1)
    if first.exact or is_lost:
        return first
    return task_permutation_test(membership, kills, cover, seed=seed, n_replicates=n_replicates)


def simulation_error(share: float, n_simulations: int) -> float:
    """Returns the standard error of a share of simulated experiments."""
    return math.sqrt(share * (1 - share) / n_simulations)


def link_of(effect: float, curve: Sequence[PowerPoint]) -> float:
    """Returns the link at which such an experiment sees an association, between the curve's points linearly.

    Without a link there is none; what is stronger than the curve's last point is taken for that.
    """
    points = [(0.0, 0.0), *((point.effect, point.link) for point in curve if point.effect is not None)]
    effects = np.maximum.accumulate([x for x, _ in points])
    return float(np.interp(effect, effects, [link for _, link in points]))


def smallest_detectable_effect(curve: Sequence[PowerPoint], target: float = TARGET_POWER) -> float | None:
    """Returns the association at which the curve first reaches the target power, between its points linearly.

    A stronger link is not found less often, so where the curve falls it does so by chance, and its highest point so far
    is taken instead.

    Returns:
        the expected calibrated estimate there, or `None` when no simulated link reaches the target.
    """
    points = [(point.power, point.effect) for point in curve if point.effect is not None]
    powers = list(accumulate((power for power, _ in points), max))
    if powers and powers[0] >= target:
        return points[0][1]
    for (power_a, power_b), ((_, effect_a), (_, effect_b)) in zip(pairwise(powers), pairwise(points), strict=True):
        if power_a < target <= power_b:
            return effect_a + (effect_b - effect_a) * (target - power_a) / (power_b - power_a)
    return None
