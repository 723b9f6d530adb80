# SPDX-License-Identifier: Apache-2.0
"""Adds mutants to the text of a case file; every other character of it stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from metric_benchmark.config.models import OperatorSpec

_NEVER_WRAP = 1_000_000


def append_mutants(text: str, mutants: Sequence[tuple[str, OperatorSpec]]) -> str:
    """Returns the text of a case file with mutants of the inherited agent behind those it has.

    Args:
        text: the case file; a mapping in block style whose `mutants` is a list, empty or not there.
        mutants: id and operator of each.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    found = {str(key.value): (key, value) for key, value in root.value}
    if "mutants" not in found:
        before = text if not text or text.endswith("\n") else text + newline
        indent = " " * root.start_mark.column
        return f"{before}{indent}mutants:{newline}{_block(mutants, f'{indent}  ', newline)}{newline}"
    key, listed = found["mutants"]
    indent = " " * key.start_mark.column
    if not isinstance(listed, yaml.SequenceNode) or not listed.value:
        # Nothing or `[]`: a list in block style takes its place, and a comment behind it stays.
        at = text.index(":", key.end_mark.index) + 1
        end = listed.end_mark.index if isinstance(listed, yaml.SequenceNode) else at
        line = _line_end(text, end, newline)
        return f"{text[:at]}{text[end:line]}{newline}{_block(mutants, f'{indent}  ', newline)}{text[line:]}"
    end = _end_of_content(text, listed)
    if listed.flow_style:
        entries = ", ".join(f"{{{', '.join(_fields(name, operator))}}}" for name, operator in mutants)
        return f"{text[:end]}, {entries}{text[end:]}"
    line = _line_end(text, end, newline)
    dash = " " * _dash_column(text, listed)
    return f"{text[:line]}{newline}{_block(mutants, dash, newline)}{text[line:]}"


def _block(mutants: Sequence[tuple[str, OperatorSpec]], indent: str, newline: str) -> str:
    return newline.join(
        f"{indent}- {f'{newline}{indent}  '.join(_fields(name, operator))}" for name, operator in mutants
    )


def _fields(name: str, operator: OperatorSpec) -> list[str]:
    spec: dict[str, Any] = {"name": operator.name}
    if operator.params:
        spec["params"] = operator.params
    if operator.seed:
        spec["seed"] = operator.seed
    return [f"id: {_flow(name)}", f"operator: {_flow(spec)}", "agent: inherit"]


def _flow(value: Any) -> str:
    """Returns a value as YAML on one line."""
    text: str = yaml.safe_dump(  # pyright: ignore[reportUnknownMemberType]
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=_NEVER_WRAP
    )
    # A scalar that stands alone is followed by the mark that ends a document.
    return text.removesuffix("\n").removesuffix("\n...")


def _end_of_content(text: str, listed: yaml.SequenceNode) -> int:
    """Returns where the last entry of a list ends: a block's own end mark stands behind comments that follow it."""
    depth = flow_depth = end = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        is_first = isinstance(event, yaml.SequenceStartEvent) and _start(event) == listed.start_mark.index
        if isinstance(event, yaml.CollectionStartEvent) and (depth or is_first):
            depth += 1
            # The list's own brackets are not part of its last entry.
            flow_depth += bool(event.flow_style) and depth > 1
        elif isinstance(event, yaml.CollectionEndEvent) and depth:
            depth -= 1
            if depth == 0:
                break
            if flow_depth:
                flow_depth -= 1
                end = _end(event)
        elif depth:
            end = _end(event)
    return len(text[:end].rstrip())


def _start(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return event.start_mark.index


def _end(event: yaml.Event) -> int:
    assert event.end_mark is not None
    return event.end_mark.index


def _dash_column(text: str, listed: yaml.SequenceNode) -> int:
    return next(
        token.start_mark.column
        for token in yaml.scan(text, Loader=yaml.SafeLoader)
        if isinstance(token, yaml.BlockEntryToken) and token.start_mark.index >= listed.start_mark.index
    )


def _line_end(text: str, start: int, newline: str) -> int:
    end = text.find(newline, start)
    return len(text) if end < 0 else end
