# SPDX-License-Identifier: Apache-2.0
"""The gate: right status on every verdict and on unfinished evidence; JUnit, Markdown and badge say the same."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from metric_benchmark.config.models import AnalysisConfig, GatesConfig
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.reporting.data import ReportData, load_report
from metric_benchmark.reporting.gate import check_gates, suite_coverage, suite_score
from metric_benchmark.reporting.gate_output import to_badge, to_junit, to_markdown

_SMALL = {"n_tasks": 8, "n_mutants": 4, "n_subsets": 16}


@pytest.fixture(scope="module")
def decided(world, tmp_path_factory):
    """Returns the records of a small finished case with the wanted verdict on tool_calls."""
    made: dict[str, ReportData] = {}

    def make(verdict: str) -> ReportData:
        if verdict not in made:
            case = world.World(**_SMALL, verdicts={"tool_calls": verdict})
            made[verdict] = load_report(world.write_world(tmp_path_factory.mktemp("gate"), {"desk": case}))
        return made[verdict]

    return make


@pytest.mark.parametrize(
    ("verdict", "status"), [("supported", 0), ("refuted", 1), ("inconclusive", 1), ("blocked", 1), ("not_tested", 1)]
)
def test_the_verdict_decides_the_exit_status(decided, verdict, status):
    result = check_gates(decided(verdict))
    assert result.exit_status == status
    assert [check.name for check in result.checks] == ["verdict of tool_calls"]
    assert result.checks[0].found.startswith(verdict.replace("_", " "))


def test_other_verdicts_can_be_accepted(decided):
    gates = GatesConfig(accept=("supported", "inconclusive"))
    assert check_gates(decided("inconclusive"), gates).exit_status == 0
    assert check_gates(decided("refuted"), gates).exit_status == 1


def test_a_metric_without_a_verdict_fails_when_it_is_named(decided):
    result = check_gates(decided("supported"), GatesConfig(metrics=("tool_calls", "synthetic")))
    assert [(check.name, check.outcome) for check in result.checks] == [
        ("verdict of tool_calls", "passed"), ("verdict of synthetic", "failed"),
    ]  # fmt: skip


def test_unfinished_evidence_has_status_3(world, tmp_path):
    root = world.write_world(tmp_path, {"desk": world.World(**_SMALL)}, stop_after="coverage")
    with pytest.raises(EvidenceError, match=r"cannot be checked\. Not complete") as caught:
        check_gates(load_report(root))
    assert caught.value.exit_status == 3


def test_evidence_changed_after_the_seal_has_status_3(world, tmp_path):
    root = world.write_world(tmp_path, {"desk": world.World(**_SMALL, verdicts={"tool_calls": "supported"})})
    world.change_coverage(root, "desk")
    with pytest.raises(EvidenceError, match="Out of date"):
        check_gates(load_report(root))


def test_nothing_to_check_is_a_wrong_request(world, tmp_path):
    data = load_report(world.write_world(tmp_path, {"desk": world.World(**_SMALL)}))
    with pytest.raises(ConfigError, match="nothing to check"):
        check_gates(data)
    assert check_gates(data, GatesConfig(min_suite_score=0.0)).exit_status == 0


@pytest.mark.parametrize("gates", [{"accept": ["supported"]}, {"require_registration": True}])
def test_gates_that_ask_about_hypotheses_fail_where_there_are_none(world, tmp_path, gates):
    data = load_report(world.write_world(tmp_path, {"desk": world.World(**_SMALL)}))
    result = check_gates(data, GatesConfig.model_validate({**gates, "min_suite_score": 0.0}))
    assert [check.message for check in result.failed] == [
        "hypotheses: found none; wanted at least one (`correlation.hypotheses` in analysis.yaml)"
    ]
    assert result.exit_status == 1


@pytest.mark.parametrize(("accept", "n_failed"), [("supported", 0), ("refuted", 1)])
def test_gates_of_older_evidence_are_written_in_full_and_ask_for_no_more_than_was_said(
    world, tmp_path, accept, n_failed
):
    data = load_report(world.write_world(tmp_path, {"desk": world.World(**_SMALL)}))
    gates = {
        "accept": [accept], "metrics": [], "min_suite_score": 0.0, "min_suite_coverage": {},
        "max_false_kill_rate": None, "max_trials_without_verdict": None, "require_registration": False,
        "require_native_validation": False,
    }  # fmt: skip
    data = replace(data, inputs=data.inputs.model_copy(update={"gates": gates}))
    assert len(check_gates(data).failed) == n_failed


def test_thresholds_are_inclusive_and_use_the_records(decided):
    data = decided("supported")
    scores, measured = data.cases[0].scores, data.cases[0].coverage.metrics["tool_calls"]
    score, coverage = suite_score(scores), suite_coverage(measured, scores.eligible_tasks)
    assert score == (4 - len(scores.never_killed)) / 4
    assert 0 < coverage < 1
    at = GatesConfig(min_suite_score=score, min_suite_coverage={"tool_calls": coverage}, max_false_kill_rate=0.0)
    assert check_gates(data, at).exit_status == 0
    above = GatesConfig(min_suite_score=min(1.0, score + 0.01), min_suite_coverage={"tool_calls": coverage + 0.01})
    assert [check.name for check in check_gates(data, above).failed] == [
        "mutant score of the whole suite", "tool_calls coverage of the whole suite",
    ]  # fmt: skip


def test_demands_on_the_experiment_as_a_whole(decided):
    data = decided("supported")
    gates = GatesConfig(max_trials_without_verdict=0, require_native_validation=True, require_registration=True)
    assert [(c.name, c.outcome) for c in check_gates(data, gates).checks if c.name != "verdict of tool_calls"] == [
        ("trials without a verdict", "passed"), ("native validation", "failed"), ("hypotheses registered", "failed"),
    ]  # fmt: skip


def test_gates_come_from_the_evidence(decided):
    data = decided("supported")
    inputs = data.inputs.model_copy(update={"gates": {"accept": ["refuted"]}})
    assert check_gates(replace(data, inputs=inputs)).exit_status == 1


def test_junit_parses_and_counts(decided):
    result = check_gates(decided("refuted"), GatesConfig(min_suite_score=0.0, max_trials_without_verdict=0))
    root = ET.fromstring(to_junit(result))
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "3", "1")
    assert [(s.get("name"), s.get("tests"), s.get("failures")) for s in root] == [
        ("drawn-experiment", "1", "0"), ("desk", "2", "1"),
    ]  # fmt: skip
    (failure,) = root.iter("failure")
    assert failure.get("message") == "verdict of tool_calls: found refuted (made up: refuted); wanted supported"


def test_hostile_names_survive_junit_markdown_and_badge(decided):
    result = check_gates(decided("refuted"))
    bad = replace(result, experiment="<x>\x00&", checks=(replace(result.checks[0], case="<b>|\x1b", found="`<i>`"),))
    root = ET.fromstring(to_junit(bad))
    assert root.get("name") == "<x>�&"
    text = to_markdown(bad, decided("refuted"))
    assert "<b>" not in text
    assert "\\<b\\>\\|" in text
    assert ET.fromstring(to_badge(bad)).get("aria-label") == "metric benchmark: 1 of 1 failed"


def test_markdown_puts_failures_first_and_ends_with_the_results(decided):
    data = decided("refuted")
    lines = to_markdown(check_gates(data, GatesConfig(min_suite_score=0.0)), data).splitlines()
    assert lines[0] == "## Metric Benchmark: 1 of 2 checks failed"
    rows = [line for line in lines if line.startswith(("| ❌", "| ✅"))]
    assert [row[2] for row in rows] == ["❌", "✅"]
    assert any(line.startswith("| desk | tool\\_calls") for line in lines)


def test_the_badge_is_green_only_when_all_passed(decided):
    assert "#1a7f37" in to_badge(check_gates(decided("supported")))
    assert "#1a7f37" not in to_badge(check_gates(decided("refuted")))


def test_gates_are_part_of_analysis_yaml():
    settings = {
        "schema": "metric-benchmark/analysis/v1",
        "scoring": {"kill_rule": {"name": "deterministic"}},
        "coverage": [{"name": "tool_calls"}],
    }
    assert AnalysisConfig.model_validate({**settings, "gates": {"metrics": ["tool_calls"]}}).gates.accept == (
        "supported",
    )
    with pytest.raises(ValueError, match="metrics that `coverage` does not list: nosuch"):
        AnalysisConfig.model_validate({**settings, "gates": {"min_suite_coverage": {"nosuch": 0.5}}})
