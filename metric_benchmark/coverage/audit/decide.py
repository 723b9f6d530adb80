# SPDX-License-Identifier: Apache-2.0
"""Decides which items of an audit one trace covers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from metric_benchmark.coverage.audit.judgments import Target
from metric_benchmark.coverage.audit.spec import (
    CapabilityItem,
    FailureCaseItem,
    JudgedEvidence,
    ToolCallEvidence,
    ToolItem,
)

State = Literal["covered", "uncovered", "unjudged"]
Item = ToolItem | CapabilityItem | FailureCaseItem


def needs_judgment(item: Item) -> bool:
    """Tells whether a trace alone can never show this item to be covered."""
    return not isinstance(item, ToolItem) and any(isinstance(e, JudgedEvidence) for e in item.evidence_required)


def decide(item: Item, called: frozenset[str], judged: Mapping[Target, str]) -> State:
    """Decides one item on one trace.

    A tool is covered iff it was called. A capability is iff all required tools and all tools of its evidence were
    called, a failure case iff no prohibited tool was and all tools of its evidence were; for both, everything else
    must have been judged `satisfied`. Where only a missing judgment stands in the way, the item is `unjudged`.

    Args:
        item: an item of the audit.
        called: names of the tools the trace calls, subagents included.
        judged: the trace's judgments.
    """
    if isinstance(item, ToolItem):
        return "covered" if item.name in called else "uncovered"
    if isinstance(item, CapabilityItem) and not called.issuperset(item.required_tools):
        return "uncovered"
    if isinstance(item, FailureCaseItem) and not called.isdisjoint(item.prohibited_tools):
        return "uncovered"
    is_unjudged = False
    for index, evidence in enumerate(item.evidence_required):
        if isinstance(evidence, ToolCallEvidence):
            if evidence.tool not in called:
                return "uncovered"
            continue
        status = judged.get((item.name, index))
        if status is None:
            is_unjudged = True
        elif status != "satisfied":
            return "uncovered"
    return "unjudged" if is_unjudged else "covered"
