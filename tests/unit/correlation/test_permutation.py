# SPDX-License-Identifier: Apache-2.0
"""Task permutations: exact enumeration of the worked examples, agreement with a plain loop, which rows move."""

from __future__ import annotations

import json
import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_benchmark.correlation import (
    kendall_tau_b,
    partial_spearman_given_size,
    task_permutation_test,
    task_value_test,
    which_items_test,
)
from metric_benchmark.correlation.bitsets import Owners, SubsetBits, add_bits, reached
from metric_benchmark.errors import ConfigError
from metric_benchmark.records.base import Defined

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text())


def matrices(name):
    example = REFERENCE[name]
    return tuple(np.array(example[key]) for key in ("subsets_x_tasks", "kill_tasks_x_mutants", "cover_tasks_x_items"))


def random_case(seed, n_subsets=70, n_tasks=12, n_mutants=9, n_items=14):
    rng = np.random.default_rng(seed)
    membership = rng.random((n_subsets, n_tasks)) < rng.uniform(0.1, 0.6, (n_subsets, 1))
    membership[:, 0] |= ~membership.any(axis=1)
    return membership, rng.random((n_tasks, n_mutants)) < 0.2, rng.random((n_tasks, n_items)) < 0.2


def plain(membership, kills, cover, measure=partial_spearman_given_size):
    """The statistic the slow way."""
    score = ((membership.astype(int) @ kills.astype(int)) > 0).sum(axis=1)
    coverage = ((membership.astype(int) @ cover.astype(int)) > 0).sum(axis=1)
    size = membership.sum(axis=1)
    found = measure(coverage, score, size) if measure is partial_spearman_given_size else measure(coverage, score)
    return found.value if isinstance(found, Defined) else math.nan


@pytest.mark.parametrize(("name", "key", "given_size"), [
    ("E1_basic", "task_permutation_exact_spearman", False),
    ("E1_basic", "task_permutation_exact_partial_spearman", True),
    ("E2_size_confound", "task_permutation_exact_spearman", False),
    ("E4_fixed_size", "task_permutation_exact_spearman", True),
])  # fmt: skip
def test_enumerated_permutations_of_the_worked_examples(name, key, given_size):
    expected = REFERENCE[name][key]
    found = task_permutation_test(*matrices(name), seed=1, given_size=given_size)
    assert found.exact
    assert found.observed == pytest.approx(expected["observed"], abs=1e-9)
    assert len(found.replicates) == expected["n_permutations"]
    assert len(found.replicates) - found.n_undefined == expected["n_defined"]
    assert found.p_value() == expected["p_if_undefined_counted_as_ge"]
    assert round(found.p_value() * len(found.replicates)) == expected["n_ge"]
    assert found.null_mean == pytest.approx(expected["null_mean"], abs=1e-9)


def test_enumerated_kendall_of_e4():
    membership, kills, cover = matrices("E4_fixed_size")
    expected = REFERENCE["E4_fixed_size"]["task_permutation_exact_kendall_b"]
    observed = plain(membership, kills, cover, kendall_tau_b)
    replicates = [plain(membership, kills, cover[list(p)], kendall_tau_b) for p in permutations(range(5))]
    assert observed == pytest.approx(expected["observed"], abs=1e-9)
    assert sum(r >= observed - 1e-12 for r in replicates) == expected["n_ge"]
    assert np.mean(replicates) == pytest.approx(expected["null_mean"], abs=1e-9)


def test_an_undefined_observation_is_no_evidence():
    found = task_permutation_test(*matrices("E2_size_confound"), seed=1)
    assert math.isnan(found.observed)
    assert found.p_value() == 1.0
    assert found.n_undefined == 720


def test_enumeration_happens_only_where_it_is_not_more_work():
    case = matrices("E4_fixed_size")
    assert task_permutation_test(*case, seed=1, n_replicates=120).exact
    assert not task_permutation_test(*case, seed=1, n_replicates=119).exact


@pytest.mark.parametrize("permuted", ["coverage", "kills"])
def test_every_enumerated_replicate_is_what_a_plain_loop_gives(permuted):
    membership, kills, cover = random_case(3, n_tasks=5)
    found = task_permutation_test(membership, kills, cover, seed=1, permuted=permuted)
    slow = []
    for order in permutations(range(5)):
        # Slot t of the suite is filled by task order[t]: its row moves there.
        rows = list(order)
        slow.append(
            plain(membership, kills, cover[rows]) if permuted == "coverage" else plain(membership, kills[rows], cover)
        )
    assert np.allclose(np.sort(found.replicates), np.sort(slow), atol=1e-12, equal_nan=True)
    assert found.observed == pytest.approx(plain(membership, kills, cover), abs=1e-12)


@pytest.mark.parametrize("direction", ["greater", "less"])
def test_random_permutations_count_the_observed_one(direction):
    found = task_permutation_test(*random_case(5), seed=2, n_replicates=300)
    if direction == "greater":
        extreme = np.sum(found.replicates >= found.observed - 1e-12)
    else:
        extreme = np.sum(found.replicates <= found.observed + 1e-12)
    assert found.p_value(direction) == (1 + extreme) / 301
    assert not found.exact


