# SPDX-License-Identifier: Apache-2.0
"""What makes a case unsound, by worked-out rewards and coverage."""

from __future__ import annotations

import pytest

from metric_benchmark.config.models import KillRuleConfig, ScoringConfig
from metric_benchmark.proof.findings import (
    Finding,
    Proof,
    check_controls,
    check_metric,
    check_nop,
    check_oracle,
    check_reliability,
    check_subsets,
)
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.coverage import MetricCoverage, SubsetCoverage

SAME = ScoringConfig(kill_rule=KillRuleConfig(name="deterministic"))
TESTED = ScoringConfig(kill_rule=KillRuleConfig(name="exact", alpha=0.05))


def brief(findings) -> list[tuple[str, str, str]]:
    return [(finding.state, finding.subject, finding.found) for finding in findings]


def test_an_oracle_that_passes_everything():
    found = check_oracle("desk", ["a", "b"], {"a": [1.0], "b": [1.0]}, 1.0)
    assert brief(found) == [("ok", "", "2 of 2 tasks are passed by their own solution")]


def test_an_oracle_that_fails_and_one_without_a_verdict():
    found = list(check_oracle("desk", ["a", "b", "c"], {"a": [0.5], "b": [1.0]}, 1.0))
    assert brief(found) == [
        ("failed", "a", "its own solution gets 0.5, 1 passes"),
        ("unknown", "c", "no trial with a verdict"),
    ]
    assert found[0].remedy.startswith("correct its solution, tests or environment")


def test_a_task_that_is_passed_by_doing_nothing():
    found = check_nop("desk", ["a", "b"], {"a": [1.0], "b": [0.9]}, 1.0)
    assert brief(found) == [("failed", "a", "passed by an agent that does nothing")]


def test_an_unreliable_task_is_a_warning_and_is_left_out():
    rewards = {"a": [1, 1, 1, 1, 1], "b": [1, 1, 1, 0, 0]}
    found, eligibility = check_reliability("desk", ["a", "b"], rewards, SAME, run="the screening")
    assert brief(found) == [
        ("warning", "b", "passed 3 of 5 attempts of the screening, below the share of 0.8"),
        ("ok", "", "1 of 2 tasks are passed in at least 0.8 of the attempts of the screening"),
    ]
    assert eligibility is not None
    assert eligibility.eligible_tasks == ["a"]


def test_a_baseline_that_passes_nothing():
    found, eligibility = check_reliability("desk", ["a"], {"a": [0, 0]}, SAME, run="the baseline")
    assert brief(found) == [("failed", "", "no task is passed in 0.8 of the attempts of the baseline")]
    assert eligibility is None


def controls(settings, baseline, **rewards):
    found, eligibility = check_reliability("desk", list(baseline), baseline, settings, run="the baseline")
    assert eligibility is not None, found
    return brief(check_controls("desk", eligibility, baseline, rewards, settings))


def test_controls():
    baseline = {"a": [1.0], "b": [1.0]}
    assert controls(SAME, baseline, one=baseline, two=baseline) == [("ok", "", "2 of 2 controls survive")]
    assert controls(SAME, baseline, one={"a": [0.0], "b": [1.0]}, two=baseline) == [
        ("failed", "one", "killed by a: the agent does not do the same twice")
    ]
    assert controls(SAME, baseline, one={"a": [1.0]}) == [
        ("unknown", "one", "1 of 2 tasks have too few valid attempts")
    ]
    assert controls(SAME, baseline) == [("warning", "", "there is no control")]


def test_a_control_killed_under_a_rule_with_a_level_may_be_chance():
    # 10 of 10 against 0 of 10: certainly different.
    assert controls(TESTED, {"a": [1.0] * 10}, one={"a": [0.0] * 10}) == [("warning", "one", "killed by a")]


@pytest.mark.parametrize(
    ("subsets", "eligible", "state", "found"),
    [
        ({"s": ["a"], "t": ["a", "b"]}, ["a", "b"], "ok", "2 subsets of 2 sizes, 1 to 2 tasks"),
        ({"s": ["a"], "t": ["b"]}, ["a", "b"], "warning", "2 subsets, all have 1 eligible tasks"),
        # Only what is eligible counts.
        ({"s": ["a"], "t": ["a", "b"]}, ["a"], "warning", "2 subsets, all have 1 eligible tasks"),
        ({"s": ["a"]}, ["b"], "failed", "1 subsets, none has an eligible task"),
    ],
)
def test_sizes_of_subsets(subsets, eligible, state, found):
    assert brief([check_subsets("desk", subsets, eligible)]) == [(state, "", found)]


def metric(unmeasured=(), **values) -> MetricCoverage:
    subsets = {
        name: SubsetCoverage(coverage=Undefined(reason=value) if isinstance(value, str) else value, covered=[])
        for name, value in values.items()
    }
    return MetricCoverage(
        kind="opaque", subsets=subsets, unmeasured_tasks=list(unmeasured), request_sha256="0" * 64,
        metric="x", code_sha256="0" * 64, settings={},
    )  # fmt: skip


def test_metrics():
    assert brief(check_metric("desk", "m", metric(s=0.25, t=0.5))) == [("ok", "m", "0.250 to 0.500 over 2 subsets")]
    assert brief(check_metric("desk", "m", metric(s=0.5, t=0.5, u="no_items"))) == [
        ("failed", "m", "constant: 0.5 for all 2 subsets")
    ]
    assert brief(check_metric("desk", "m", metric(s="no_items", t="no_items"))) == [
        ("failed", "m", "no subset has a coverage: no_items")
    ]
    assert brief(check_metric("desk", "m", metric(["a"], s=0.0, t=1.0, u="unmeasured_tasks"))) == [
        ("ok", "m", "0.000 to 1.000 over 2 subsets"),
        ("warning", "m", "1 tasks are unmeasured: a"),
    ]


def test_a_proof_is_sound_with_warnings_only():
    warning = Finding("desk", "inert", "warning", "m", "inert")
    assert Proof((warning,), 1, 2).is_sound
    assert not Proof((warning, Finding("desk", "nop", "unknown", "a", "")), 1, 2).is_sound
    assert not Proof((warning, Finding("desk", "nop", "failed", "a", "")), 1, 2).is_sound
