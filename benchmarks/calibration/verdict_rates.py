# SPDX-License-Identifier: Apache-2.0
"""How often verdicts are supported or refuted, by the true effect, with raw and with calibrated values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tables import Simulator, table
from worlds import sizes_for, world

from metric_benchmark.correlation import decide, task_permutation_test, two_way_bootstrap
from metric_benchmark.correlation.worlds import ItemWorld, draw_membership
from metric_benchmark.records.correlation import Calibrated

B, ALPHA = 300, 0.05


@dataclass(frozen=True)
class Setting:
    """A world, a link, a design; `large` subsets hold up to 80% of the tasks, so that both curves saturate."""

    world: str
    link: float
    n_tasks: int = 40
    n_mutants: int = 20
    n_subsets: int = 200
    large: bool = False

    @property
    def label(self) -> str:
        return f"{self.world}{', large subsets' if self.large else ''}"


def draw(rng: np.random.Generator, s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = ItemWorld(link=s.link, n_items=30) if s.world == "items" else world(s.world, s.link)
    kills, cover = made.draw(rng, s.n_tasks, s.n_mutants)
    share = (0.2, 0.4, 0.6, 0.8)
    sizes = tuple(round(x * s.n_tasks) for x in share) if s.large else sizes_for(s.n_tasks)
    return draw_membership(rng, s.n_subsets, s.n_tasks, sizes), kills, cover


def effect(rng: np.random.Generator, s: Setting) -> tuple[float, float]:
    """Raw and calibrated estimate of one case; their means over cases are what an effect is."""
    found = task_permutation_test(*draw(rng, s), seed=int(rng.integers(2**62)), n_replicates=100)
    return found.observed, found.observed - found.null_mean


def one(rng: np.random.Generator, s: Setting, delta: float) -> dict[str, str] | None:
    matrices, seed = draw(rng, s), int(rng.integers(2**62))
    test = task_permutation_test(*matrices, seed=seed, n_replicates=B)
    boot = two_way_bootstrap(*matrices, seed=seed, n_replicates=B)
    if math.isnan(test.observed) or not boot.stderr_z > 0:
        return None
    low, high = boot.interval(1 - 2 * ALPHA)
    verdicts = {}
    for kind, null in (("raw", 0.0), ("calibrated", test.null_mean)):
        values = Calibrated(estimate=test.observed - null, low=low - null, high=high - null, null_mean=null)
        verdicts[kind] = decide(values, test.p_value(), minimum_effect=delta, alpha=ALPHA).verdict
    return verdicts


def report(simulator: Simulator, scale: float) -> str:
    rows = []
    for name, large in (("items", False), ("topics", False), ("items", True), ("topics", True)):
        for link in (0.0, 0.3, 0.6, 1.0):
            s = Setting(name, link, large=large)
            effects = np.array(simulator.run(effect, max(50, round(400 * scale)), s))
            raw, calibrated = (float(np.nanmean(effects[:, i])) for i in (0, 1))
            deltas = [(0.1, ".1")] + ([(calibrated, "the effect itself")] if link in (0.3, 0.6) else [])
            for delta, label in deltas:
                found = [f for f in simulator.run(one, max(20, round(300 * scale)), s, delta) if f]
                rates = [
                    float(np.mean([f[kind] == verdict for f in found]))
                    for kind in ("raw", "calibrated")
                    for verdict in ("supported", "refuted")
                ]
                rows.append([s.label, link, raw, calibrated, label, *rates, len(found)])
    return (
        "Share of verdicts (K = 200, T = 40, M = 20, alpha .05, without the bars for small designs). `effect` is the "
        "mean "
        "calibrated estimate over redrawn cases, `raw` the mean of the estimate itself.\n\n"
        + table(
            [
                "world", "link", "raw", "effect", "delta", "supported, raw", "refuted, raw", "supported, calibrated",
                "refuted, calibrated", "cases",
            ],
            rows,
        )
    )  # fmt: skip