def test_the_two_directions_overlap_only_in_ties():
    found = task_permutation_test(*random_case(6), seed=2, n_replicates=500)
    assert found.p_value("greater") + found.p_value("less") >= 1


def test_same_seed_same_result_whatever_the_number_of_processes():
    case = random_case(7)
    one = task_permutation_test(*case, seed=11, n_replicates=220)
    again = task_permutation_test(*case, seed=11, n_replicates=220, processes=2)
    assert np.array_equal(one.replicates, again.replicates, equal_nan=True)
    other = task_permutation_test(*case, seed=12, n_replicates=220)
    assert not np.array_equal(one.replicates, other.replicates)


def test_frames_and_lists_are_arrays_too():
    case = random_case(7)
    frames = tuple(pd.DataFrame(matrix.astype(int)) for matrix in case)
    lists = tuple(matrix.astype(int).tolist() for matrix in case)
    one, two, three = (task_permutation_test(*given, seed=1, n_replicates=60) for given in (case, frames, lists))
    assert one.p_value() == two.p_value() == three.p_value()


def test_more_replicates_continue_the_same_stream():
    case = random_case(8)
    few, many = (task_permutation_test(*case, seed=11, n_replicates=n) for n in (100, 200))
    assert np.array_equal(few.replicates, many.replicates[:100], equal_nan=True)


def test_which_items_swaps_only_tasks_of_about_equal_volume():
    # Blocks of four by volume: the four poor tasks, the four rich ones. Which of a block kills is what is tested.
    membership = np.vstack([np.eye(8, dtype=bool), np.roll(np.eye(8, dtype=bool), 1, axis=1) | np.eye(8, dtype=bool)])
    cover = np.zeros((8, 6), dtype=bool)
    cover[:4, 0] = True
    cover[4:, 1:] = True
    kills = cover[:, :3]
    found = which_items_test(membership, kills, cover, seed=1, n_replicates=200)
    # Inside a block all rows are equal, so every replicate is the observed one: no evidence beyond volume.
    assert found.p_value() == 1.0
    assert np.allclose(found.replicates, found.observed)
    free = task_permutation_test(membership, kills, cover, seed=1, n_replicates=200)
    assert free.p_value() < 0.1


def test_single_task_values():
    kills = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]])
    found = task_value_test(kills, [0.1, 0.2, 0.5, 0.9, 0.0], seed=1)
    assert found.exact
    assert len(found.replicates) == 120
    # Values 0 and .1 belong to the two tasks that kill nothing: they may change places, nothing else may.
    assert found.p_value() == 2 / 120
    assert found.permuted == "task_values"


@pytest.mark.parametrize(("membership", "kills", "cover", "message"), [
    ([[1, 0]], [[1], [0], [1]], [[1], [0]], r"kills: found 3 rows \(tasks\), but membership has 2 columns"),
    ([[1, 2]], [[1], [0]], [[1], [0]], r"membership: found 2 in row 0, column 1; expected 0 or 1"),
    ([[1, 0]], [[float("nan")], [0]], [[1], [0]], r"kills: found nan in row 0, column 0"),
    ([[1, 0]], [[1], [0]], [["x"], [0]], r"cover: found cells that are not numbers"),
    ([1, 0], [[1], [0]], [[1], [0]], r"membership: found 1 dimensions"),
])  # fmt: skip
def test_bad_matrices_are_refused_with_the_place(membership, kills, cover, message):
    with pytest.raises(ConfigError, match=message):
        task_permutation_test(membership, kills, cover, seed=1)


cases = st.integers(0, 10_000).flatmap(
    lambda seed: st.tuples(st.just(seed), st.integers(1, 130), st.integers(1, 9), st.integers(0, 9), st.integers(0, 70))
)


@given(cases)
@settings(max_examples=60)
def test_bitset_counts_are_those_of_matrix_products(case):
    seed, n_subsets, n_tasks, n_replicates, n_items = case
    rng = np.random.default_rng(seed)
    membership = rng.random((n_subsets, n_tasks)) < 0.4
    cover = rng.random((n_tasks, n_items)) < rng.uniform(0, 0.8)
    assignment = rng.integers(0, n_tasks, (n_replicates + 1, n_tasks))
    bits = SubsetBits(membership)
    found = bits.counts(add_bits(reached(bits.reassigned(assignment), Owners.of(cover))))
    for row, filled_by in zip(found, assignment, strict=True):
        expected = ((membership.astype(int) @ cover[filled_by].astype(int)) > 0).sum(axis=1)
        assert row.tolist() == expected.tolist()
    orders = np.array([rng.permutation(n_tasks) for _ in range(3)])
    assert np.array_equal(bits.permuted(orders), bits.reassigned(orders))


@given(cases, st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_exact_test_does_not_depend_on_labels(case, random):
    membership, kills, cover = random_case(case[0], n_subsets=20, n_tasks=4)
    task_order, item_order, subset_order = (list(range(n)) for n in (4, cover.shape[1], 20))
    for order in (task_order, item_order, subset_order):
        random.shuffle(order)
    one = task_permutation_test(membership, kills, cover, seed=1)
    two = task_permutation_test(
        membership[subset_order][:, task_order], kills[task_order], cover[task_order][:, item_order], seed=1
    )
    assert one.p_value() == two.p_value()
    assert np.allclose(one.null_mean, two.null_mean, equal_nan=True)
