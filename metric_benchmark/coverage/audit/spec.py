# SPDX-License-Identifier: Apache-2.0
"""Reads `audit.md`: one fenced YAML block between two markers, `schema: nemo.eval_author.audit.v1`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.hashing import digest_file

BEGIN = "<!-- BEGIN:nemo-eval-author-audit:v1 -->"
END = "<!-- END:nemo-eval-author-audit:v1 -->"

ItemKind = Literal["tool", "capability", "failure_case"]
JudgedKind = Literal[
    "environment_state",
    "outcome",
    "output",
    "policy_boundary",
    "state_change",
    "trace_span",
    "user_intent",
    "verifier",
]

_FENCE = re.compile(r"^[ \t]*```[ \t]*(?:yaml|yml)[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_MAX_BYTES = 4 * 1024 * 1024
_MAX_NODES = 100_000


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.:/-]*$")]


class Source(_Part):
    """A document the specification was derived from; its digest is checked when given."""

    name: Text
    path: Text
    sha256: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None


class ToolCallEvidence(_Part):
    """Evidence that the trace itself shows: a call of a tool."""

    kind: Literal["tool_call"]
    tool: Name
    description: Text


class JudgedEvidence(_Part):
    """Evidence that somebody has to judge."""

    kind: JudgedKind
    description: Text


Evidence = Annotated[ToolCallEvidence | JudgedEvidence, Field(discriminator="kind")]
EvidenceList = Annotated[tuple[Evidence, ...], Field(min_length=1)]


class _Item(_Part):
    name: Name
    description: Text
    evidence_required: EvidenceList
    source_refs: tuple[Text, ...] = ()


class ToolItem(_Item):
    """A tool of the agent."""

    kind: Literal["tool"]
    expected_use: Text
    expected_failure_behavior: Text


class CapabilityItem(_Item):
    """Something the agent can do."""

    kind: Literal["capability"]
    required_tools: tuple[Name, ...]
    expected_behavior: Text


class FailureCaseItem(_Item):
    """A way in which things go wrong, and what the agent should do then."""

    kind: Literal["failure_case"]
    applies_to: Annotated[tuple[Name, ...], Field(min_length=1)]
    trigger: Text
    expected_behavior: Text
    expected_tools: tuple[Name, ...] = ()
    prohibited_tools: tuple[Name, ...] = ()
    prohibited_outputs: tuple[Text, ...] = ()


Item = Annotated[ToolItem | CapabilityItem | FailureCaseItem, Field(discriminator="kind")]


class Audit(_Part):
    """A whole specification."""

    schema_name: Literal["nemo.eval_author.audit.v1"] = Field(alias="schema")
    agent: Text
    status: Literal["draft", "approved"]
    sources: tuple[Source, ...] = ()
    items: Annotated[tuple[Item, ...], Field(min_length=1)]

    def of_kind(self, kind: ItemKind) -> tuple[ToolItem | CapabilityItem | FailureCaseItem, ...]:
        """Returns the items of one kind."""
        return tuple(item for item in self.items if item.kind == kind)


def load_audit(path: Path, *, check_sources: bool = True) -> Audit:
    """Reads and validates an audit file.

    Args:
        path: the `audit.md`.
        check_sources: compare the recorded digests of sources with the files they name.

    Raises:
        ConfigError: all that is wrong with it.
    """
    if path.stat().st_size > _MAX_BYTES:
        raise ConfigError(Problem(path.name, f"more than {_MAX_BYTES >> 20} MiB; this is no audit specification"))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(path.name, f"not UTF-8 (byte {error.start}); save it as UTF-8")) from None
    audit = parse_audit(text, path.name)
    if check_sources:
        problems = list(_check_sources(audit, path))
        if problems:
            raise ConfigError([Problem(path.name, problem) for problem in problems])
    return audit


def parse_audit(text: str, place: str = "audit.md") -> Audit:
    """Validates the text of an audit file; digests of sources are not looked at.

    Raises:
        ConfigError: all that is wrong with it.
    """
    block = _extract(text, place)
    try:
        value = _plain_yaml(block)
        audit = Audit.model_validate(value)
    except yaml.YAMLError as error:
        raise ConfigError(Problem(place, f"the block is not valid YAML: {error}")) from None
    except ValidationError as error:
        raise ConfigError([Problem(place, message) for message in describe(error)]) from None
    problems = list(_check_names(audit))
    if problems:
        raise ConfigError([Problem(place, problem) for problem in problems])
    return audit


def describe(error: ValidationError) -> Iterator[str]:
    """Yields one line per error, naming the value by its path."""
    for item in error.errors(include_url=False):
        path = ""
        for part in item["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        found = f", found {item['input']!r}" if isinstance(item["input"], str | int | float | None) else ""
        yield f"{path or 'the block'}: {item['msg']}{found}"


def _extract(text: str, place: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    for marker in (BEGIN, END):
        if lines.count(marker) != 1:
            raise ConfigError(
                Problem(place, f"{lines.count(marker)} lines are {marker!r}; expected exactly one, on its own line")
            )
    first, last = lines.index(BEGIN), lines.index(END)
    if first > last:
        raise ConfigError(Problem(place, "the END marker stands before the BEGIN marker; swap them"))
    between = "\n".join(text.splitlines()[first + 1 : last]) + "\n"
    blocks = _FENCE.findall(between)
    if len(blocks) != 1:
        raise ConfigError(Problem(place, f"{len(blocks)} fenced yaml blocks between the markers; expected exactly one"))
    return blocks[0]


def _plain_yaml(block: str) -> Any:
    """Loads YAML without repeated keys and without aliases that expand without bound."""
    root = yaml.compose(block, Loader=yaml.SafeLoader)  # pyright: ignore[reportUnknownMemberType]
    for n_nodes, node in enumerate(_nodes(root)):
        if n_nodes > _MAX_NODES:
            raise yaml.YAMLError(f"it expands to more than {_MAX_NODES} values (aliases count each time)")
        if isinstance(node, yaml.MappingNode):
            keys = [str(key.value) for key, _ in node.value]
            twice = next((key for key in keys if keys.count(key) > 1), None)
            if twice is not None:
                raise yaml.YAMLError(f"line {node.start_mark.line + 1}: key {twice!r} is given twice; keep one")
    return yaml.safe_load(block)


def _nodes(root: yaml.Node | None) -> Iterator[yaml.Node]:
    waiting = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _check_names(audit: Audit) -> Iterator[str]:
    yield from _repeated("sources", [source.name for source in audit.sources])
    yield from _repeated("items", [item.name for item in audit.items])
    tools = {item.name for item in audit.of_kind("tool")}
    capabilities = {item.name for item in audit.of_kind("capability")}
    for i, item in enumerate(audit.items):
        place = f"items[{i}]"
        if isinstance(item, CapabilityItem):
            yield from _undeclared(f"{place}.required_tools", item.required_tools, tools, "tool")
        if isinstance(item, FailureCaseItem):
            yield from _undeclared(f"{place}.expected_tools", item.expected_tools, tools, "tool")
            yield from _undeclared(f"{place}.applies_to", item.applies_to, capabilities, "capability")
        for k, evidence in enumerate(item.evidence_required):
            if isinstance(evidence, ToolCallEvidence):
                yield from _undeclared(f"{place}.evidence_required[{k}].tool", [evidence.tool], tools, "tool")


def _repeated(place: str, names: list[str]) -> Iterator[str]:
    for i, name in enumerate(names):
        if name in names[:i]:
            yield f"{place}[{i}].name: {name!r} is used twice; names must be unique"


def _undeclared(place: str, names: Iterable[str], known: set[str], kind: str) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{place}: {name!r} is no declared {kind}; expected one of {', '.join(sorted(known)) or 'none'}"


def _check_sources(audit: Audit, path: Path) -> Iterator[str]:
    for i, source in enumerate(audit.sources):
        if source.sha256 is None:
            continue
        try:
            found = f"sha256:{digest_file(path.parent / source.path)}"
        except OSError as error:
            yield f"sources[{i}].path: {source.path} cannot be read: {error.strerror}"
            continue
        if found != source.sha256:
            yield (
                f"sources[{i}].sha256: {source.path} is {found}, expected {source.sha256}; review the audit "
                f"against the changed source, then record its digest"
            )
