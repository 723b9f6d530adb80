# SPDX-License-Identifier: Apache-2.0
"""The audit metrics, rule by rule: what the format allows, what it refuses, and what a trace covers."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path

import pytest
import yaml

from metric_benchmark.coverage.audit.decide import decide
from metric_benchmark.coverage.audit.judgments import parse_judgments
from metric_benchmark.coverage.audit.spec import BEGIN, END, load_audit, parse_audit
from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.registry import MetricSpec, check_metrics
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.records.base import Undefined


def tool(name, **more):
    return {
        "kind": "tool",
        "name": name,
        "description": f"the tool {name}",
        "expected_use": "when needed",
        "expected_failure_behavior": "says so",
        "evidence_required": [{"kind": "tool_call", "tool": name, "description": "a call"}],
        **more,
    }


def call(name):
    return {"kind": "tool_call", "tool": name, "description": f"calls {name}"}


def judged(kind="outcome", description="it worked"):
    return {"kind": kind, "description": description}


def capability(name, *evidence, tools=(), **more):
    return {
        "kind": "capability",
        "name": name,
        "description": f"can {name}",
        "required_tools": list(tools),
        "expected_behavior": "does it",
        "evidence_required": list(evidence),
        **more,
    }


def failure(name, *evidence, **more):
    return {
        "kind": "failure_case",
        "name": name,
        "applies_to": ["answer"],
        "description": f"fails at {name}",
        "trigger": "something breaks",
        "expected_behavior": "copes",
        "evidence_required": list(evidence),
        **more,
    }


ITEMS = [
    tool("read"),
    tool("db.write"),
    tool("search"),
    capability("look", call("read")),
    capability("both", call("read"), tools=["search"]),
    capability("answer", judged()),
    capability("edit", judged("state_change", "saved"), call("db.write"), judged("output", "said so"), tools=["read"]),
    failure("calm", call("read")),
    failure("no-write", judged("policy_boundary", "kept off"), prohibited_tools=["db.write", "rm"]),
    failure("recover", judged("outcome", "found another way"), call("search"), expected_tools=["db.write"]),
]


def document(**changes):
    return {"schema": "nemo.eval_author.audit.v1", "agent": "desk", "status": "approved", "items": ITEMS, **changes}


def markdown(value, before="# Audit\n\nProse.\n", after="More prose.\n"):
    block = value if isinstance(value, str) else yaml.safe_dump(value, sort_keys=False)
    return f"{before}\n{BEGIN}\n```yaml\n{block}```\n{END}\n\n{after}"


AUDIT = parse_audit(markdown(document()))
BY_NAME = {item.name: item for item in AUDIT.items}


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


def changed(index, **fields):
    items = copy.deepcopy(ITEMS)
    items[index] |= fields
    return document(items=[{k: v for k, v in item.items() if v is not None} for item in items])


# What the format refuses: (YAML value or text, part of the message).
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (document(schema="nemo.eval_author.audit.v2"), "schema: Input should be 'nemo.eval_author.audit.v1'"),
        (document(status="final"), "status: Input should be 'draft' or 'approved', found 'final'"),
        (document(agent=""), "agent: String should have at least 1 character"),
        (document(items=[]), "items: Tuple should have at least 1 item"),
        (document(owner="me"), "owner: Extra inputs are not permitted"),
        (document(sources=[{"name": "a", "path": "x", "sha256": "abc"}]), "sources[0].sha256: String should match"),
        (document(sources=[{"name": "a", "path": "x"}] * 2), "sources[1].name: 'a' is used twice"),
        (changed(0, kind="gadget"), "items[0]: Input tag 'gadget'"),
        (changed(0, name="1st"), "items[0].tool.name: String should match pattern"),
        (changed(0, name="with space"), "items[0].tool.name: String should match pattern"),
        (changed(1, name="read"), "items[1].name: 'read' is used twice"),
        (changed(3, name="read"), "items[3].name: 'read' is used twice"),
        (changed(0, expected_use=None), "items[0].tool.expected_use: Field required"),
        (changed(0, trigger="x"), "items[0].tool.trigger: Extra inputs are not permitted"),
        (changed(3, required_tools=None), "items[3].capability.required_tools: Field required"),
        (changed(3, required_tools=["rm"]), "items[3].required_tools: 'rm' is no declared tool"),
        (changed(3, required_tools=["answer"]), "items[3].required_tools: 'answer' is no declared tool"),
        (changed(3, evidence_required=[]), "evidence_required: Tuple should have at least 1 item"),
        (changed(3, evidence_required=[call("rm")]), "items[3].evidence_required[0].tool: 'rm' is no declared tool"),
        (changed(3, evidence_required=[judged("hunch")]), "Input tag 'hunch'"),
        (changed(3, evidence_required=[{**judged(), "tool": "read"}]), "tool: Extra inputs are not permitted"),
        (changed(3, evidence_required=[{"kind": "tool_call", "description": "x"}]), "tool: Field required"),
        (changed(3, evidence_required=[{"kind": "outcome"}]), "description: Field required"),
        (changed(7, applies_to=[]), "applies_to: Tuple should have at least 1 item"),
        (changed(7, applies_to=["read"]), "items[7].applies_to: 'read' is no declared capability"),
        (changed(9, expected_tools=["rm"]), "items[9].expected_tools: 'rm' is no declared tool"),
        ("items: [a\n", "not valid YAML"),
        (
            "a: &a [1, 1, 1, 1]\n"
            + "".join(f"{y}: &{y} [*{x}, *{x}, *{x}, *{x}]\n" for x, y in zip("abcdefghi", "bcdefghij", strict=True)),
            "expands to more than 100000 values",
        ),
        ("a: &a [*a]\n", "expands to more than 100000 values"),
        ("agent: a\nagent: b\n", "key 'agent' is given twice"),
        ("[1, 2]\n", "Input should be a valid dictionary"),
        ("\n", "Input should be a valid dictionary"),
    ],
)
def test_what_the_format_refuses(value, message):
    with pytest.raises(ConfigError) as caught:
        parse_audit(markdown(value), "audit.md")
    assert message in str(caught.value)
    assert str(caught.value).startswith("audit.md: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing here", "0 lines are '<!-- BEGIN"),
        (markdown(document()).replace(END, ""), "0 lines are '<!-- END"),
        (markdown(document()) * 2, "2 lines are '<!-- BEGIN"),
        (markdown(document(), before=f"{END}\n").replace(f"```\n{END}", "```"), "END marker stands before"),
        (markdown(document()).replace("```yaml", "```json"), "0 fenced yaml blocks"),
        (f"{BEGIN}\n```yaml\na: 1\n```\n```yaml\nb: 1\n```\n{END}\n", "2 fenced yaml blocks"),
        (f"text {BEGIN} text\n{END}\n", "0 lines are '<!-- BEGIN"),
    ],
)
def test_the_block_must_stand_between_the_markers(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_audit(text)


def test_what_the_format_allows():
    assert [len(AUDIT.of_kind(kind)) for kind in ("tool", "capability", "failure_case")] == [3, 4, 3]
    # Prose outside the markers may hold any other fenced block; source_refs are for people.
    text = markdown(changed(0, source_refs=["ethos:Tools"]), before="```yaml\nnot: this\n```\n")
    assert parse_audit(text).items[0].source_refs == ("ethos:Tools",)


def test_digests_of_sources_are_checked_when_given(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "ETHOS.md").write_text("be kind")
    digest = f"sha256:{hashlib.sha256(b'be kind').hexdigest()}"
    source = {"name": "ethos", "path": "../ETHOS.md", "sha256": digest}
    audit = tmp_path / "docs" / "audit.md"
    audit.write_text(markdown(document(sources=[source, {"name": "free", "path": "nowhere.md"}])))
    assert load_audit(audit).sources[0].sha256 == digest
    (tmp_path / "ETHOS.md").write_text("be quick")
    with pytest.raises(ConfigError, match=r"sources\[0\]\.sha256: \.\./ETHOS\.md is sha256:.*expected sha256:"):
        load_audit(audit)
    (tmp_path / "ETHOS.md").unlink()
    with pytest.raises(ConfigError, match=r"sources\[0\]\.path: \.\./ETHOS\.md cannot be read"):
        load_audit(audit)


def judgment(name="answer", index=0, kind="outcome", description="it worked", item="capability", **more):
    return {
        item: name,
        "evidence_index": index,
        "kind": kind,
        "description": description,
        "status": "satisfied",
        "confidence": 0.9,
        "rationale": "seen",
        **more,
    }


def side_file(*judgments, sha256="0" * 64, **more):
    return {"trace_sha256": sha256, "judgments": list(judgments), **more}


# What judgments are refused: (side file, part of the message).
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "Input should be a valid dictionary"),
        (side_file(sha256="abc"), "trace_sha256: String should match"),
        ({"judgments": []}, "trace_sha256: Field required"),
        (side_file({**judgment(), "status": None}), "judgments[0].status"),
        (side_file(judgment(confidence=1.5)), "judgments[0].confidence"),
        (side_file(judgment(index=-1)), "judgments[0].evidence_index"),
        (side_file(judgment(index=True)), "judgments[0].evidence_index"),
        (side_file({**judgment(), "failure_case": "calm"}), "exactly one of `capability` and `failure_case`"),
        (side_file({k: v for k, v in judgment().items() if k != "capability"}), "exactly one of"),
        (side_file(judgment("nothing")), "judgments[0]: 'nothing' is no capability of the audit"),
        (side_file(judgment("calm")), "'calm' is no capability of the audit"),
        (side_file(judgment("read")), "'read' is no capability of the audit"),
        (side_file(judgment("answer", 1)), "evidence_index 1: 'answer' has 1 pieces of evidence"),
        (side_file(judgment("edit", 1, "tool_call", "calls db.write")), "targets tool_call evidence"),
        (side_file(judgment(kind="output")), "kind is 'output', expected 'outcome'"),
        (side_file(judgment(description="it failed")), "description is 'it failed', expected 'it worked'"),
        (side_file(judgment(), judgment()), "judgments[1]: judges evidence 0 of 'answer' again"),
    ],
)
def test_what_judgments_are_refused(value, message):
    with pytest.raises(ConfigError) as caught:
        parse_judgments(value, "j.json", AUDIT)
    assert message in str(caught.value)


def test_good_judgments_may_carry_more_than_is_read():
    value = side_file(
        judgment(confidence="high", supporting_trace_refs=["steps[2]"]),
        judgment("no-write", 0, "policy_boundary", "kept off", "failure_case", status="not_satisfied"),
        sha256=f"sha256:{'a' * 64}",
        judged_by="me",
        schema="nemo.eval_author.audit_capability_judgments.v1",
    )
    found = parse_judgments(value, "j.json", AUDIT)
    assert found.trace_sha256 == "a" * 64
    assert found.status == {("answer", 0): "satisfied", ("no-write", 0): "not_satisfied"}


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
