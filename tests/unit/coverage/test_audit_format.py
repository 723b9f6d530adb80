# SPDX-License-Identifier: Apache-2.0
"""What the audit format and its judgments allow, and what they refuse."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path

import pytest
from coverage_audits import (
    AUDIT,
    ITEMS,
    call,
    document,
    judged,
    judgment,
    markdown,
    side_file,
)

from metric_benchmark.coverage.audit.judgments import parse_judgments
from metric_benchmark.coverage.audit.spec import BEGIN, END, load_audit, parse_audit
from metric_benchmark.errors import ConfigError


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
