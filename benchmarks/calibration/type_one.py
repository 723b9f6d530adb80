# SPDX-License-Identifier: Apache-2.0
"""How often tests reject at nominal .05 where coverage says nothing about kills."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import spearmanr
from scipy.stats import t as student
from tables import Simulator, table
from worlds import detected, membership, world

from metric_benchmark.correlation import task_permutation_test, which_items_test
from metric_benchmark.correlation.replicates import RankStatistic, double_ranks

N_TASKS, N_MUTANTS, B = 40, 20, 199
TESTS = ("naive", "partial t", "within size", "tasks", "blocks of 4", "tasks, kills moved")
DESIGNS = ("base", "rich", "nested", "one-size", "guided")


def one(rng: np.random.Generator, name: str, design: str, n_subsets: int) -> dict[str, float]:
    kills, cover = world(name, 0.0, rich=design == "rich").draw(rng, N_TASKS, N_MUTANTS)
    member = membership(design, rng, n_subsets, N_TASKS, cover)
    coverage, score, size = detected(member, cover).sum(1), detected(member, kills).sum(1), member.sum(1)
    if np.ptp(coverage) == 0 or np.ptp(score) == 0:
        return dict.fromkeys([*TESTS, "spearman", "partial"], math.nan)
    seed = int(rng.integers(2**62))
    tasks = task_permutation_test(member, kills, cover, seed=seed, n_replicates=B)
    blocks = which_items_test(member, kills, cover, seed=seed, n_replicates=B)
    moved = task_permutation_test(member, kills, cover, seed=seed, n_replicates=B, permuted="kills")
    rho = spearmanr(coverage, score, alternative="greater")
    return {
        "naive": float(rho.pvalue),
        "partial t": _partial_t(tasks.observed, n_subsets, np.ptp(size) > 0),
        "within size": _within_size(rng, coverage, score, size),
        "tasks": tasks.p_value(),
        "blocks of 4": blocks.p_value(),
        "tasks, kills moved": moved.p_value(),
        "spearman": float(rho.statistic),
        "partial": tasks.observed,
    }


def _partial_t(r: float, n: int, given_size: bool) -> float:
    freedom = n - 3 if given_size else n - 2
    return float(student.sf(r * math.sqrt(freedom / max(1 - r * r, 1e-12)), freedom))


def _within_size(rng: np.random.Generator, coverage: np.ndarray, score: np.ndarray, size: np.ndarray) -> float:
    """Shuffles coverage among subsets of one size, as if pairs were independent."""
    base = np.argsort(size, kind="stable")
    order = np.argsort(rng.random((B, len(size))) + size, axis=1)
    shuffled = np.empty((B + 1, len(size)), dtype=np.int64)
    shuffled[:, base] = coverage[np.vstack([base[None, :], order])]
    statistic = RankStatistic.given(size)
    values = statistic(double_ranks(shuffled), double_ranks(score[None, :].astype(np.int64)))
    return float((1 + np.sum(~(values[1:] < values[0] - 1e-12))) / (B + 1))


def report(simulator: Simulator, scale: float) -> str:
    rows = []
    for name in ("items", "topics"):
        for design in DESIGNS:
            for n_subsets, n in ((50, 400), (200, 400), (1000, 150)):
                found = simulator.run(one, max(20, round(n * scale)), name, design, n_subsets)
                rates = [
                    float(np.nanmean([f[test] <= 0.05 + 1e-9 for f in found if f[test] == f[test]])) for test in TESTS
                ]
                means = [float(np.nanmean([f[key] for f in found])) for key in ("spearman", "partial")]
                rows.append([name, design, n_subsets, *rates, *means, len(found)])
    return (
        "Share of simulated cases in which a test rejects at .05 although coverage says nothing about kills "
        f"(T = {N_TASKS}, M = {N_MUTANTS}; {B} permutations). In `rich`, tasks with many items also kill more: there "
        "rejecting is right for `tasks` and wrong for `blocks of 4`. In `guided`, subsets were chosen by their "
        "coverage: "
        "there `tasks, kills moved` is the test to use.\n\n"
        + table(["world", "subsets", "K", *TESTS, "mean rho", "mean partial", "cases"], rows)
    )
