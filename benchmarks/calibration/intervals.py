# SPDX-License-Identifier: Apache-2.0
"""How often 95% intervals hold the value they claim to hold: ours, percentile, BCa, and Fisher z with K pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from tables import Simulator, table
from worlds import detected, sizes_for, world

from metric_benchmark.config.models import KillRuleConfig
from metric_benchmark.correlation import two_way_bootstrap
from metric_benchmark.correlation.replicates import RankStatistic, double_ranks
from metric_benchmark.correlation.worlds import draw_membership
from metric_benchmark.scoring.counts import AttemptRedraw, kills_from_counts

B, Z = 400, float(norm.ppf(0.975))
METHODS = ("ours", "percentile", "BCa", "Fisher z, K pairs")
RULE = KillRuleConfig(name="exact")


@dataclass(frozen=True)
class Setting:
    """One row of the table; `attempts` = (baseline, mutant) or none for kills without noise."""

    name: str
    world: str
    link: float
    n_tasks: int = 40
    n_mutants: int = 20
    n_subsets: int = 200
    attempts: tuple[int, int] | None = None
    redraw: bool = False


SETTINGS = [
    Setting(f"{w}, {label}", w, link, n_tasks, n_mutants)
    for w in ("items", "topics")
    for label, link, n_tasks, n_mutants in (
        ("no link", 0.0, 40, 20),
        ("link", 1.0, 40, 20),
        ("link, large", 1.0, 100, 50),
        ("link, T = 12", 1.0, 12, 20),
        ("link, M = 6", 1.0, 40, 6),
    )
] + [
    Setting("items, link, 10 + 5 attempts", "items", 1.0, attempts=(10, 5)),
    Setting("items, link, 10 + 5 attempts, redrawn", "items", 1.0, attempts=(10, 5), redraw=True),
]


def draw(rng: np.random.Generator, s: Setting) -> tuple[np.ndarray, np.ndarray, AttemptRedraw | None]:
    faults, cover = world(s.world, s.link).draw(rng, s.n_tasks, s.n_mutants)
    if s.attempts is None:
        return faults, cover, None
    n0 = np.full(s.n_tasks, s.attempts[0])
    n = np.full(faults.shape, s.attempts[1])
    baseline, mutant = rng.binomial(n0, 0.95), rng.binomial(n, np.where(faults, 0.2, 0.95))
    redraw = AttemptRedraw(RULE, 2, baseline, n0, mutant, n)
    return kills_from_counts(RULE, baseline, n0, mutant, n, min_valid=2), cover, redraw


def design(s: Setting) -> np.ndarray:
    """The subsets stay the same over all redraws: the interval is about this design."""
    return draw_membership(np.random.default_rng(11), s.n_subsets, s.n_tasks, sizes_for(s.n_tasks))


def statistic(member: np.ndarray, kills: np.ndarray, cover: np.ndarray) -> float:
    found = RankStatistic.given(member.sum(1))(
        double_ranks(detected(member, cover).sum(1)[None, :].astype(np.int64)),
        double_ranks(detected(member, kills).sum(1)[None, :].astype(np.int64)),
    )
    return float(found[0])


def truth(rng: np.random.Generator, s: Setting) -> float:
    kills, cover, _ = draw(rng, s)
    return statistic(design(s), kills, cover)


def one(rng: np.random.Generator, s: Setting) -> dict[str, tuple[float, float]] | None:
    member = design(s)
    kills, cover, redraw = draw(rng, s)
    boot = two_way_bootstrap(
        member, kills, cover, seed=int(rng.integers(2**62)), n_replicates=B, redraw=redraw if s.redraw else None
    )
    values = boot.replicates[~np.isnan(boot.replicates)]
    if math.isnan(boot.observed) or len(values) < B / 2:
        return None
    centre = math.atanh(max(-0.999, min(0.999, boot.observed)))
    reach = Z * 1.06 / math.sqrt(s.n_subsets - 4)
    return {
        "ours": boot.interval(0.95),
        "percentile": tuple(np.quantile(values, [0.025, 0.975])),
        "BCa": _bca(boot.observed, values, _jackknife(member, kills, cover)),
        "Fisher z, K pairs": (math.tanh(centre - reach), math.tanh(centre + reach)),
    }


def shift(rng: np.random.Generator, s: Setting) -> tuple[float, float, float] | None:
    """How far the replicates' mean lies from the estimate, and both ends of the percentile interval."""
    kills, cover, _ = draw(rng, s)
    boot = two_way_bootstrap(design(s), kills, cover, seed=int(rng.integers(2**62)), n_replicates=B)
    values = boot.replicates[~np.isnan(boot.replicates)]
    if math.isnan(boot.observed) or len(values) < B / 2:
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(values.mean()) - boot.observed, float(low), float(high)


def _jackknife(member: np.ndarray, kills: np.ndarray, cover: np.ndarray) -> np.ndarray:
    """Influence of each task and each mutant, by leaving it out."""
    by_task = []
    for task in range(member.shape[1]):
        kept = np.delete(np.arange(member.shape[1]), task)
        rows = member[:, kept].any(1)
        by_task.append(statistic(member[rows][:, kept], kills[kept], cover[kept]))
    by_mutant = [statistic(member, np.delete(kills, j, 1), cover) for j in range(kills.shape[1])]
    parts = [(np.nanmean(v) - np.array(v)) / len(v) for v in (by_task, by_mutant)]
    return np.nan_to_num(np.concatenate(parts))


def _bca(observed: float, values: np.ndarray, influence: np.ndarray) -> tuple[float, float]:
    below = (np.sum(values < observed) + 0.5 * np.sum(values == observed)) / len(values)
    bias = norm.ppf(np.clip(below, 1e-3, 1 - 1e-3))
    scale = 6 * np.sum(influence**2) ** 1.5
    acceleration = np.sum(influence**3) / scale if scale > 0 else 0.0
    levels = [norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in (-Z, Z)]
    return tuple(np.quantile(values, levels))


def shifts(simulator: Simulator, scale: float) -> str:
    rows = []
    for s in SETTINGS:
        if s.attempts is None and (s.n_tasks, s.n_mutants) == (40, 20):
            found = np.array([f for f in simulator.run(shift, max(20, round(300 * scale)), s) if f])
            rows.append([s.name, *(float(x) for x in found.mean(axis=0)), len(found)])
    return (
        "Where the replicates lie: how far their mean is from the estimate, and the ends of 95% percentile intervals, "
        "means over cases.\n\n" + table(["setting", "shift", "percentile, low", "percentile, high", "cases"], rows)
    )


def report(simulator: Simulator, scale: float) -> str:
    rows = []
    for s in SETTINGS:
        value = float(np.nanmean(simulator.run(truth, max(200, round(2000 * scale)), s)))
        found = [f for f in simulator.run(one, max(20, round(300 * scale)), s) if f]
        cells = []
        for method in METHODS:
            ends = np.array([f[method] for f in found])
            cells.append(
                f"{np.mean((ends[:, 0] <= value) & (value <= ends[:, 1])):.2f} ({np.mean(ends[:, 1] - ends[:, 0]):.2f})"
            )
        rows.append([s.name, s.n_tasks, s.n_mutants, value, *cells, len(found)])
    return (
        "Share of 95% intervals that hold the expected value of this very design (K = 200, tasks and mutants redrawn, "
        f"attempts as run), and their mean width; {B} resamples.\n\n"
        + table(["setting", "T", "M", "expected partial", *METHODS, "cases"], rows)
        + f"\n\n{shifts(simulator, scale)}"
    )
