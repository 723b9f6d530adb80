# SPDX-License-Identifier: Apache-2.0
"""Pooling over cases: Paule-Mandel and Hartung-Knapp by hand, equal numbers of mutants, too few cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from metric_benchmark.correlation import (
    CaseMatrices,
    effect_at_equal_mutants,
    partial_spearman_given_size,
    pool_cases,
)
from metric_benchmark.correlation.pooling import paule_mandel
from metric_benchmark.errors import ConfigError
from metric_benchmark.records.correlation import CaseEffect


def effect(z, stderr, n_mutants=10, null=0.0):
    return CaseEffect(estimate=math.tanh(z), stderr_z=stderr, n_mutants=n_mutants, null_mean=math.tanh(null))


def test_equal_variances_worked_out_by_hand():
    # z = 0, .2, .4, each with variance .01: mean .2, sum of squares .08, so tau2 = .08 / 2 - .01 = .03.
    found = pool_cases({"a": effect(0.0, 0.1), "b": effect(0.2, 0.1), "c": effect(0.4, 0.1)})
    assert found.tau == pytest.approx(math.sqrt(0.03), abs=1e-9)
    assert found.estimate == pytest.approx(math.tanh(0.2), abs=1e-9)
    # Hartung-Knapp and Wald agree here: sqrt(.04 / 3).
    stderr = math.sqrt(0.04 / 3)
    assert found.stderr_z == pytest.approx(stderr, abs=1e-9)
    assert found.high == pytest.approx(math.tanh(0.2 + t.ppf(0.975, 2) * stderr), abs=1e-9)
    assert found.prediction_high == pytest.approx(
        math.tanh(0.2 + t.ppf(0.975, 1) * math.sqrt(0.03 + 0.04 / 3)), abs=1e-9
    )


def test_p_is_of_what_stands_beside_it_the_value_less_the_null():
    # As above, each case with a null of .1: (.2 - .1) / sqrt(.04 / 3), two-sided with t(2).
    found = pool_cases(
        {"a": effect(0.0, 0.1, null=0.1), "b": effect(0.2, 0.1, null=0.1), "c": effect(0.4, 0.1, null=0.1)}
    )
    assert found.null_mean == pytest.approx(math.tanh(0.1))
    assert found.p_value == pytest.approx(2 * t.sf(0.1 / math.sqrt(0.04 / 3), 2), abs=1e-9)


def test_cases_that_agree_too_well_do_not_narrow_the_interval():
    found = pool_cases({name: effect(0.3, 0.2) for name in "abcd"})
    assert found.tau == 0
    assert found.stderr_z == pytest.approx(0.1)  # Wald's, not Hartung and Knapp's 0


def test_fewer_than_three_cases_are_listed():
    found = pool_cases({"a": effect(0.1, 0.1), "b": effect(0.3, 0.1), "c": effect(0.2, 0.0)})
    assert found.estimate is None
    assert found.reason == "2 cases; fewer than 3 are listed, not pooled"
    assert "no bootstrap standard error" in found.left_out["c"]
    assert set(found.cases) == {"a", "b", "c"}


def test_cases_with_different_numbers_of_mutants_are_not_pooled():
    with pytest.raises(ConfigError, match="6, 12 mutants"):
        pool_cases({"a": effect(0.1, 0.1, 12), "b": effect(0.3, 0.1, 6), "c": effect(0.2, 0.1, 12)})


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(0.05, 1)), min_size=2, max_size=8))
def test_paule_mandel_solves_its_equation(rows):
    z, variance = np.array([r[0] for r in rows]), np.array([r[1] ** 2 for r in rows])
    tau2 = paule_mandel(z, variance)
    weight = 1 / (variance + tau2)
    q = (weight * (z - (weight * z).sum() / weight.sum()) ** 2).sum()
    assert tau2 >= 0
    assert q == pytest.approx(len(z) - 1, rel=1e-6) if tau2 > 0 else q <= len(z) - 1 + 1e-9


def world(seed, n_mutants=24):
    rng = np.random.default_rng(seed)
    membership = rng.random((150, 30)) < rng.choice([0.1, 0.2, 0.3], (150, 1))
    membership[:, 0] |= ~membership.any(axis=1)
    cover = rng.random((30, 20)) < 0.15
    kills = cover[:, rng.integers(0, 20, n_mutants)] & (rng.random((30, n_mutants)) < 0.6)
    return membership, kills, cover


def test_all_mutants_give_the_plain_association_and_fewer_a_smaller_one():
    membership, kills, cover = world(1)
    case = CaseMatrices(membership, kills, cover)
    full = effect_at_equal_mutants(case, 24, seed=1, n_replicates=200)
    coverage = ((membership.astype(int) @ cover.astype(int)) > 0).sum(axis=1)
    score = ((membership.astype(int) @ kills.astype(int)) > 0).sum(axis=1)
    expected = partial_spearman_given_size(coverage, score, membership.sum(axis=1)).value
    assert full.estimate == pytest.approx(expected, abs=1e-9)
    few = effect_at_equal_mutants(case, 6, seed=1, n_replicates=200)
    assert 0 < few.estimate < full.estimate
    assert few.n_mutants == 6
    assert few.stderr_z > full.stderr_z
    with pytest.raises(ConfigError, match="24 mutants; cannot draw 25"):
        effect_at_equal_mutants(case, 25, seed=1)


def test_the_null_at_fewer_mutants_is_that_of_as_many_mutants():
    """By hand: random draws of 14 of 40 mutants, each with tasks that got another task's items."""
    rng = np.random.default_rng(5)
    members = rng.random((60, 24)) < rng.choice([0.1, 0.5, 0.9], (60, 1))
    members[:, 0] |= ~members.any(axis=1)
    cover = rng.random((24, 12)) < 0.2
    kills = cover[:, rng.integers(0, 12, 40)] & (rng.random((24, 40)) < 0.9)
    member = members.astype(int)

    def null_mean(n_mutants):
        values = [
            partial_spearman_given_size(
                ((member @ cover[rng.permutation(24)].astype(int)) > 0).sum(axis=1),
                ((member @ kills[:, rng.permutation(40)[:n_mutants]].astype(int)) > 0).sum(axis=1),
                member.sum(axis=1),
            )
            for _ in range(500)
        ]
        return np.mean([value.value for value in values if value.status == "ok"])

    # The error of a mean of 500 is about .01; that of all mutants is another value altogether.
    expected = null_mean(14)
    assert abs(null_mean(40) - expected) > 0.1
    for permuted in ("coverage", "kills"):
        found = effect_at_equal_mutants(
            CaseMatrices(members, kills, cover), 14, seed=3, n_replicates=50, permuted=permuted
        )
        assert found.null_mean == pytest.approx(expected, abs=0.04)
