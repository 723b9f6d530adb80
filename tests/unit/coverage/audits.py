# SPDX-License-Identifier: Apache-2.0
"""Audits and judgments of them, as values a test can change; conftest.py loads this as `coverage_audits`."""

from __future__ import annotations

import yaml

from metric_benchmark.coverage.audit.spec import BEGIN, END, parse_audit


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
