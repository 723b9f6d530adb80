# SPDX-License-Identifier: Apache-2.0
"""The experiment as a whole: claims of all cases are one family, and each metric is pooled at equal mutants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metric_benchmark.config.models import CorrelationConfig, HypothesisConfig, KillRuleConfig, ScoringConfig
from metric_benchmark.correlation import (
    CaseEvidence,
    CaseMatrices,
    conclude,
    correlate,
    effect_at_equal_mutants,
    pool_cases,
    pool_metrics,
)
from metric_benchmark.multiplicity import adjust_bh, adjust_holm
from metric_benchmark.records.correlation import CaseEffect
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant

SETTINGS = ScoringConfig(kill_rule=KillRuleConfig(name="deterministic"))
CORRELATION = CorrelationConfig(
    replicates=200, seed=3, hypotheses=(HypothesisConfig(metric="calls", minimum_effect=0.1),)
)
N_TASKS, N_CASES = 24, 3


def matrices(seed, n_mutants):
    rng = np.random.default_rng(seed)
    members = rng.random((60, N_TASKS)) < rng.choice([0.15, 0.3, 0.45], (60, 1))
    members[:, 0] |= ~members.any(axis=1)
    cover = rng.random((N_TASKS, 12)) < 0.2
    kills = cover[:, rng.integers(0, 12, n_mutants)] & (rng.random((N_TASKS, n_mutants)) < 0.7)
    return CaseMatrices(members, kills, cover)


def evidence(case, *, noisy=False, opaque=False):
    """A case with the metrics `calls`, about which something is claimed, and `other`, about which nothing is."""
    members, kills, cover = case.membership, case.kills, case.cover
    tasks = [f"t{i}" for i in range(N_TASKS)]
    subsets = {f"s{k}": [f"t{i}" for i in np.flatnonzero(row)] for k, row in enumerate(members)}
    eligibility = assess_eligibility(tasks, None, SETTINGS)
    baseline = {task: [1.0] for task in tasks}
    variants = {f"m{j}": column for j, column in enumerate(kills.T)}
    if noisy:
        variants |= {f"control-{n}": np.ones(N_TASKS) for n in (1, 2)}
    scored = [
        score_mutant(
            SETTINGS, eligibility, baseline, {t: [1.0 - k] for t, k in zip(tasks, column, strict=True)}, variant=name,
            role="control" if name.startswith("control") else "mutant",
        )
        for name, column in variants.items()
    ]  # fmt: skip
    scores = score_case(eligibility, scored, subsets)

    def items(matrix):
        return {
            "kind": "items",
            "items": [f"i{j}" for j in range(matrix.shape[1])],
            "tasks": {t: [f"i{j}" for j in np.flatnonzero(row)] for t, row in zip(tasks, matrix, strict=True)},
            "subsets": {},
        }

    coverage = {"calls": items(cover), "other": items(cover[::-1])}
    if opaque:
        coverage["calls"] = {"kind": "opaque", "subsets": {s: {"coverage": len(t) / 24} for s, t in subsets.items()}}
    record = correlate(scores, coverage, subsets, CORRELATION, np.random.default_rng(3), n_cases=N_CASES)
    return CaseEvidence(scores, coverage, subsets, record)


def own_family(record):
    claim = record.metrics["calls"]
    alone = claim.model_copy(update={"verdict": claim.verdict.model_copy(update={"n_family": 1})})
    return record.model_copy(update={"metrics": {**record.metrics, "calls": alone}})


@pytest.fixture(scope="module")
def cases():
    return {name: evidence(matrices(seed, 14)) for seed, name in enumerate(("one", "two", "three"))}


def test_claims_of_all_cases_are_one_family_for_holm_and_the_rest_one_for_benjamini_and_hochberg(cases):
    found = conclude({name: case.correlation for name, case in cases.items()})
    for metric, adjust, of in (
        ("calls", adjust_holm, lambda m: m.verdict.p_adjusted), ("other", adjust_bh, lambda m: m.p_exploratory),
    ):  # fmt: skip
        p_values = [case.correlation.metrics[metric].test.p_value for case in cases.values()]
        assert [of(record.metrics[metric]) for record in found.values()] == pytest.approx(adjust(p_values).tolist())
    assert {record.metrics["calls"].verdict.n_family for record in found.values()} == {N_CASES}


def test_a_claim_that_is_blocked_keeps_its_place_in_the_family(cases):
    noisy = evidence(matrices(7, 14), noisy=True)
    records = {"one": cases["one"].correlation, "two": cases["two"].correlation, "noisy": noisy.correlation}
    found = conclude(records)
    assert found["noisy"].metrics["calls"].verdict.verdict == "blocked"
    p_values = [records[name].metrics["calls"].test.p_value for name in ("one", "two")]
    assert found["one"].metrics["calls"].verdict.p_adjusted == pytest.approx(adjust_holm([*p_values, 1.0])[0])
    assert (found["noisy"].metrics["calls"].verdict.p_adjusted, found["noisy"].metrics["calls"].verdict.n_family) == (
        None, 3,
    )  # fmt: skip


def test_the_family_is_counted_also_where_every_other_case_is_blocked(cases):
    noisy = {name: evidence(matrices(seed, 14), noisy=True).correlation for seed, name in ((7, "x"), (8, "y"))}
    # As if each record counted its own claim alone.
    found = conclude({"one": own_family(cases["one"].correlation), **{n: own_family(r) for n, r in noisy.items()}})
    assert found["one"].metrics["calls"].verdict.n_family == 3


def test_p_values_of_a_blocked_case_are_in_no_family(cases):
    noisy = evidence(matrices(7, 14), noisy=True).correlation
    records = {"one": cases["one"].correlation, "two": cases["two"].correlation, "noisy": noisy}
    found = conclude(records)
    p_values = [records[name].metrics["other"].test.p_value for name in ("one", "two")]
    assert noisy.metrics["other"].test is not None
    assert [found[name].metrics["other"].p_exploratory for name in records] == [*adjust_bh(p_values).tolist(), None]


def test_equal_cases_are_pooled_as_their_records_have_them(cases):
    found = pool_metrics(cases)["calls"]
    effects = {}
    for name, case in cases.items():
        metric = case.correlation.metrics["calls"]
        effects[name] = CaseEffect(
            estimate=metric.test.statistic, stderr_z=metric.interval.stderr_z, n_mutants=14,
            null_mean=metric.test.null_mean,
        )  # fmt: skip
    assert found == pool_cases(effects)
    assert (found.n_cases, found.n_mutants) == (3, 14)
    assert found.low < found.estimate < found.high


def test_a_case_with_more_mutants_is_brought_to_the_smallest_number_and_so_is_its_null(cases):
    large = matrices(5, 40)
    given = evidence(large)
    found = pool_metrics({"one": cases["one"], "two": cases["two"], "large": given})["calls"]
    assert found.n_mutants == 14
    assert found.cases["large"] == effect_at_equal_mutants(large, 14, seed=3)
    assert found.cases["large"].null_mean != given.correlation.metrics["calls"].test.null_mean


def test_attempts_are_drawn_again_at_fewer_mutants_as_in_the_cases_own_interval(cases):
    large = matrices(5, 40)

    def redraw(rng):
        return large.kills & (rng.random(large.kills.shape) < 0.5)

    given = replace(evidence(large), redraw=redraw)
    found = pool_metrics({"one": cases["one"], "two": cases["two"], "large": given})["calls"].cases["large"]
    assert found == effect_at_equal_mutants(large, 14, seed=3, redraw=redraw)
    assert found.stderr_z != effect_at_equal_mutants(large, 14, seed=3).stderr_z


def test_a_case_without_a_permutation_that_has_a_value_is_left_out(cases):
    record = cases["three"].correlation
    metric = record.metrics["calls"]
    undefined = metric.model_copy(update={"test": metric.test.model_copy(update={"null_mean": None})})
    three = replace(
        cases["three"], correlation=record.model_copy(update={"metrics": {**record.metrics, "calls": undefined}})
    )
    found = pool_metrics({**cases, "three": three})["calls"]
    assert found.left_out == {"three": "no permutation is defined"}


def test_cases_that_cannot_be_pooled_are_named_with_the_reason(cases):
    noisy, opaque = evidence(matrices(7, 14), noisy=True), evidence(matrices(8, 14), opaque=True)
    found = pool_metrics({"one": cases["one"], "noisy": noisy, "opaque": opaque})["calls"]
    assert found.left_out == {"noisy": "kills are noise", "opaque": "metric is opaque"}
    assert (found.estimate, found.reason) == (None, "1 case; fewer than 3 are listed, not pooled")


def test_a_pooled_value_says_what_bars_a_verdict_on_its_cases(cases):
    few = evidence(matrices(9, 8))
    found = pool_metrics({"one": cases["one"], "two": cases["two"], "few": few})["calls"]
    assert found.n_mutants == 8
    # Not the interval of the small case alone is approximate: all are taken with as few mutants.
    assert (
        found.notes[0] == "all cases are taken with 8 mutants (fewer than 10 mutants), so the interval is approximate"
    )
    alike = matrices(1, 14)
    alike = evidence(CaseMatrices(alike.membership, np.repeat(alike.kills[:, :1], 14, axis=1), alike.cover))
    found = pool_metrics({"one": cases["one"], "two": cases["two"], "alike": alike})["calls"]
    assert found.notes == ["alike: fewer than 5 dominators; more than 5% of the replicates are undefined"]


def test_cases_that_are_only_listed_are_not_taken_with_fewer_mutants_than_they_have(cases):
    few = evidence(matrices(9, 8))
    found = pool_metrics({"one": cases["one"], "few": few})["calls"]
    assert (found.estimate, [effect.n_mutants for effect in found.cases.values()]) == (None, [14, 8])
    assert found.notes == ["few: fewer than 10 mutants"]
