# SPDX-License-Identifier: Apache-2.0
"""Reads judgments of a trace's evidence and checks each against the audit it judges by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from metric_benchmark.coverage.audit.spec import Audit, JudgedEvidence, JudgedKind, describe
from metric_benchmark.errors import ConfigError, Problem

#: Item name and index of its evidence.
Target = tuple[str, int]


class Judgment(BaseModel):
    """What somebody said about one piece of evidence of one item."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    capability: str | None = None
    failure_case: str | None = None
    evidence_index: Annotated[int, Field(ge=0, strict=True)]
    # `tool_call` is let in here to be refused with its reason.
    kind: JudgedKind | Literal["tool_call"]
    description: str
    status: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    confidence: Annotated[float, Field(ge=0, le=1)] | str
    rationale: str
    supporting_trace_refs: tuple[Any, ...] = ()

    @model_validator(mode="after")
    def _one_item(self) -> Self:
        if (self.capability is None) == (self.failure_case is None):
            raise ValueError("expected exactly one of `capability` and `failure_case`")
        return self

    @property
    def item(self) -> str:
        """The item's name."""
        return self.capability or self.failure_case or ""

    @property
    def item_kind(self) -> str:
        """The item's kind."""
        return "failure_case" if self.capability is None else "capability"


class JudgmentFile(BaseModel):
    """A side file: the judgments of one trace."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    trace_sha256: Annotated[str, Field(pattern=r"^(sha256:)?[0-9a-f]{64}$")]
    judged_by: str | None = None
    judgments: tuple[Judgment, ...]


@dataclass(frozen=True)
class Judgments:
    """The judgments of one trace, checked against the audit.

    Args:
        place: the file, for messages.
        trace_sha256: 64 hex digits of the trajectory file that was judged.
        status: evidence -> what was said of it; only `satisfied` covers.
    """

    place: str
    trace_sha256: str
    status: dict[Target, str]


def load_judgments(path: Path, place: str, audit: Audit) -> Judgments:
    """Reads a file of judgments.

    Raises:
        ConfigError: all that is wrong with it.
    """
    try:
        value: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(Problem(place, f"not a JSON file of judgments: {error}")) from None
    return parse_judgments(value, place, audit)


def parse_judgments(value: object, place: str, audit: Audit) -> Judgments:
    """Validates judgments given as JSON values.

    Raises:
        ConfigError: all that is wrong with them: shape, unknown item, evidence that is not as the audit has it,
            evidence that needs no judgment, two judgments of one evidence.
    """
    try:
        found = JudgmentFile.model_validate(value)
    except ValidationError as error:
        raise ConfigError([Problem(place, message) for message in describe(error)]) from None
    status: dict[Target, str] = {}
    problems: list[str] = []
    for i, judgment in enumerate(found.judgments):
        wrong = list(_mismatches(judgment, audit))
        target = (judgment.item, judgment.evidence_index)
        if target in status:
            wrong.append(f"judges evidence {judgment.evidence_index} of {judgment.item!r} again; keep one judgment")
        problems += [f"judgments[{i}]: {problem}" for problem in wrong]
        status[target] = judgment.status
    if problems:
        raise ConfigError([Problem(place, problem) for problem in problems])
    return Judgments(place, found.trace_sha256.removeprefix("sha256:"), status)


def _mismatches(judgment: Judgment, audit: Audit) -> Iterator[str]:
    item = next((i for i in audit.items if i.name == judgment.item and i.kind == judgment.item_kind), None)
    if item is None:
        yield f"{judgment.item!r} is no {judgment.item_kind} of the audit"
        return
    if judgment.evidence_index >= len(item.evidence_required):
        yield (
            f"evidence_index {judgment.evidence_index}: {judgment.item!r} has "
            f"{len(item.evidence_required)} pieces of evidence, counted from 0"
        )
        return
    evidence = item.evidence_required[judgment.evidence_index]
    if not isinstance(evidence, JudgedEvidence):
        yield "targets tool_call evidence, which the trace decides; remove the judgment"
        return
    for name in ("kind", "description"):
        said, expected = getattr(judgment, name), getattr(evidence, name)
        if said != expected:
            yield f"{name} is {said!r}, expected {expected!r} as in the audit; judge the current audit"


def merge_judgments(files: Iterable[Judgments]) -> dict[str, dict[Target, str]]:
    """Joins the files of each trace: digest of the trace -> evidence -> status.

    Raises:
        ConfigError: two files judge the same evidence of the same trace.
    """
    merged: dict[str, dict[Target, str]] = {}
    problems: list[Problem] = []
    for judgments in files:
        known = merged.setdefault(judgments.trace_sha256, {})
        problems += [
            Problem(judgments.place, f"evidence {index} of {item!r} is judged in another file too; keep one")
            for item, index in sorted(known.keys() & judgments.status.keys())
        ]
        known.update(judgments.status)
    if problems:
        raise ConfigError(problems)
    return merged
