# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingTypeStubs=false
"""Parses the bytes of one ATIF file with Harbor's model, tolerantly, and says what was left out.

Known versions must be valid, except that unknown fields are dropped. A newer version is read as the newest
known one. Anything else that is wrong makes the trace unreadable: better no measurement than one on half
a trace.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

#: Rounds of dropping what the model refuses; a union shows some errors only after others are gone.
_MAX_ROUNDS = 8
_NEWEST = "ATIF-v1.8"


class UnreadableTraceError(ValueError):
    """A trajectory that cannot be read, with the reason; its task becomes unmeasured."""


def parse_atif(data: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Parses one trajectory file and validates it by Harbor's model.

    Returns:
        The trajectory as JSON values, which are a fraction of the model's size, and notes on what was left out.

    Raises:
        UnreadableTraceError: not JSON, not ATIF, or invalid in a way that cannot be passed over.
    """
    # The submodule alone takes 0.2 s; the package would be no faster and its agents would pull in litellm.
    from harbor.models.trajectories.trajectory import Trajectory

    try:
        Trajectory.model_validate_json(data)
    except ValidationError:
        pass
    else:
        return load_json(data), ()
    raw = load_json(data)
    dropped: Counter[str] = Counter()
    for _ in range(_MAX_ROUNDS):
        try:
            Trajectory.model_validate(raw)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            repaired = [_repair(raw, e["type"], e["loc"]) for e in errors]
            found = [r for r in repaired if r]
            if not found:
                raise UnreadableTraceError(_first(errors[0]["loc"], errors[0]["msg"], len(errors))) from None
            dropped.update(found)
        else:
            return raw, _notes(dropped)
    raise UnreadableTraceError("too unlike the ATIF versions known here")


def load_json(data: bytes) -> dict[str, Any]:
    """Loads a JSON object without validating it: for bytes whose digest says that they were validated before.

    Raises:
        UnreadableTraceError: not a JSON object.
    """
    try:
        raw: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableTraceError(f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise UnreadableTraceError(f"a JSON object was expected, found {type(raw).__name__}")
    return raw  # pyright: ignore[reportUnknownVariableType]


def _notes(dropped: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{what}{f' ({n} times)' if n > 1 else ''}" for what, n in sorted(dropped.items()))


def _first(loc: Sequence[int | str], message: str, n_errors: int) -> str:
    more = f" (and {n_errors - 1} more)" if n_errors > 1 else ""
    return f"not valid ATIF: {'.'.join(map(str, loc)) or 'trajectory'}: {message}{more}"


def _repair(raw: Any, kind: str, loc: Sequence[int | str]) -> str | None:
    """Drops what one error is about if that is harmless, and names it; returns None where it is not.

    `loc` holds the names of union members between real keys; those are passed over.
    """
    node, path = raw, ""
    parents: list[tuple[Any, int | str, str]] = []
    for part in loc:
        if isinstance(node, list) and isinstance(part, int) and part < len(node):  # pyright: ignore[reportUnknownArgumentType]
            parents.append((node, part, path))  # pyright: ignore[reportUnknownArgumentType]
            path += "[]"
        elif isinstance(node, dict) and part in node:
            parents.append((node, part, path))  # pyright: ignore[reportUnknownArgumentType]
            path += f".{part}" if path else str(part)
        else:
            continue
        node = node[part]  # pyright: ignore[reportUnknownVariableType, reportArgumentType, reportCallIssue]
    if not parents:
        return None
    holder, key, above = parents[-1]
    if kind == "extra_forbidden" and isinstance(key, str) and loc[-1] == key:
        del holder[key]
        return f"unknown field {path}"
    if kind != "literal_error" or not isinstance(key, str):
        return None
    value = str(holder[key])
    if key == "schema_version" and value.startswith("ATIF-v"):
        holder[key] = _NEWEST
        return f"{value} is newer than {_NEWEST}, read as that"
    if key == "type" and above.endswith("[]"):
        holder.clear()
        holder.update(type="text", text=f"[{value}]")
        return f"content of unknown type {value} in {above[:-2]}"
    return None
