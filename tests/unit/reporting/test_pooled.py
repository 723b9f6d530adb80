# SPDX-License-Identifier: Apache-2.0
"""What the experiment says as a whole stands in every kind of report: final verdicts, and metrics pooled over cases."""

from __future__ import annotations

import math

import pytest
import scipy

from metric_benchmark.correlation import pool_cases
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_file
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.correlation import CaseEffect, Conclusion, Correlation, PooledEstimate
from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.gate import check_gates
from metric_benchmark.reporting.html import render_report
from metric_benchmark.reporting.markdown import render_markdown
from metric_benchmark.reporting.pooled import pooled_lines, pooled_rows
from metric_benchmark.reporting.table import summary_rows


@pytest.fixture
def root(world, tmp_path):
    """Three sealed cases whose claim about `tool_calls` is supported by each case alone."""
    small = {"n_tasks": 6, "n_mutants": 4, "n_subsets": 12, "verdicts": {"tool_calls": "supported"}}
    return world.write_world(tmp_path, {name: world.World(**small, seed=n) for n, name in enumerate("abc")})


def reseal(root, **changes):
    seal = read_record(root.experiment, ExperimentSeal)
    write_record(root.experiment, seal.model_copy(update=changes))


def conclude_otherwise(root):
    """Seals that the claim of each case is not significant once all three are counted."""
    cases = {}
    for name, case in read_record(root.experiment, ExperimentSeal).cases.items():
        verdict = read_record(root.correlation(name), Correlation).metrics["tool_calls"].verdict
        final = verdict.model_copy(update={"verdict": "inconclusive", "reason": "p above 0.05", "p_adjusted": 0.09})
        cases[name] = case.model_copy(update={"conclusions": {"tool_calls": Conclusion(verdict=final)}})
    reseal(
        root, cases=cases, evidence={f"analysis/{c}/correlation.json": digest_file(root.correlation(c)) for c in "abc"}
    )


def test_final_verdicts_stand_in_the_place_of_each_cases_own(root):
    before = load_report(root)
    assert {row["verdict"] for row in summary_rows(before) if row["metric"] == "tool_calls"} == {"supported"}
    assert check_gates(before).exit_status == 0
    conclude_otherwise(root)
    data = load_report(root)
    rows = [row for row in summary_rows(data) if row["metric"] == "tool_calls"]
    assert {(row["verdict"], row["reason"], row["p_adjusted"]) for row in rows} == {
        ("inconclusive", "p above 0.05", 0.09)
    }
    assert [check.found for check in check_gates(data).failed] == ["inconclusive (p above 0.05)"] * 3
    # The case's own record is left alone.
    assert read_record(root.correlation("a"), Correlation).metrics["tool_calls"].verdict.verdict == "supported"


def test_a_case_that_was_correlated_anew_is_not_what_was_sealed(root):
    conclude_otherwise(root)
    record = read_record(root.correlation("b"), Correlation)
    write_record(root.correlation("b"), record.model_copy(update={"seed": 99}))
    data = load_report(root)
    assert not data.is_sealed
    assert "b: correlated anew after the experiment was sealed" in data.completeness
    assert data.pooled == {}


def test_pooled_values_are_less_the_null_as_all_others_are(root):
    effects = {c: CaseEffect(estimate=0.4, stderr_z=0.2, n_mutants=4, null_mean=0.1) for c in "abc"}
    pooled = pool_cases(effects)
    reseal(root, pooled={"tool_calls": pooled, "synthetic": listed()})
    data = load_report(root)
    row, other = pooled_rows(data)
    assert (row["estimate"], row["calibrated"]) == (pytest.approx(0.4), pytest.approx(0.3))
    # Three cases that agree: Wald's .2 / sqrt(3) on the z scale, times t(2).
    reach = 4.302652729749464 * 0.2 / math.sqrt(3)
    assert row["ci_high"] == pytest.approx(math.tanh(math.atanh(0.4) + reach) - 0.1)
    assert other["notes"] == ["b is left out: metric is opaque"]
    assert pooled_lines([row, other]) == [
        "pooled over 3 cases (4 mutants each): tool_calls +0.30 "
        f"(95% interval {row['ci_low']:+.2f} to {row['ci_high']:+.2f}; "
        f"a further case: {row['prediction_low']:+.2f} to {row['prediction_high']:+.2f})",
        "not pooled: synthetic (2 cases; fewer than 3 are listed, not pooled)",
    ]
    html, text = render_report(data), render_markdown(data)
    assert "<caption>Pooled association beyond suite size, calibrated</caption>" in html
    assert "all cases / tool_calls" in html
    assert "| tool\\_calls | 3 | 4 | +0.30 |" in text
    assert "B is left out: metric is opaque." in html
    # Three cases at .4, each with a null of .1; standard error as above.
    p = 2 * scipy.stats.t.sf((math.atanh(0.4) - math.atanh(0.1)) / (0.2 / math.sqrt(3)), 2)
    assert (row["p_value"], row["ci_level"]) == (pytest.approx(p), 0.95)
    assert "p (two-sided, unadjusted)" in html
    assert f'<td class="n">{p:.4f}</td>' in html
    assert "with intervals: 90% of cases, 95% pooled over cases." in html


def test_no_end_of_an_interval_leaves_what_a_correlation_can_be(root):
    effects = {c: CaseEffect(estimate=0.95, stderr_z=0.5, n_mutants=4, null_mean=-0.2) for c in "abc"}
    reseal(root, pooled={"tool_calls": pool_cases(effects)})
    row, *_ = pooled_rows(load_report(root))
    assert (row["ci_high"], row["prediction_high"]) == (1.0, 1.0)
    assert -1.0 <= row["prediction_low"] < row["ci_low"] < 1.0


def test_of_one_case_there_is_nothing_to_pool(world, tmp_path):
    root = world.write_world(tmp_path, {"a": world.World(n_tasks=6, n_mutants=4, n_subsets=12)})
    reseal(root, pooled={"tool_calls": listed()})
    assert pooled_rows(load_report(root)) == []
    assert "Over all cases" not in render_report(load_report(root))


def listed() -> PooledEstimate:
    found = pool_cases({c: CaseEffect(estimate=0.1, stderr_z=0.2, n_mutants=4) for c in "ac"})
    return found.model_copy(update={"left_out": {"b": "metric is opaque"}})
