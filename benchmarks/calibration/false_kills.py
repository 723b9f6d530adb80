# SPDX-License-Identifier: Apache-2.0
"""How often kill rules "detect" a mutant that is the baseline itself, by the size of the suite."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr
from tables import Simulator, table

from metric_benchmark.config.models import KillRuleConfig
from metric_benchmark.correlation.worlds import draw_membership
from metric_benchmark.scoring.counts import kills_from_counts

SIZES = (5, 10, 20, 40)
N_TASKS, N_MUTANTS = 40, 40
RULES = {
    "any attempt fails, tasks chosen on the same attempts": None,
    "any attempt fails, separate screening": KillRuleConfig(name="deterministic"),
    "threshold .5": KillRuleConfig(name="threshold", drop=0.5),
    "exact, Fisher": KillRuleConfig(name="exact", test="fisher"),
    "exact, Boschloo": KillRuleConfig(name="exact"),
}
DESIGNS = ((6, 3), (5, 5), (10, 5), (20, 10))


def one(rng: np.random.Generator, n0: int, n: int, broken: float) -> dict[str, list[float]]:
    """False-detection rate by size and the correlation of size and score, for each rule.

    With `broken` above 0 that share of a mutant's tasks is really affected, and false kills are counted on the rest.
    """
    rate = rng.beta(9, 1, N_TASKS)
    screened = rng.binomial(5, rate) >= 4
    baseline = rng.binomial(n0, rate)
    affected = rng.random((N_TASKS, N_MUTANTS)) < broken
    passed = rng.binomial(n, np.where(affected, 0.3 * rate[:, None], rate[:, None]))
    members = [draw_membership(rng, 100, N_TASKS, (size,)) for size in SIZES]
    found: dict[str, list[float]] = {}
    for name, rule in RULES.items():
        if rule is None:
            kills = (baseline == n0)[:, None] & (passed < n)
        else:
            total = np.full(N_TASKS, n0)
            kills = kills_from_counts(
                rule, baseline[screened], total[screened], passed[screened], np.full((screened.sum(), N_MUTANTS), n),
                min_valid=2,
            )  # fmt: skip
            everything = np.zeros((N_TASKS, N_MUTANTS), dtype=bool)
            everything[screened] = kills
            kills = everything
        false = kills & ~affected
        rates = [float(((member.astype(float) @ false) > 0).mean()) for member in members]
        scores = np.concatenate([((member.astype(float) @ false) > 0).mean(1) for member in members])
        size = np.repeat(SIZES, 100)
        rho = float(spearmanr(size, scores).statistic) if np.ptp(scores) > 0 else np.nan
        found[name] = [*rates, rho]
    return found


def report(simulator: Simulator, scale: float) -> str:
    parts = []
    for broken, title in (
        (0.0, "Mutants that are the baseline under another name: share of subsets that detect them, by subset size."),
        (0.5, "Mutants that break half the suite: share of subsets with a false kill among their unaffected tasks."),
    ):
        rows = []
        for n0, n in DESIGNS:
            found = simulator.run(one, max(10, round(100 * scale)), n0, n, broken)
            for name in RULES:
                values = np.array([f[name] for f in found])
                means = [float(x) for x in values[:, :-1].mean(0)]
                rho = values[:, -1][~np.isnan(values[:, -1])]
                rows.append([f"{n0} + {n}", name, *means, float(rho.mean()) if len(rho) else float("nan")])
        header = ["attempts", "rule", *(f"{size} tasks" for size in SIZES), "rho of size and false score"]
        parts.append(f"{title}\n\n{table(header, rows)}")
    return (
        f"T = {N_TASKS}; the agent passes a task with a probability drawn from Beta(9, 1), 90% on average; screening "
        "by 5 "
        "separate attempts, 4 of which must pass.\n\n" + "\n\n".join(parts)
    )
