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
from metric_benchmark.correlation import correlate
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant

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
