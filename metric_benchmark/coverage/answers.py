# SPDX-License-Identifier: Apache-2.0
"""Checks what a metric answered against what it was asked, and reduces it to each subset's coverage. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from metric_benchmark.coverage.protocol import Answer, CoverMatrix, MetricRequest, OpaqueCoverage
from metric_benchmark.errors import MetricError, Problem
from metric_benchmark.hashing import is_utf8
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.coverage import SubsetCoverage

_MAX_SHOWN = 5


def check_answer(name: str, answer: object, request: MetricRequest) -> Answer:
    """Returns the answer if it is one, in full.

    Raises:
        MetricError: all that is wrong with it: wrong type, unknown or missing task, subset or item, a number
            that is none or lies outside [0, 1].
    """
    problems: list[str] = []
    if isinstance(answer, CoverMatrix):
        problems += _check_matrix(answer, request)
    elif isinstance(answer, OpaqueCoverage):
        problems += _check_numbers("subset", answer.subsets, request.subsets)
        problems += _missing("subset", set(request.subsets) - set(answer.subsets), "a number for every subset")
        problems += _check_numbers("task", answer.tasks, request.tasks)
    else:
        problems.append(f"answered {show(answer)}, expected a CoverMatrix or an OpaqueCoverage")
    if isinstance(answer, CoverMatrix | OpaqueCoverage):
        problems += _unknown("unmeasured task", set(answer.unmeasured) - set(request.tasks), "a task of the case")
        problems += [f"answered {show(text)}, expected text that UTF-8 can hold" for text in _unwritable(answer)]
    if problems:
        raise MetricError([Problem(f"metric {name}", problem) for problem in problems])
    return answer  # pyright: ignore[reportReturnType] - anything else has raised


def _unwritable(answer: Answer) -> list[str]:
    """Returns the texts no record can hold: halves of surrogate pairs, as `"\\ud800"` in JSON makes them."""
    texts: list[object] = [*answer.notes, *answer.unmeasured.values(), *answer.counts]
    if isinstance(answer, CoverMatrix):
        texts += answer.items
    else:
        texts += [value.reason for value in answer.subsets.values() if isinstance(value, Undefined)]
    return [text for text in texts if isinstance(text, str) and not is_utf8(text)]


def _check_matrix(answer: CoverMatrix, request: MetricRequest) -> list[str]:
    problems: list[str] = []
    bad = [item for item in answer.items if not isinstance(item, str) or not item]  # pyright: ignore[reportUnnecessaryIsInstance]
    if bad:
        problems.append(f"answered the item {show(bad[0])}, expected a non-empty string")
    elif len(set(answer.items)) < len(answer.items):
        item, n = Counter(answer.items).most_common(1)[0]
        problems.append(f"answered the item {show(item)} {n} times, expected each item once")
    problems += _unknown("task", set(answer.tasks) - set(request.tasks), "a task of the case")
    both = set(answer.tasks) & set(answer.unmeasured)
    if both:
        problems.append(f"answered items for {_list(both)} and called it unmeasured; expected one of the two")
    silent = set(request.tasks) - set(answer.tasks) - set(answer.unmeasured)
    problems += _missing("task", silent, "every task in `tasks` or in `unmeasured`")
    known = set(answer.items)
    for task, covered in sorted(answer.tasks.items()):
        if isinstance(covered, str) or not isinstance(covered, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            problems.append(f"answered {show(covered)} for task {task}, expected a set of items")
        else:
            problems += _unknown(f"task {task}: item", set(covered) - known, "an item of the universe")
    return problems


def _check_numbers(kind: str, found: Mapping[str, object], asked: Iterable[str]) -> list[str]:
    problems = _unknown(kind, set(found) - set(asked), f"a {kind} that was asked for")
    for key, value in sorted(found.items()):
        if isinstance(value, Undefined) and kind == "subset":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.append(f"{kind} {key}: answered {show(value)}, expected a number in [0, 1]")
        elif math.isnan(value) or not 0 <= value <= 1:
            problems.append(f"{kind} {key}: answered {value}, expected a number in [0, 1]")
    return problems


def _unknown(kind: str, names: set[Any], expected: str) -> list[str]:
    return [f"unknown {kind} {_list(names)}, expected {expected}"] if names else []


def _missing(kind: str, names: set[str], expected: str) -> list[str]:
    return [f"no answer for {kind} {_list(names)}, expected {expected}"] if names else []


def _list(names: Iterable[Any]) -> str:
    ordered = sorted(map(str, names))
    more = f" and {len(ordered) - _MAX_SHOWN} more" if len(ordered) > _MAX_SHOWN else ""
    return ", ".join(ordered[:_MAX_SHOWN]) + more


def show(value: object) -> str:
    """Returns a value as a message can hold it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def reduce_answer(
    answer: Answer, subsets: Mapping[str, tuple[str, ...]], unmeasured: Mapping[str, str]
) -> dict[str, SubsetCoverage]:
    """Returns each subset's coverage; a subset that holds an unmeasured task has none.

    Args:
        answer: a checked answer.
        subsets: subset -> its tasks.
        unmeasured: task -> reason, those of the answer included.
    """
    reduced: dict[str, SubsetCoverage] = {}
    for subset, tasks in subsets.items():
        covered: set[str] = set()
        if isinstance(answer, CoverMatrix):
            covered = covered.union(*(answer.tasks.get(task, frozenset[str]()) for task in tasks))
        reduced[subset] = SubsetCoverage(
            coverage=_share(answer, subset, covered, any(task in unmeasured for task in tasks)),
            covered=sorted(covered),
        )
    return reduced


def _share(answer: Answer, subset: str, covered: set[str], has_unmeasured: bool) -> float | Undefined:
    if has_unmeasured:
        return Undefined(reason="unmeasured_tasks")
    if isinstance(answer, OpaqueCoverage):
        value = answer.subsets[subset]
        return value if isinstance(value, Undefined) else float(value)
    if not answer.items:
        return Undefined(reason="no_items")
    return len(covered) / len(answer.items)
