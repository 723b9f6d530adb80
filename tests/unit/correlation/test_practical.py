# SPDX-License-Identifier: Apache-2.0
"""Descriptive measures: agreement, gains over size, by worked-out values."""

from __future__ import annotations

import numpy as np
import pytest

from metric_benchmark.correlation import estimate_practical_value
from metric_benchmark.correlation.practical import heldout_gain, size_concordance, top_decile_gain
from metric_benchmark.records.base import Defined, Undefined


def test_only_subsets_of_one_size_are_compared():
    # Size 1: (1,1) (2,3) concordant. Size 2: (5,2) (6,1) discordant, (6,2) tied with each. Across sizes: not counted.
    found = size_concordance([1, 2, 5, 6, 6], [1, 3, 2, 1, 2], [1, 1, 2, 2, 2])
    assert (found.n_pairs, found.n_tied) == (2, 2)
    assert found.concordance == Defined(value=0.0)
    assert found.agreement == Defined(value=0.5)


def test_agreement_is_undefined_where_everything_ties():
    found = size_concordance([1, 1], [1, 2], [1, 1])
    assert found.concordance == Undefined(reason="all_pairs_tied")


def test_gain_of_the_top_tenth_over_its_own_size():
    # Ten subsets of size 3: the one with the most coverage scores .9, all ten average .45.
    coverage, score = np.arange(10.0), np.arange(10.0) / 10
    gain, n_top = top_decile_gain(np.r_[coverage, 99.0], np.r_[score, 1.0], np.r_[np.full(10, 3), 4])
    assert n_top == 1  # the lone subset of size 4 has nothing to be compared with
    assert gain.value == pytest.approx(0.45)
    assert top_decile_gain(coverage[:9], score[:9], np.full(9, 3)) == (
        Undefined(reason="fewer_than_ten_subsets_of_any_size"), 0,
    )  # fmt: skip


def test_ties_at_the_boundary_all_belong_to_the_top():
    coverage = np.r_[np.zeros(8), 1.0, 1.0]
    score = np.r_[np.zeros(8), 1.0, 0.0]
    gain, n_top = top_decile_gain(coverage, score, np.full(10, 2))
    assert n_top == 2
    assert gain.value == pytest.approx(0.5 - 0.1)


def test_heldout_gain_tells_a_useful_metric_from_size_itself():
    rng = np.random.default_rng(3)
    size = np.repeat([2, 4, 6], 40)
    quality = rng.random(120)
    detected = rng.random((120, 60)) < (size / 12 + 0.4 * quality)[:, None]
    useful = heldout_gain(quality, detected, size, seed=1)
    useless = heldout_gain(rng.random(120), detected, size, seed=1)
    assert useful.value > 0.2
    assert abs(useless.value) < 0.05
    assert heldout_gain(size.astype(float), detected, size, seed=1).value == pytest.approx(0, abs=1e-9)
    assert heldout_gain(quality, detected, size, seed=1) == useful
    assert heldout_gain(quality, detected[:, :1], size, seed=1) == Undefined(reason="fewer_than_two_mutants")
    assert heldout_gain(quality, detected & False, size, seed=1) == Undefined(reason="constant_mutation_score")


def test_all_measures_of_a_small_case():
    membership = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
    kills = [[1, 0], [0, 0], [1, 1]]
    found = estimate_practical_value(membership, kills, [0.2, 0.1, 0.5, 0.3], seed=1)
    # Scores 1 0 2 1: only (subset 0, subset 3) ties.
    assert found.agreement == Defined(value=1.0)
    assert found.n_agreement_pairs == 5
    assert found.within_size.n_pairs == 3
