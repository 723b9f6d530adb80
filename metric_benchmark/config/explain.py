# SPDX-License-Identifier: Apache-2.0
"""Turns what Pydantic says of a value into our words: where it is, what was found, what was expected."""

from __future__ import annotations

import difflib
import typing
from typing import Any

from pydantic import BaseModel, ValidationError

from metric_benchmark.config.fields import DUPLICATE, ELSEWHERE, looks_secret
from metric_benchmark.config.yaml_source import Location, YamlSource
from metric_benchmark.errors import ConfigError, Problem

_KINDS: dict[str, str] = {
    "finite_number": "expected a finite number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected a text; put it in quotes",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected at most {le}",
    "literal_error": "expected {expected}",
    "too_short": "expected a list of at least {min_length}",
    "string_too_short": "expected at least {min_length} characters",
}
_PATTERNS = {
    "sha256": "expected 64 hex digits; remove the key, and `metric-benchmark sign` writes it",
    "entry": 'expected "module:Class"',
    "import_path": 'expected "package.module:Class"',
}


def parse_model[Model: BaseModel](source: YamlSource, model: type[Model]) -> Model:
    """Validates a source against a model.

    Raises:
        ConfigError: with every problem of the file, each with its line.
    """
    try:
        return model.model_validate(source.value)
    except ValidationError as error:
        items = _once(error.errors(include_url=False), model)
        raise ConfigError([problem for item in items for problem in _explain(source, item, model)]) from None


def _once(items: list[Any], model: type[BaseModel]) -> list[Any]:
    """Leaves out that a key is missing where it is there, but misspelt."""
    meant = {
        (*location[:-1], near)
        for item in items
        if item["type"] == "extra_forbidden"
        for location in [tuple(item["loc"])]
        if (near := _near(location, _known_keys(location, model)))
    }
    return [item for item in items if item["type"] != "missing" or tuple(item["loc"]) not in meant]


def _explain(source: YamlSource, item: Any, model: type[BaseModel]) -> list[Problem]:
    location: Location = tuple(item["loc"])
    if item["type"] == DUPLICATE:
        # Pydantic only knows the list; the entries that repeat an id are the places to look at.
        return [
            source.problem(
                (*location, *at), f"{name!r} is given twice, first as number {first} of the list; make it unique"
            )
            for at, name, first in item["ctx"]["repeated"]
        ]
    if item["type"] == ELSEWHERE:
        return [source.problem((*location, *at), message) for at, message in item["ctx"]["problems"]]
    if item["type"] == "missing":
        return [source.problem(location[:-1], f"key `{location[-1]}` is missing; add it")]
    return [source.problem(location, _message(location, item, model))]


def _message(location: Location, item: Any, model: type[BaseModel]) -> str:
    kind: str = item["type"]
    message: str = item["msg"]
    if kind == "extra_forbidden":
        return f"unknown key; {_hint(location, model)}"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if kind == "string_too_short" and not item["input"]:
        return "is empty; write a text"
    if kind in _KINDS:
        expected = _KINDS[kind].format(**item.get("ctx", {}))
    elif kind == "string_pattern_mismatch":
        expected = _PATTERNS.get(str(location[-1]), message)
    else:
        expected = message
    return f"found {_shown(location, item['input'])}; {expected}"


def _shown(location: Location, value: Any) -> str:
    """Shows a value; never one that stands where secrets do."""
    if any(isinstance(part, str) and looks_secret(part) for part in location):
        return "a value of another kind"
    if isinstance(value, dict | list):
        what = "mapping" if isinstance(value, dict) else "list"
        return f"a {what}" if value else f"an empty {what}"
    return "nothing" if value is None else repr(value)[:80]


def _hint(location: Location, model: type[BaseModel]) -> str:
    known = _known_keys(location, model)
    near = _near(location, known)
    if near:
        return f"did you mean `{near}`?"
    return f"expected one of: {', '.join(sorted(known))}" if known else "remove it"


def _near(location: Location, known: set[str]) -> str | None:
    return next(iter(difflib.get_close_matches(str(location[-1]), sorted(known), n=1)), None)


def _known_keys(location: Location, model: type[BaseModel]) -> set[str]:
    current: type[BaseModel] | None = model
    for part in location[:-1]:
        if current is None:
            return set()
        if isinstance(part, str):
            info = current.model_fields.get(part)
            current = _model_in(info.annotation) if info else None
    return {info.alias or name for name, info in current.model_fields.items()} if current else set()


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if isinstance(annotation, typing.TypeAliasType):
        return _model_in(annotation.__value__)
    for argument in typing.get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
