# SPDX-License-Identifier: Apache-2.0
"""Bootstraps: replicates against a plain loop, the interval's formula, attempts, single tasks, opaque metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from metric_benchmark.correlation import (
    Bootstrap,
    mutant_bootstrap,
    partial_spearman_given_size,
    task_value_bootstrap,
    two_way_bootstrap,
)
from metric_benchmark.correlation.replicates import RankStatistic, block_streams, double_ranks
from metric_benchmark.records.base import Defined


def random_case(seed, n_subsets=60, n_tasks=15, n_mutants=8, n_items=11):
    rng = np.random.default_rng(seed)
    membership = rng.random((n_subsets, n_tasks)) < rng.uniform(0.1, 0.6, (n_subsets, 1))
    membership[:, 0] |= ~membership.any(axis=1)
    cover = rng.random((n_tasks, n_items)) < 0.2
    kills = cover[:, :n_mutants] & (rng.random((n_tasks, n_mutants)) < 0.6)
    return membership, kills, cover


def plain(membership, kills, cover):
    score = ((membership.astype(int) @ kills.astype(int)) > 0).sum(axis=1)
    coverage = ((membership.astype(int) @ cover.astype(int)) > 0).sum(axis=1)
    found = partial_spearman_given_size(coverage, score, membership.sum(axis=1))
    return found.value if isinstance(found, Defined) else math.nan


def test_every_replicate_is_what_a_plain_loop_gives():
    membership, kills, cover = random_case(1)
    found = two_way_bootstrap(membership, kills, cover, seed=9, n_replicates=60)
    assert found.observed == pytest.approx(plain(membership, kills, cover), abs=1e-12)
    slow = []
    for rng, n in block_streams(9, 3, 60):
        tasks, mutants = rng.integers(0, 15, (n, 15)), rng.integers(0, 8, (n, 8))
        slow += [plain(membership, kills[t][:, m], cover[t]) for t, m in zip(tasks, mutants, strict=True)]
    assert np.allclose(found.replicates, slow, atol=1e-12, equal_nan=True)


def test_the_interval_is_fishers_z_with_the_bootstrap_deviation():
    replicates = np.array([0.1, 0.3, 0.5, np.nan, 1.0])
    boot = Bootstrap(observed=0.4, replicates=replicates, resampled="tasks_and_mutants")
    stderr = np.std(np.arctanh([0.1, 0.3, 0.5, 0.999]), ddof=1)  # 1.0 is clipped, the undefined one left out
    assert boot.stderr_z == pytest.approx(stderr)
    assert boot.n_undefined == 1
    low, high = boot.interval(0.9)
    reach = norm.ppf(0.95) * stderr
    assert (low, high) == pytest.approx((np.tanh(np.arctanh(0.4) - reach), np.tanh(np.arctanh(0.4) + reach)))


def test_same_seed_same_result_whatever_the_number_of_processes():
    case = random_case(2)
    one, two = (two_way_bootstrap(*case, seed=4, n_replicates=120, processes=n) for n in (1, 2))
    assert np.array_equal(one.replicates, two.replicates, equal_nan=True)


def test_mutants_that_no_task_kills_count_as_not_detected():
    membership, kills, cover = random_case(3)
    kills[:, 3:] = False
    found = two_way_bootstrap(membership, kills, cover, seed=5, n_replicates=50)
    (rng, n), *_ = block_streams(5, 3, 50)
    tasks, mutants = rng.integers(0, 15, (n, 15)), rng.integers(0, 8, (n, 8))
    assert found.replicates[7] == pytest.approx(
        plain(membership, kills[tasks[7]][:, mutants[7]], cover[tasks[7]]), abs=1e-12, nan_ok=True
    )


def test_a_case_without_kills_has_no_defined_replicate():
    membership, kills, cover = random_case(4)
    found = two_way_bootstrap(membership, np.zeros_like(kills), cover, seed=5, n_replicates=50)
    assert math.isnan(found.observed)
    assert found.n_undefined == 50
    assert math.isnan(found.stderr_z)


class FewerKills:
    """Stands for resampled attempts: every kill is seen with chance one half."""

    def __init__(self, kills):
        self.kills = kills

    def __call__(self, rng):
        return self.kills & (rng.random(self.kills.shape) < 0.5)


def test_attempts_are_redrawn_once_per_replicate():
    membership, kills, cover = random_case(5)
    found = two_way_bootstrap(membership, kills, cover, seed=6, n_replicates=20, redraw=FewerKills(kills))
    assert found.resampled == "tasks_mutants_and_attempts"
    ((rng, n),) = block_streams(6, 3, 20)
    tasks, mutants = rng.integers(0, 15, (n, 15)), rng.integers(0, 8, (n, 8))
    slow = [
        plain(membership, (kills & (rng.random(kills.shape) < 0.5))[t][:, m], cover[t])
        for t, m in zip(tasks, mutants, strict=True)
    ]
    assert np.allclose(found.replicates, slow, atol=1e-12, equal_nan=True)


def test_mutants_alone_are_redrawn_for_an_opaque_metric():
    membership, kills, _ = random_case(6)
    coverage = np.random.default_rng(1).random(len(membership))
    found = mutant_bootstrap(membership, kills, coverage, seed=3, n_replicates=50)
    ((rng, n),) = block_streams(3, 4, 50)
    weight = rng.multinomial(8, np.full(8, 1 / 8), size=n)
    detected = (membership.astype(int) @ kills.astype(int)) > 0
    expected = partial_spearman_given_size(coverage, detected @ weight[5], membership.sum(axis=1))
    assert found.replicates[5] == pytest.approx(expected.value, abs=1e-12)
    assert found.resampled == "mutants"


def test_single_tasks_are_redrawn_with_their_value():
    _, kills, _ = random_case(7)
    values = np.random.default_rng(2).random(15)
    found = task_value_bootstrap(kills, values, seed=3, n_replicates=50)
    assert found.observed == pytest.approx(spearmanr(values, kills.sum(axis=1)).statistic, abs=1e-12)
    ((rng, n),) = block_streams(3, 5, 50)
    tasks = rng.integers(0, 15, (n, 15))
    weight = rng.multinomial(8, np.full(8, 1 / 8), size=n)
    expected = spearmanr(values[tasks[4]], (kills @ weight[4])[tasks[4]]).statistic
    assert found.replicates[4] == pytest.approx(expected, abs=1e-12)


def test_ranks_by_counting_are_average_ranks():
    values = np.array([[3, 1, 3, 0], [2, 2, 2, 2]])
    # Average ranks 3.5 2 3.5 1 and four times 2.5; centred at 2.5 and doubled.
    assert double_ranks(values).tolist() == [[2, -1, 2, -3], [0, 0, 0, 0]]
    far_apart = np.array([[10**6, 0, 10**6, 5]])
    assert double_ranks(far_apart).tolist() == [[2, -3, 2, -1]]


def test_the_statistic_is_plain_where_sizes_do_not_differ():
    assert RankStatistic.given(np.array([3, 3, 3])).name == "spearman"
    assert RankStatistic.given(np.array([3, 2, 3])).name == "partial_spearman_given_size"
    assert RankStatistic.given(np.array([], dtype=np.int64)).name == "spearman"
