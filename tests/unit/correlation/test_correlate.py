# SPDX-License-Identifier: Apache-2.0
"""Stage 4 from records: pairs over eligible tasks, what is left out, and why."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from metric_benchmark.config.models import (
    CorrelationConfig,
    HypothesisConfig,
    KillRuleConfig,
    ScoringConfig,
)
from metric_benchmark.correlation import conclude, correlate
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.multiplicity import adjust_holm
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant
from metric_benchmark.scoring.counts import AttemptRedraw

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text())
SETTINGS = ScoringConfig(kill_rule=KillRuleConfig(name="deterministic"))
CORRELATION = CorrelationConfig(replicates=200, seed=3)


def scored(kills, subsets, screening=None):
    tasks = [f"t{i}" for i in range(len(kills))]
    eligibility = assess_eligibility(tasks, screening, SETTINGS)
    records = [
        score_mutant(
            SETTINGS,
            eligibility,
            {task: [1.0] for task in tasks},
            {task: [1.0 - k] for task, k in zip(tasks, column, strict=True)},
            variant=f"m{j}",
        )
        for j, column in enumerate(np.asarray(kills).T)
    ]
    return score_case(eligibility, records, subsets)


def items_metric(cover):
    return {
        "kind": "items",
        "items": [f"i{j}" for j in range(len(cover[0]))],
        "tasks": {f"t{i}": [f"i{j}" for j in np.flatnonzero(row)] for i, row in enumerate(cover)},
        "subsets": {},
    }


def subsets_of(membership):
    return {f"s{k}": [f"t{i}" for i in np.flatnonzero(row)] for k, row in enumerate(membership)}


def run(scores, coverage, subsets, settings=CORRELATION, **more):
    return correlate(scores, coverage, subsets, settings, np.random.default_rng(settings.seed), **more)


@pytest.mark.parametrize("name", ["E1_basic", "E2_size_confound", "E3_constant", "E4_fixed_size"])
def test_worked_examples_from_records(name):
    example = REFERENCE[name]
    subsets = subsets_of(example["subsets_x_tasks"])
    scores = scored(example["kill_tasks_x_mutants"], subsets)
    record = run(scores, {"calls": items_metric(example["cover_tasks_x_items"])}, subsets)

    assert [p.mutant_score for p in record.pairs] == pytest.approx(example["mutation_score"], abs=1e-9)
    assert [p.coverage["calls"] for p in record.pairs] == pytest.approx(example["coverage"], abs=1e-9)
    assert [p.size for p in record.pairs] == example["size"]
    found, expected = record.metrics["calls"].estimates, example["stats"]
    for mine, theirs in {"somers_d": "somers_d_ms_given_cov"}.items() | {
        (n, n) for n in ("pearson", "spearman", "kendall_tau_b", "kendall_tau_c", "goodman_kruskal_gamma",
                         "partial_spearman_given_size")
    }:  # fmt: skip
        number = getattr(found, mine)
        if expected[theirs] is None:
            assert number.status == "undefined"
        else:
            assert number.value == pytest.approx(expected[theirs], abs=1e-9)
    assert Correlation.model_validate(record.to_json()) == record


def test_coverage_is_recomputed_over_eligible_tasks():
    # t2 is unreliable: with it, s1 would cover both items.
    subsets = {"s0": ["t0"], "s1": ["t0", "t2"], "s2": ["t0", "t1"]}
    screening = {"t0": [1.0], "t1": [1.0], "t2": [0.0]}
    scores = scored([[1, 0], [0, 1], [1, 1]], subsets, screening)
    record = run(scores, {"calls": items_metric([[1, 0], [0, 1], [0, 1]])}, subsets)
    assert [(p.size, p.mutant_score, p.coverage["calls"]) for p in record.pairs] == [
        (1, 0.5, 0.5), (1, 0.5, 0.5), (2, 1.0, 1.0),
    ]  # fmt: skip
    opaque = {"kind": "opaque", "subsets": {s: {"coverage": c} for s, c in zip(subsets, (1, 2, 3), strict=True)}}
    record = run(scores, {"judge": opaque}, subsets)
    assert "still counts the 1 ineligible tasks" in record.metrics["judge"].notes[0]


def test_subsets_with_an_unmeasured_task_are_left_out_and_named():
    subsets = {"s0": ["t0"], "s1": ["t1"], "s2": ["t0", "t1"], "s3": ["t2"]}
    scores = scored([[1, 0], [0, 0], [0, 1]], subsets)
    metric = items_metric([[1, 0], [1, 1], [0, 1]])
    del metric["tasks"]["t2"]
    metric["unmeasured_tasks"] = ["t2"]
    found = run(scores, {"calls": metric}, subsets)
    assert found.metrics["calls"].left_out == {"s3": "not measured on t2"}
    assert found.metrics["calls"].n_subsets == 3
    assert found.pairs[3].coverage["calls"] == Undefined(reason="not measured on t2")


def test_opaque_metrics_may_be_undefined_on_a_subset():
    subsets = {"s0": ["t0"], "s1": ["t1"], "s2": ["t0", "t1"]}
    scores = scored([[1, 0], [0, 0]], subsets)
    values = {
        "s0": {"coverage": 0.5},
        "s1": {"coverage": {"status": "undefined", "reason": "the judge refused"}},
    }
    found = run(scores, {"judge": {"kind": "opaque", "subsets": values}}, subsets).metrics["judge"]
    assert found.left_out == {"s1": "the judge refused", "s2": "the metric gives no value for it"}
    assert found.estimates.spearman == Undefined(reason="fewer_than_two_subsets")


def test_nothing_warns_and_nothing_is_nan():
    subsets = {"s0": ["t0"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = run(scored([[0]], subsets), {"calls": items_metric([[0]])}, subsets)
    assert "NaN" not in json.dumps(record.to_json(), allow_nan=False)


def test_requests_that_do_not_fit_the_evidence_are_refused():
    subsets = {"s0": ["t0"], "s1": ["t0", "t1"]}
    scores = scored([[1], [0]], subsets)
    metric = {"calls": items_metric([[1], [0]])}
    wrong = CorrelationConfig(hypotheses=(HypothesisConfig(metric="nope", minimum_effect=0.1),))
    with pytest.raises(ConfigError, match="'nope'"):
        run(scores, metric, subsets, wrong)
    with pytest.raises(EvidenceError, match="'s1' has 1 eligible tasks, but was scored with 2"):
        run(scores, metric, {"s0": ["t0"], "s1": ["t0"]})


def big_case(seed=1, n_tasks=24, n_mutants=14, n_items=16, n_subsets=80, link=True, controls=()):
    """A case large enough for a verdict; every mutant breaks an item, seen by the metric or not."""
    rng = np.random.default_rng(seed)
    cover = rng.random((n_tasks, n_items)) < 0.15
    broken = cover if link else rng.random((n_tasks, n_items)) < 0.15
    kills = (broken[:, np.arange(n_mutants) % n_items] & (rng.random((n_tasks, n_mutants)) < 0.7)).astype(int)
    kills[rng.integers(0, n_tasks), :] |= ~kills.any(axis=0)
    sizes = rng.choice([2, 4, 6, 8], n_subsets)
    membership = np.zeros((n_subsets, n_tasks), dtype=int)
    for row, size in enumerate(sizes):
        membership[row, rng.choice(n_tasks, size, replace=False)] = 1
    return kills, cover.astype(int), subsets_of(membership)


def claims(*names, **more):
    claim = {"minimum_effect": 0.1, **more}
    return CorrelationConfig(
        replicates=400, seed=3, hypotheses=tuple(HypothesisConfig(metric=name, **claim) for name in names)
    )


def test_a_real_link_is_supported_and_its_mirror_refuted():
    kills, cover, subsets = big_case()
    scores = scored(kills, subsets)
    assert scores.n_dominators >= 5
    found = run(scores, {"calls": items_metric(cover)}, subsets, claims("calls")).metrics["calls"]
    assert found.verdict.verdict == "supported"
    assert found.verdict.p_adjusted == found.test.p_value <= 0.05
    assert found.interval.level == pytest.approx(0.9)
    assert not found.interval.approximate
    assert found.calibrated.estimate == pytest.approx(
        found.estimates.partial_spearman_given_size.value - found.test.null_mean
    )
    assert found.calibrated.low == pytest.approx(found.interval.low - found.calibrated.null_mean)
    mirrored = run(scores, {"calls": items_metric(cover)}, subsets, claims("calls", direction="less"))
    assert mirrored.metrics["calls"].verdict.verdict == "refuted"
    assert mirrored.metrics["calls"].test.direction == "less"


def test_metrics_do_not_change_each_others_results():
    kills, cover, subsets = big_case(2)
    scores = scored(kills, subsets)
    metric, other = items_metric(cover), items_metric(cover[::-1])
    alone = run(scores, {"a": metric}, subsets)
    beside = run(scores, {"b": other, "a": metric}, subsets)
    assert alone.metrics["a"].test == beside.metrics["a"].test
    assert alone.metrics["a"].interval == beside.metrics["a"].interval
    assert beside.metrics["b"].test.p_value != beside.metrics["a"].test.p_value


def test_registered_claims_are_adjusted_by_holm_over_all_cases_and_the_rest_is_exploratory():
    kills, cover, subsets = big_case(1)
    scores = scored(kills, subsets)
    coverage = {"a": items_metric(cover), "b": items_metric(cover[::-1]), "c": items_metric(cover)}
    record = run(scores, coverage, subsets, claims("a", "b"), n_cases=3)
    a, b, c = (record.metrics[name] for name in "abc")
    assert a.verdict.n_family == 6
    first, second = sorted([a, b], key=lambda m: m.test.p_value)
    assert first.verdict.p_adjusted == pytest.approx(min(1, 6 * first.test.p_value))
    assert second.verdict.p_adjusted == pytest.approx(max(first.verdict.p_adjusted, min(1, 5 * second.test.p_value)))
    assert c.verdict.verdict == "not_tested"
    assert c.p_exploratory == pytest.approx(c.test.p_value)
    assert a.p_exploratory is None
    # Once all three cases are known, the same claims are adjusted by what the others really are.
    concluded = conclude({"one": record, "two": record, "three": record})
    known = concluded["one"].metrics["a"].verdict.p_adjusted
    assert known == pytest.approx(adjust_holm([a.test.p_value, b.test.p_value] * 3)[0])
    assert known <= a.verdict.p_adjusted
    assert concluded["one"].metrics["c"].verdict == c.verdict


def test_noise_blocks_every_metric():
    kills, cover, subsets = big_case()
    tasks = [f"t{i}" for i in range(len(kills))]
    eligibility = assess_eligibility(tasks, None, SETTINGS)
    baseline = {task: [1.0] for task in tasks}
    records = [
        score_mutant(SETTINGS, eligibility, baseline, {task: [0.0] for task in tasks}, variant=name, role=role)
        for name, role in (("m", "mutant"), ("control-1", "control"), ("control-2", "control"))
    ]
    scores = score_case(eligibility, records, subsets)
    record = run(scores, {"calls": items_metric(cover), "other": items_metric(cover)}, subsets, claims("calls"))
    verdict = record.metrics["calls"].verdict
    assert (verdict.verdict, verdict.reason) == ("blocked", "kills are noise")
    assert "2 of 2 controls" in record.blocked
    # What was claimed stays known, and what was not stays apart from it.
    other = record.metrics["other"]
    assert (verdict.minimum_effect, verdict.direction, verdict.alpha, verdict.n_family) == (0.1, "greater", 0.05, 1)
    assert (other.verdict.verdict, other.verdict.minimum_effect, other.p_exploratory) == ("blocked", None, None)


def test_small_cases_are_inconclusive_and_say_what_would_change_it():
    example = REFERENCE["E1_basic"]
    subsets = subsets_of(example["subsets_x_tasks"])
    scores = scored(example["kill_tasks_x_mutants"], subsets)
    found = run(scores, {"calls": items_metric(example["cover_tasks_x_items"])}, subsets, claims("calls")).metrics[
        "calls"
    ]
    assert found.test.exact
    assert found.test.p_value == pytest.approx(1 / 24)
    assert found.verdict.verdict == "inconclusive"
    assert found.limits == ["fewer than 5 dominators", "fewer than 20 tasks", "fewer than 10 mutants",
                            "more than 5% of the replicates are undefined"]  # fmt: skip
    assert found.interval.approximate
    assert "add tasks" in found.verdict.remedy


@pytest.mark.parametrize(("name", "reason"), [
    ("E2_size_confound", "size_determines_coverage"),
    ("E3_constant", "constant_mutation_score"),
])  # fmt: skip
def test_undefined_estimates_make_an_inconclusive_verdict_with_their_reason(name, reason):
    example = REFERENCE[name]
    subsets = subsets_of(example["subsets_x_tasks"])
    scores = scored(example["kill_tasks_x_mutants"], subsets)
    found = run(scores, {"c": items_metric(example["cover_tasks_x_items"])}, subsets, claims("c")).metrics["c"]
    assert (found.verdict.verdict, found.verdict.reason) == ("inconclusive", reason)
    assert (found.test, found.interval, found.calibrated) == (None, None, None)


def test_how_subsets_were_chosen_decides_which_rows_move():
    kills, cover, subsets = big_case(3)
    scores = scored(kills, subsets)
    moved = {
        how: run(scores, {"c": items_metric(cover)}, subsets, claims("c"), chosen_using=how).metrics["c"]
        for how in ("none", "coverage", "kills", "both")
    }
    assert moved["none"].test.permuted == moved["kills"].test.permuted == "coverage"
    assert moved["coverage"].test.permuted == moved["coverage"].which_items.permuted == "kills"
    assert moved["both"].test is None
    assert moved["both"].verdict.reason == "subsets were chosen using coverage and kills"
    assert moved["both"].interval is not None


def test_an_opaque_metric_is_inconclusive_unless_it_was_measured_on_every_task():
    kills, cover, subsets = big_case(1)
    scores = scored(kills, subsets)
    as_items = run(scores, {"c": items_metric(cover)}, subsets)
    opaque = {
        "kind": "opaque",
        "subsets": {pair.subset: {"coverage": pair.coverage["c"]} for pair in as_items.pairs},
    }
    found = run(scores, {"c": opaque}, subsets, claims("c")).metrics["c"]
    assert found.estimates == as_items.metrics["c"].estimates
    assert found.test is None
    assert found.interval.resampled == "mutants"
    assert (found.verdict.verdict, found.verdict.reason) == ("inconclusive", "metric is opaque")
    opaque["task_coverage"] = {f"t{i}": float(row.sum()) for i, row in enumerate(cover)}
    found = run(scores, {"c": opaque}, subsets, claims("c")).metrics["c"]
    assert found.test.permuted == "task_values"
    assert found.interval.resampled == "tasks_and_mutants"
    assert found.verdict.verdict in ("supported", "refuted", "inconclusive")
    assert found.verdict.reason != "metric is opaque"


def test_hypotheses_changed_after_the_data_are_called_exploratory():
    kills, cover, subsets = big_case()
    record = run(scored(kills, subsets), {"c": items_metric(cover)}, subsets, claims("c"), registration="after_data")
    assert record.registration == "after_data"
    assert "hypotheses were changed after the data: exploratory" in record.warnings


def test_two_claims_about_one_metric_are_refused():
    kills, cover, subsets = big_case()
    with pytest.raises(ConfigError, match="names a metric twice"):
        run(scored(kills, subsets), {"c": items_metric(cover)}, subsets, claims("c", "c"))


def test_attempts_are_drawn_again_on_the_tasks_a_metric_measured_whatever_the_number_of_processes():
    kills, cover, subsets = big_case(4)
    tasks = [f"t{i}" for i in range(len(kills))]
    settings = ScoringConfig(kill_rule=KillRuleConfig(name="exact"))
    eligibility = assess_eligibility(tasks, None, settings)
    # Kills are seen in most attempts, not in all; the baseline passes nearly always.
    baseline = {task: [1.0] * 9 + [float(i % 4 > 0)] for i, task in enumerate(tasks)}
    attempts = [
        {
            task: [float(not k)] * 4 + [float(not k or i % 3 > 0)]
            for i, (task, k) in enumerate(zip(tasks, row, strict=True))
        }
        for row in np.asarray(kills).T
    ]
    records = [score_mutant(settings, eligibility, baseline, a, variant=f"m{j}") for j, a in enumerate(attempts)]
    scores, redraw = (
        score_case(eligibility, records, subsets),
        AttemptRedraw.of(settings.kill_rule, 2, records, tasks=tasks),
    )
    metric = items_metric(cover)
    del metric["tasks"]["t0"]
    plain = run(scores, {"c": metric}, subsets).metrics["c"]
    found = [run(scores, {"c": metric}, subsets, redraw=redraw, processes=n).metrics["c"] for n in (1, 2)]
    assert found[0] == found[1]
    assert found[0].test == plain.test
    assert (plain.interval.resampled, found[0].interval.resampled) == (
        "tasks_and_mutants", "tasks_mutants_and_attempts",
    )  # fmt: skip
    assert found[0].interval.stderr_z != plain.interval.stderr_z


def test_tasks_that_a_metric_could_not_measure_take_no_part_in_its_test():
    kills, cover, subsets = big_case(4)
    scores = scored(kills, subsets)
    metric = items_metric(cover)
    del metric["tasks"]["t0"]
    found = run(scores, {"c": metric}, subsets).metrics["c"]
    assert found.n_tasks == 23
    assert found.n_subsets + len(found.left_out) == 80
    assert found.test.statistic == pytest.approx(found.estimates.partial_spearman_given_size.value, abs=1e-9)
