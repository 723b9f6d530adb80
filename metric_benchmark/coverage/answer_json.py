# SPDX-License-Identifier: Apache-2.0
"""Answers of metrics as JSON: as they are cached, and as a child process or a command hands them over."""

from __future__ import annotations

from typing import Any

from metric_benchmark.coverage.answers import show
from metric_benchmark.coverage.protocol import Answer, CoverMatrix, OpaqueCoverage
from metric_benchmark.errors import MetricError, Problem
from metric_benchmark.records.base import Undefined


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """Returns an answer as JSON values, as it is cached and as a child process hands it over."""
    common = {
        "unmeasured": dict(answer.unmeasured),
        "counts": dict(answer.counts),
        "notes": list(answer.notes),
    }
    if isinstance(answer, CoverMatrix):
        tasks = {task: sorted(items) for task, items in answer.tasks.items()}
        return {"kind": "items", "items": list(answer.items), "tasks": tasks, **common}
    subsets = {
        key: value.model_dump(mode="json") if isinstance(value, Undefined) else value
        for key, value in answer.subsets.items()
    }
    return {"kind": "opaque", "subsets": subsets, "tasks": dict(answer.tasks), **common}


def answer_from_json(name: str, value: object) -> Answer:
    """Reads an answer given as JSON: `items` and `tasks`, or `subsets`; what is in them is checked later.

    Raises:
        MetricError: not of that shape.
    """
    if not isinstance(value, dict):
        raise MetricError(Problem(f"metric {name}", f"answered {show(value)}, expected a JSON object"))
    fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    kind = "opaque" if "subsets" in fields else "items"
    expected: dict[str, type] = {"unmeasured": dict, "counts": dict, "notes": list, "tasks": dict}
    expected |= {"subsets": dict} if kind == "opaque" else {"items": list}
    allowed = {*expected, "kind", "schema"}
    problems = [f"answered the field {key!r}, expected {sorted(expected)}" for key in fields if key not in allowed]
    for key, kind_of in expected.items():
        given = fields.get(key, None if key in ("items", "subsets") else kind_of())
        if not isinstance(given, kind_of):
            found = "nothing" if key not in fields else show(given)
            problems.append(f"answered {found} for {key!r}, expected a JSON {_JSON_NAMES[kind_of]}")
    if fields.get("kind", kind) != kind:
        problems.append(f"answered kind {show(fields['kind'])} with the fields of {kind!r}")
    tasks: dict[str, Any] = fields.get("tasks", {})
    if kind == "items" and not problems:
        problems += _not_strings("`items`", fields["items"])
        for task, covered in tasks.items():
            if not isinstance(covered, list):
                problems.append(f"answered {show(covered)} for task {task}, expected a JSON array of items")
            else:
                problems += _not_strings(f"task {task}", covered)  # pyright: ignore[reportUnknownArgumentType]
    if problems:
        raise MetricError([Problem(f"metric {name}", problem) for problem in problems])
    common: dict[str, Any] = {
        "unmeasured": {key: str(why) for key, why in fields.get("unmeasured", {}).items()},
        "counts": {key: n for key, n in fields.get("counts", {}).items() if isinstance(n, int)},
        "notes": tuple(map(str, fields.get("notes", ()))),
    }
    if kind == "items":
        sets = {task: frozenset[str](covered) for task, covered in tasks.items()}
        return CoverMatrix(items=tuple(fields["items"]), tasks=sets, **common)
    subsets = {key: _number(number) for key, number in fields["subsets"].items()}
    return OpaqueCoverage(subsets=subsets, tasks=tasks, **common)


_JSON_NAMES = {dict: "object", list: "array"}


def _not_strings(place: str, items: list[object]) -> list[str]:
    wrong = [item for item in items if not isinstance(item, str)]
    return [f"answered the item {show(wrong[0])} in {place}, expected a string"] if wrong else []


def _number(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    fields: dict[str, object] = value  # pyright: ignore[reportUnknownVariableType]
    if fields.get("status") != "undefined":
        return fields
    return Undefined(reason=str(fields.get("reason", "not_given")))
