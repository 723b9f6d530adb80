# SPDX-License-Identifier: Apache-2.0
"""Power by simulation: what an experiment of this size can show, and what to add for the least money."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.correlation.bootstrap import two_way_bootstrap
from metric_benchmark.correlation.permutation import task_permutation_test
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

    def with_tasks(self, n_tasks: int) -> Design:
        """The same design with more tasks; subsets keep their number and their sizes."""
        return replace(self, n_tasks=n_tasks)


def simulate_power(
    design: Design,
    world: ItemWorld,
    observe: Observe,
    *,
    seed: int,
    n_simulations: int = 100,
    n_replicates: int = 199,
    alpha: float = 0.05,
    minimum_effect: float = 0.1,
    with_verdicts: bool = False,
) -> PowerPoint:
    """Simulates an experiment many times and counts how often its test rejects.

    Args:
        design: the experiment's size.
        world: the true link.
        observe: what attempts show of the faults; `scoring.counts.SimulatedAttempts`.
        seed: of the simulation.
        n_simulations: simulated experiments. The power's standard error is at most half of 1/sqrt of it.
        n_replicates: permutations (and resamples) per experiment.
        alpha: level of the claim.
        minimum_effect: of the claim; only used for verdicts.
        with_verdicts: whether to bootstrap as well and count verdicts.
    """
    children = np.random.SeedSequence(seed, spawn_key=(_PURPOSE_POWER,)).spawn(n_simulations)
    n_rejected = n_supported = n_refuted = 0
    estimates: list[float] = []
    for child in children:
        rng = np.random.default_rng(child)
        membership = draw_membership(rng, design.n_subsets, design.n_tasks, design.sizes)
        faults, cover = world.draw(rng, design.n_tasks, design.n_mutants)
        kills = observe(faults, rng)
        inner = int(rng.integers(2**63))
        found = task_permutation_test(membership, kills, cover, seed=inner, n_replicates=n_replicates)
        if math.isnan(found.observed):
            continue
        p, null = found.p_value(), found.null_mean
        n_rejected += p <= alpha + P_TOLERANCE
        if math.isnan(null):
            continue
        estimates.append(found.observed - null)
        if not with_verdicts:
            continue
        boot = two_way_bootstrap(membership, kills, cover, seed=inner, n_replicates=n_replicates)
        if not boot.stderr_z > 0:
            continue
        low, high = boot.interval(1 - 2 * alpha)
        calibrated = Calibrated(estimate=found.observed - null, low=low - null, high=high - null, null_mean=null)
        verdict = decide(calibrated, p, minimum_effect=minimum_effect, alpha=alpha).verdict
        n_supported += verdict == "supported"
        n_refuted += verdict == "refuted"
    power = n_rejected / n_simulations
    return PowerPoint(
        link=world.link,
        effect=float(np.mean(estimates)) if estimates else None,
        power=power,
        stderr=math.sqrt(power * (1 - power) / n_simulations),
        p_supported=n_supported / n_simulations if with_verdicts else None,
        p_refuted=n_refuted / n_simulations if with_verdicts else None,
        n_simulations=n_simulations,
        n_trials=design.n_trials,
    )


def power_curve(
    design: Design, observe: Observe, *, seed: int, links: Sequence[float] = LINKS, n_simulations: int = 100
) -> list[PowerPoint]:
    """Returns power along growing links between coverage and kills, weakest first."""
    return [
        simulate_power(design, ItemWorld(link=link), observe, seed=seed, n_simulations=n_simulations) for link in links
    ]


def smallest_detectable_effect(curve: Sequence[PowerPoint], target: float = TARGET_POWER) -> float | None:
    """Returns the association at which the curve first reaches the target power, between its points linearly.

    Returns:
        the expected calibrated estimate there, or `None` when no simulated link reaches the target.
    """
    points = [(point.power, point.effect) for point in curve if point.effect is not None]
    for (power_a, effect_a), (power_b, effect_b) in pairwise(points):
        if power_a < target <= power_b:
            return effect_a + (effect_b - effect_a) * (target - power_a) / (power_b - power_a)
    if points and points[0][0] >= target:
        return points[0][1]
    return None
