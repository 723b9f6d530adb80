# SPDX-License-Identifier: Apache-2.0
"""Verdicts in sentences: each verdict has its own answer, and what must be known before it is believed is said."""

from __future__ import annotations

import pytest

from metric_benchmark.records.correlation import Verdict
from metric_benchmark.reporting.data import load_report
from metric_benchmark.reporting.sentences import describe_verdict, number, p_text, sentence, strength
from metric_benchmark.reporting.table import case_rows


@pytest.fixture(scope="module")
def case(finished):
    return load_report(finished).cases[0]


def _describe(case, verdict: Verdict | None = None, metric: str = "tool_calls", **changes):
    found = case.correlation.metrics[metric]
    changed = found.model_copy(update={**({"verdict": verdict} if verdict else {}), **changes})
    record = case.correlation.model_copy(update={"metrics": {**case.correlation.metrics, metric: changed}})
    row = next(r for r in case_rows(case) if r["metric"] == metric)
    return describe_verdict({**row, "verdict": changed.verdict.verdict}, record)


@pytest.mark.parametrize(
    ("verdict", "start"),
    [
        ("supported", "Yes. Among suites of the same size, those with more tool_calls coverage catch more"),
        ("refuted", "No. Beyond suite size, more tool_calls coverage does not mean enough: an association of 0.1"),
        ("inconclusive", "Cannot say."),
        ("blocked", 'No answer. The unchanged agent is "caught" as faulty'),
        ("not_tested", "Not tested. In this sample, tool_calls coverage has next to no association"),
    ],
)
def test_every_verdict_has_its_own_answer(case, verdict, start):
    found = Verdict(verdict=verdict, reason="r", explanation="Because.", remedy="add tasks", minimum_effect=0.1)
    words = _describe(case, found)
    assert words.answer.startswith(start)
    assert words.meaning == "Because."
    assert words.change == "Add tasks."


def test_the_direction_is_in_the_answer(case):
    less = Verdict(verdict="supported", reason="r", direction="less", minimum_effect=0.1)
    assert "those with less tool_calls coverage catch more" in _describe(case, less).answer


def test_what_tasks_at_random_would_show_is_no_association(case):
    """Covering more of anything goes with killing more; only what is beyond that is the metric's."""
    found = case.correlation.metrics["tool_calls"]
    high = found.estimates.model_copy(
        update={
            "partial_spearman_given_size": found.estimates.partial_spearman_given_size.model_copy(
                update={"value": 0.31}
            )
        }
    )
    untested = Verdict(verdict="not_tested", reason="r")
    calibrated = found.calibrated.model_copy(update={"estimate": 0.03, "null_mean": 0.28})
    answer = _describe(case, untested, estimates=high, calibrated=calibrated).answer
    assert "next to no association with the mutant score beyond suite size and what tasks at random" in answer
    # A perfect association has no interval, so nothing calibrated, but what tasks at random show is known.
    perfect = found.test.model_copy(update={"statistic": 1.0, "null_mean": 0.28})
    answer = _describe(case, untested, estimates=high, calibrated=None, test=perfect).answer
    assert "a strong association with the mutant score beyond suite size and what tasks at random would show." in answer
    for test in (None, perfect.model_copy(update={"null_mean": None})):
        answer = _describe(case, untested, estimates=high, calibrated=None, test=test).answer
        assert "a moderate association" in answer
        assert answer.endswith("how much of it tasks at random would show is not known.")
    against = found.calibrated.model_copy(update={"estimate": -0.4, "null_mean": 0.28})
    assert "has a moderate negative association" in _describe(case, untested, calibrated=against).answer


def test_numbers_are_the_records(case):
    metric = case.correlation.metrics["tool_calls"]
    text = _describe(case).numbers
    assert f"effect {number(metric.calibrated.estimate)}" in text
    assert "90% interval" in text
    assert "adjusted p = 0.006" in text
    assert "60 subsets, 20 tasks, 12 mutants" in text


def test_caveats_name_what_misleads(case):
    assert any("Wiring test" in text for text in _describe(case, metric="synthetic").caveats)
    assert any("Null metric" in text for text in _describe(case, metric="suite_size").caveats)
    volume = _describe(case, finding="not separable from volume").caveats
    assert any("could not be told apart" in text for text in volume)
    limited = _describe(case, limits=["fewer than 20 tasks", "fewer than 10 mutants"]).caveats
    assert "Limits: fewer than 20 tasks; fewer than 10 mutants." in limited


def test_only_a_claim_was_registered_or_not(case):
    registration = "Whether this was registered before the data is not on record."
    claimed = Verdict(verdict="blocked", reason="r", minimum_effect=0.1)
    assert registration in _describe(case, claimed).caveats
    assert registration not in _describe(case, Verdict(verdict="blocked", reason="r")).caveats


def test_small_formats():
    assert number(-0.5) == "−0.50"
    assert number(None) == "–"
    assert p_text(0.0004) == "< 0.001"
    assert p_text(0.0414) == "= 0.041"
    assert sentence("add tasks") == "Add tasks."
    assert sentence("") == ""
    assert [strength(x) for x in (-0.05, 0.05, -0.1, -0.2, 0.4, 0.6, 0.95)] == [
        "next to no", "next to no", "a weak negative", "a weak negative", "a moderate", "a strong", "a very strong",
    ]  # fmt: skip
