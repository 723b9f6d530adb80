# SPDX-License-Identifier: Apache-2.0
"""Estimators against the worked examples, SciPy, and their symmetries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, example, given
from hypothesis import strategies as st

from metric_benchmark.correlation import (
    estimate_all,
    goodman_kruskal_gamma,
    kendall_tau_b,
    kendall_tau_c,
    partial_kendall_given_size,
    partial_spearman_given_size,
    pearson,
    somers_d,
    spearman,
)
from metric_benchmark.correlation.estimators import count_pairs
from metric_benchmark.errors import ConfigError
from metric_benchmark.records.base import Defined, Undefined

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text())
NAMES = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall_tau_b": kendall_tau_b,
    "kendall_tau_c": kendall_tau_c,
    "goodman_kruskal_gamma": goodman_kruskal_gamma,
    "somers_d_ms_given_cov": somers_d,
}


def value(found):
    return found.value if isinstance(found, Defined) else None


def same(found, expected):
    if expected is None:
        assert isinstance(found, Undefined)
    else:
        assert value(found) == pytest.approx(expected, abs=1e-9)


def check(stats, coverage, score, size):
    for name, function in NAMES.items():
        same(function(coverage, score), stats[name])
    same(partial_spearman_given_size(coverage, score, size), stats["partial_spearman_given_size"])
    if "partial_kendall_given_size" in stats:
        same(partial_kendall_given_size(coverage, score, size), stats["partial_kendall_given_size"])
    same(spearman(size, score), stats["spearman_size_ms"])
    same(spearman(size, coverage), stats["spearman_size_cov"])
    pairs, expected = count_pairs(coverage, score), stats["pairs"]
    assert pairs.concordant == expected["C"]
    assert pairs.discordant == expected["Dis"]
    assert (pairs.ties_coverage, pairs.ties_score) == (expected["ties_x"], expected["ties_y"])
    assert pairs.total == expected["n_pairs"]
    same(kendall_tau_b(coverage, score), expected["tau_b"])
    same(kendall_tau_c(coverage, score), expected["tau_c"])
    same(goodman_kruskal_gamma(coverage, score), expected["gamma"])
    same(somers_d(coverage, score), expected["somers_d_y_given_x"])


@pytest.mark.parametrize("name", ["E1_basic", "E2_size_confound", "E3_constant", "E4_fixed_size"])
def test_worked_examples(name):
    example = REFERENCE[name]
    check(example["stats"], example["coverage"], example["mutation_score"], example["size"])


def test_worked_example_on_dominators_only():
    example = REFERENCE["E4_fixed_size"]
    score = np.array(example["mutants_detected_dominators_only"]) / len(example["dominator_mutants"])
    check(example["stats_dominators_only"], example["coverage"], score, example["size"])


@pytest.mark.parametrize(("name", "reason"), [
    ("E2_size_confound", "size_determines_coverage"),
    ("E3_constant", "constant_mutation_score"),
    ("E4_fixed_size", "constant_size"),
])  # fmt: skip
def test_reasons_of_undefined_partials(name, reason):
    e = REFERENCE[name]
    assert partial_spearman_given_size(e["coverage"], e["mutation_score"], e["size"]) == Undefined(reason=reason)


def test_reasons_of_undefined_estimates():
    assert spearman([1, 1, 1], [1, 2, 3]) == Undefined(reason="constant_coverage")
    assert spearman([1, 1, 1], [2, 2, 2]) == Undefined(reason="constant_mutation_score")
    assert spearman([1], [2]) == Undefined(reason="fewer_than_two_subsets")
    assert spearman([], []) == Undefined(reason="fewer_than_two_subsets")
    assert partial_spearman_given_size([1, 3, 2], [1, 2, 3], [1, 2, 3]) == Undefined(
        reason="size_determines_mutation_score"
    )
    everything = estimate_all([0.5, 0.5], [0.1, 0.2], [1, 2])
    assert {str(getattr(everything, name).reason) for name in type(everything).model_fields} == {"constant_coverage"}


def test_values_that_are_not_numbers_are_refused():
    with pytest.raises(ConfigError, match="not a finite number"):
        spearman([1, float("nan")], [1, 2])
    with pytest.raises(ConfigError, match="2 and 3 values"):
        spearman([1, 2], [1, 2, 3])


def test_huge_and_tiny_values_neither_overflow_nor_vanish():
    assert value(pearson([1e300, 2e300, 4e300], [1e-300, 2e-300, 4e-300])) == pytest.approx(1.0)


levels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 4)), min_size=3, max_size=25).map(
    lambda rows: np.array(rows, dtype=float).T
)


@given(levels)
@example(np.array([(0, 1, 1), (1, 0, 1), (1, 2, 1), (2, 1, 1)], dtype=float).T)
def test_agreement_with_scipy(columns):
    x, y, _ = columns
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert all(isinstance(function(x, y), Undefined) for function in NAMES.values())
        return
    assert value(pearson(x, y)) == pytest.approx(scipy.stats.pearsonr(x, y).statistic, abs=1e-10)
    assert value(spearman(x, y)) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-10)
    assert value(kendall_tau_b(x, y)) == pytest.approx(scipy.stats.kendalltau(x, y).statistic, abs=1e-10)
    assert value(kendall_tau_c(x, y)) == pytest.approx(scipy.stats.kendalltau(x, y, variant="c").statistic, abs=1e-10)
    with np.errstate(invalid="ignore"):  # Its p-value, which we don't ask for, may be 0/0.
        assert value(somers_d(x, y)) == pytest.approx(scipy.stats.somersd(x, y).statistic, abs=1e-10)


@given(levels)
def test_partial_is_the_correlation_of_rank_residuals(columns):
    x, y, z = (scipy.stats.rankdata(column) for column in columns)
    found = partial_spearman_given_size(*columns)
    if isinstance(found, Undefined):
        return
    design = np.column_stack([np.ones_like(z), z])
    residuals = [v - design @ np.linalg.lstsq(design, v, rcond=None)[0] for v in (x, y)]
    assume(min(np.abs(r).max() for r in residuals) > 1e-6)
    assert found.value == pytest.approx(np.corrcoef(*residuals)[0, 1], abs=1e-8)


@given(levels)
def test_symmetry_and_range(columns):
    x, y, z = columns
    for function in (pearson, spearman, kendall_tau_b, kendall_tau_c, goodman_kruskal_gamma):
        a, b = value(function(x, y)), value(function(y, x))
        assert a == pytest.approx(b, abs=1e-12)
        assert a is None or -1 <= a <= 1
    for function in (spearman, kendall_tau_b, somers_d):
        forward, mirrored = value(function(x, y)), value(function(x, -y))
        assert forward is None or forward == pytest.approx(-mirrored, abs=1e-12)
    partial = value(partial_spearman_given_size(x, y, z))
    assert partial is None or -1 <= partial <= 1


@given(levels, st.randoms(use_true_random=False))
def test_the_order_of_subsets_and_the_scale_do_not_matter(columns, random):
    x, y, z = columns
    order = list(range(len(x)))
    random.shuffle(order)
    before, after = estimate_all(x, y, z), estimate_all(3 * x[order] + 1, y[order] / 7, z[order])
    for name in type(before).model_fields:
        assert value(getattr(before, name)) == pytest.approx(value(getattr(after, name)), abs=1e-9)
