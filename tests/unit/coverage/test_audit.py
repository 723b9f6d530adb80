# SPDX-License-Identifier: Apache-2.0
"""The audit metrics, rule by rule: what a trace covers, and what is measured from judgments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coverage_audits import (
    BY_NAME,
    capability,
    document,
    failure,
    judged,
    judgment,
    markdown,
    side_file,
    tool,
)

from metric_benchmark.coverage.audit.decide import decide
from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.registry import MetricSpec, check_metrics
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.records.base import Undefined


# What one trace covers, item by item: (item, tools called, judgments, state).
@pytest.mark.parametrize(
    ("item", "called", "judgments", "state"),
    [
        # tool: covered iff called by exactly that name
        ("read", {"read"}, {}, "covered"),
        ("read", set(), {}, "uncovered"),
        ("read", {"search", "Read", "read2"}, {}, "uncovered"),
        ("db.write", {"db.write"}, {}, "covered"),
        # capability whose evidence the trace decides
        ("look", {"read"}, {}, "covered"),
        ("look", {"search"}, {}, "uncovered"),
        # required tools and the tools of evidence must both be there
        ("both", {"read", "search"}, {}, "covered"),
        ("both", {"read"}, {}, "uncovered"),
        ("both", {"search"}, {}, "uncovered"),
        # capability that needs a judgment and no tool
        ("answer", set(), {("answer", 0): "satisfied"}, "covered"),
        ("answer", {"read"}, {}, "unjudged"),
        ("answer", {"read"}, {("answer", 0): "not_satisfied"}, "uncovered"),
        ("answer", {"read"}, {("answer", 0): "unclear"}, "uncovered"),
        ("answer", set(), {("edit", 0): "satisfied"}, "unjudged"),
        # all at once: required tool, called tool, two judgments
        ("edit", {"read", "db.write"}, {("edit", 0): "satisfied", ("edit", 2): "satisfied"}, "covered"),
        ("edit", {"read", "db.write"}, {("edit", 0): "satisfied"}, "unjudged"),
        ("edit", {"read", "db.write"}, {("edit", 0): "satisfied", ("edit", 2): "missing"}, "uncovered"),
        ("edit", {"db.write"}, {("edit", 0): "satisfied", ("edit", 2): "satisfied"}, "uncovered"),
        ("edit", {"read"}, {("edit", 0): "satisfied", ("edit", 2): "satisfied"}, "uncovered"),
        ("edit", {"read"}, {}, "uncovered"),
        # a judgment against comes before a judgment that is missing
        ("edit", {"read", "db.write"}, {("edit", 2): "not_satisfied"}, "uncovered"),
        # failure case: no prohibited tool, evidence as above
        ("calm", {"read"}, {}, "covered"),
        ("calm", set(), {}, "uncovered"),
        ("no-write", set(), {("no-write", 0): "satisfied"}, "covered"),
        ("no-write", {"read"}, {}, "unjudged"),
        ("no-write", {"db.write"}, {("no-write", 0): "satisfied"}, "uncovered"),
        # a prohibited tool need not be declared
        ("no-write", {"rm"}, {("no-write", 0): "satisfied"}, "uncovered"),
        # expected tools are advice, not evidence
        ("recover", {"search"}, {("recover", 0): "satisfied"}, "covered"),
        ("recover", {"db.write"}, {("recover", 0): "satisfied"}, "uncovered"),
        ("recover", {"search"}, {}, "unjudged"),
    ],
)
def test_what_a_trace_covers(item, called, judgments, state):
    assert decide(BY_NAME[item], frozenset(called), judgments) == state


@pytest.fixture
def desk(trial, tmp_path: Path):
    """Two tasks: `a` reads and writes, a subagent of `b` searches. Measures an audit on them."""
    sub = {**trial.atif(trial.step("search")), "trajectory_id": "sub"}
    baseline = [
        trial("a", trial.atif(trial.step("read", "db.write"))),
        trial("b", trial.atif(trial.step("think"), subagent_trajectories=[sub])),
    ]
    base = tmp_path / "experiment"
    base.mkdir()
    (base / "audit.md").write_text(markdown(document()))

    def measure(kind, *files, audit=None, **settings):
        if audit:
            (base / "audit.md").write_text(markdown(audit))
        for i, value in enumerate(files):
            (base / f"j{i}.json").write_text(json.dumps(value))
        names = [f"j{i}.json" for i in range(len(files))]
        given = {"audit": "audit.md", **({"judgments": names} if names else {}), **settings}
        record = measure_coverage(
            "desk",
            tasks=["a", "b"],
            baseline=baseline,
            subsets={"a": ["a"], "b": ["b"], "ab": ["a", "b"]},
            description={},
            metrics=[MetricSpec(kind, settings=given)],
            base=base,
        )
        return record.metrics[kind]

    measure.sha256 = {t.task: t.trajectory_sha256 for t in baseline}
    measure.base = base
    return measure


def test_tools_count_embedded_subagents(desk):
    found = desk("audit_tools")
    assert found.items == ["db.write", "read", "search"]
    assert found.tasks == {"a": ["db.write", "read"], "b": ["search"]}
    assert [found.subsets[s].coverage for s in ("a", "b", "ab")] == [pytest.approx(2 / 3), pytest.approx(1 / 3), 1.0]
    assert found.counts == {"unjudged_items": 0, "unjudged_task_items": 0}
    assert set(found.files_sha256) == {"audit.md"}


def test_unjudged_items_are_uncovered_and_counted(desk):
    found = desk("audit_capabilities")
    # `look` and `both` need no judgment, so the kind is measured; `answer` is open in both tasks, `edit` in `a`.
    assert found.items == ["answer", "both", "edit", "look"]
    assert found.tasks == {"a": ["look"], "b": []}
    assert found.counts == {"unjudged_items": 2, "unjudged_task_items": 3}


def test_judgments_of_a_trace_cover_its_items(desk):
    edit = [judgment("edit", 0, "state_change", "saved"), judgment("edit", 2, "output", "said so")]
    first = side_file(judgment(status="not_satisfied"), *edit, sha256=desk.sha256["a"])
    second = side_file(judgment(), sha256=f"sha256:{desk.sha256['b']}")
    found = desk("audit_capabilities", first, second)
    assert found.tasks == {"a": ["edit", "look"], "b": ["answer"]}
    assert found.subsets["ab"].coverage == 0.75
    assert found.counts == {"unjudged_items": 0, "unjudged_task_items": 0}


def test_a_kind_that_nobody_judged_is_unmeasured_not_zero(desk):
    only = document(items=[tool("read"), capability("answer", judged()), failure("calm", judged())])
    for kind, name in (("audit_capabilities", "capability"), ("audit_failure_cases", "failure_case")):
        found = desk(kind, audit=only)
        assert found.unmeasured_reasons == dict.fromkeys(["a", "b"], f"nobody judged any {name} on its traces")
        assert found.subsets["ab"].coverage == Undefined(reason="unmeasured_tasks")
    # One task judged: that one is measured, the other is not.
    found = desk("audit_capabilities", side_file(judgment(status="not_satisfied"), sha256=desk.sha256["a"]))
    assert found.unmeasured_tasks == ["b"]
    assert found.subsets["a"].coverage == 0.0


def test_a_kind_without_items_has_no_coverage(desk):
    found = desk("audit_failure_cases", audit=document(items=[tool("read")]))
    assert (found.items, found.unmeasured_tasks) == ([], [])
    assert found.subsets["ab"].coverage == Undefined(reason="no_items")


def test_judgments_of_other_traces_are_refused(desk):
    with pytest.raises(EvidenceError, match=r"j0\.json: judges the trace with SHA-256 0{64}, which is none of the 2"):
        desk("audit_capabilities", side_file(judgment()))


def test_the_same_evidence_in_two_files_is_refused(desk):
    value = side_file(judgment(), sha256=desk.sha256["a"])
    with pytest.raises(ConfigError, match=r"j1\.json: evidence 0 of 'answer' is judged in another file too"):
        desk("audit_capabilities", value, value)


def test_a_draft_is_noted_and_files_are_part_of_the_request(desk):
    before = desk("audit_tools")
    after = desk("audit_tools", audit=document(status="draft"))
    assert after.notes == ["the audit of desk is a draft"]
    assert after.request_sha256 != before.request_sha256


def test_judgments_are_read_from_a_folder_per_case(desk):
    folder = desk.base / "judged" / "desk"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps(side_file(judgment(), sha256=desk.sha256["a"])))
    (folder / "notes.txt").write_text("not read")
    assert desk("audit_capabilities", judgments=["judged/{case}"]).tasks["a"] == ["answer", "look"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"audit": "gone.md"}, "metric audit_capabilities: gone.md: no such file or folder"),
        ({"audit": "../../elsewhere.md"}, "leads out of"),
        ({"audit": "audit.md", "judgments": ["gone.json"]}, "gone.json: no such file or folder"),
        ({"audit": "audit.md", "judgments": ["audit.md"]}, "audit.md: not a JSON file of judgments"),
        ({"audit": "audit.md", "judgement": []}, "settings.judgement: unknown setting; did you mean judgments?"),
    ],
)
def test_files_are_checked_before_anything_is_measured(desk, settings, message):
    specs = [MetricSpec("audit_capabilities", settings=settings)]
    found = check_metrics(specs, desk.base, cases=["desk"])
    assert len(found) == 1
    assert message in str(found[0])
