# SPDX-License-Identifier: Apache-2.0
"""The exact tests of one task against E5, SciPy and hand-made cases."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import boschloo_exact, fisher_exact, hypergeom

from metric_benchmark.multiplicity import adjust_bh, adjust_holm
from metric_benchmark.scoring.exact import (
    attempt_permutation_p,
    boschloo_p,
    boschloo_table,
    fisher_p,
    fisher_table,
    smallest_p,
)
from metric_benchmark.scoring.stratified import cmh_test, stratified_exact_p

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text())
E5 = REFERENCE["E5_kill_rule"]


@pytest.mark.parametrize(
    "row", E5["task_level"], ids=lambda r: f"{r['baseline_pass']}of{r['baseline_n']}v{r['mutant_pass']}"
)
def test_task_level_p_values_are_those_of_e5(row):
    cell = (row["baseline_pass"], row["baseline_n"], row["mutant_pass"], row["mutant_n"])

    assert fisher_p(*cell) == pytest.approx(row["fisher_greater"], abs=1e-9)
    assert fisher_p(*cell) == float(Fraction(row["fisher_fraction"]))
    assert boschloo_p(*cell) == pytest.approx(row["boschloo_greater"], abs=1e-6)


def test_suite_level_tests_are_those_of_e5():
    suite = E5["suite_level"]
    strata = [tuple(row) for row in suite["strata_bp_bn_mp_mn"]]
    corrected, plain = cmh_test(strata), cmh_test(strata, continuity=0.0)

    assert (corrected.observed, corrected.expected) == (suite["cmh_O"], suite["cmh_E"])
    assert corrected.variance == pytest.approx(suite["cmh_V"], abs=1e-9)
    assert plain.z == pytest.approx(suite["cmh_z"], abs=1e-9)
    assert plain.p_value == pytest.approx(suite["cmh_p_one_sided_no_cc"], abs=1e-9)
    assert corrected.p_value == pytest.approx(suite["cmh_p_one_sided_cc"], abs=1e-9)
    assert stratified_exact_p(strata) == pytest.approx(suite["exact_convolution_p"], abs=1e-9)
    pooled = [sum(column) for column in zip(*strata, strict=True)]
    assert fisher_p(*pooled) == pytest.approx(suite["pooled_fisher_ignoring_strata"], abs=1e-9)


def test_cmh_says_nothing_where_all_attempts_agree():
    assert cmh_test([(3, 3, 3, 3), (0, 2, 0, 2), (2, 2, 0, 0)]) is None


def test_holm_is_that_of_e5():
    holm = E5["holm_union"]
    assert adjust_holm(holm["p"]) == pytest.approx(holm["holm"], abs=1e-9)


def test_adjustments_of_a_worked_out_list():
    p = [0.04, 0.01, 0.03]
    # BH: .01*3/1, .03*3/2, .04*3/3, then from the right: .03, .04, .04.
    assert adjust_bh(p) == pytest.approx([0.04, 0.03, 0.04])
    # Holm: .01*3, .03*2, .04*1, then from the left: .03, .06, .06.
    assert adjust_holm(p) == pytest.approx([0.06, 0.03, 0.06])
    assert adjust_bh([]).size == 0
    assert adjust_holm([]).size == 0


@pytest.mark.parametrize(("n0", "n"), [(3, 3), (5, 4), (10, 3), (1, 4), (6, 7)])
def test_boschloo_agrees_with_scipy_on_whole_tables(n0, n):
    table = boschloo_table(n0, n)
    for a in range(n0 + 1):
        for b in range(n + 1):
            if a + b in (0, n0 + n):
                assert table[a, b] == pytest.approx(1.0)  # SciPy has no answer here
                continue
            theirs = boschloo_exact([[a, b], [n0 - a, n - b]], alternative="greater", n=256).pvalue
            assert table[a, b] == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(10, 6), (9, 5), (7, 4), (5, 5), (10, 9), (3, 1)])
def test_boschloo_agrees_with_scipy_at_ten_against_ten(a, b):
    theirs = boschloo_exact([[a, b], [10 - a, 10 - b]], alternative="greater", n=256).pvalue
    assert boschloo_p(a, 10, b, 10) == pytest.approx(theirs, abs=1e-6)


def test_boschloo_is_fast_enough_to_be_a_table():
    # CPU seconds, and the best of several: what is measured is the work, not the machine's other tenants.
    durations = []
    for _ in range(8):
        boschloo_table.cache_clear()
        fisher_table.cache_clear()
        start = time.process_time()
        boschloo_table(10, 10)
        durations.append(time.process_time() - start)
    assert min(durations) < 0.05


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fisher_agrees_with_scipy(n0, n, data):
    a, b = data.draw(st.integers(0, n0)), data.draw(st.integers(0, n))
    theirs = fisher_exact([[a, n0 - a], [b, n - b]], alternative="greater").pvalue
    assert fisher_p(a, n0, b, n) == pytest.approx(theirs, abs=1e-12)


@given(st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=25)
def test_boschloo_is_never_above_fisher_and_falls_with_evidence(n0, n):
    table = boschloo_table(n0, n)
    assert (table <= fisher_table(n0, n) + 1e-9).all()
    assert (np.diff(table, axis=0) <= 1e-12).all()  # one more baseline pass: no larger p
    assert (np.diff(table, axis=1) >= -1e-12).all()  # one more mutant pass: no smaller p


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_smallest_p_with_equal_attempts(n):
    assert smallest_p("boschloo", n, n) == pytest.approx(4.0**-n, rel=1e-9)
    assert smallest_p("fisher", n, n) == fisher_p(n, n, 0, n)
    assert smallest_p("fisher", 0, n) == 1.0


@given(
    st.lists(st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 1.0]), min_size=1, max_size=5),
    st.lists(st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 1.0]), min_size=1, max_size=4),
)
def test_permuting_attempts_counts_every_arrangement(baseline, mutant):
    pool, n = [Fraction(x).limit_denominator(30) for x in (*baseline, *mutant)], len(mutant)
    observed = sum(pool[len(baseline) :])
    sums = [sum(c) for c in combinations(pool, n)]
    expected = sum(s <= observed for s in sums) / len(sums)
    assert attempt_permutation_p(baseline, mutant) == pytest.approx(expected, abs=1e-12)


def test_permuting_many_passed_and_failed_attempts_is_fishers_test():
    # 25 against 20 attempts are 3e12 arrangements: the recursion, not the enumeration.
    a, b = 22, 9
    p = attempt_permutation_p([1.0] * a + [0.0] * (25 - a), [1.0] * b + [0.0] * (20 - b))
    assert p == pytest.approx(hypergeom.sf(a - 1, 45, a + b, 25), abs=1e-12)


def test_rewards_off_any_grid_are_still_tested():
    rng = np.random.default_rng(4)
    baseline, mutant = rng.random(9) + 2.5, rng.random(7)
    assert attempt_permutation_p(baseline.tolist(), mutant.tolist()) == pytest.approx(1 / 11440, rel=1e-9)
    assert attempt_permutation_p([0.7], [0.7]) == 1.0
