# SPDX-License-Identifier: Apache-2.0
"""Pages made from the code are up to date, and the JSON schemas say what the loader says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from metric_benchmark.cli.reference import cli_reference, command_words
from metric_benchmark.config.schemas import KINDS, json_schemas
from tools.docs_pages import DOCS, pages

REPOSITORY = Path(__file__).parents[3]
YAML_FILES = sorted(
    path
    for folder in ("examples", "metric_benchmark/scaffold/files")
    for path in (REPOSITORY / folder).rglob("*.yaml")
    if "tasks" not in path.parts
)


@pytest.mark.parametrize("name", pages())
def test_pages_made_from_the_code_are_up_to_date(name):
    assert (DOCS / name).read_text() == pages()[name], "run: python -m tools.docs_pages"


def test_no_page_is_left_of_a_file_that_is_gone():
    assert {f"schemas/{path.name}" for path in (DOCS / "schemas").iterdir()} == set(pages()) - {"tools.md"}


def test_the_reference_has_every_command_and_exit_status():
    text = cli_reference()
    assert ("subsets", "generate") in command_words()
    for words in command_words():
        assert f"\n## {' '.join(words)}\n" in text
        assert f"Usage: metric-benchmark {' '.join(words)} [OPTIONS]" in text
    for status in (0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 130):
        assert f"\n| {status} | " in text


def problems(kind: str, value: Any) -> list[str]:
    schema = json_schemas()[kind]
    jsonschema.Draft202012Validator.check_schema(schema)
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_schemas_accept_every_yaml_file_we_ship(path):
    value = yaml.safe_load(path.read_text())
    kind = value["schema"].split("/")[1]
    assert kind in KINDS
    assert problems(kind, value) == []


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("experiment", {"schema": "metric-benchmark/experiment/v1", "name": "x", "cases": "c", "execution": "e"}),
        ("cases", {"schema": "metric-benchmark/cases/v1", "cases": []}),
        ("description", {"schema": "metric-benchmark/description/v1", "title": "x", "colour": "red"}),
        ("subsets", {"schema": "metric-benchmark/subsets/v2", "subsets": [{"id": "a", "tasks": ["t"]}]}),
    ],
)
def test_schemas_refuse_what_the_models_refuse(kind, wrong):
    with pytest.raises(ValueError, match="validation error"):
        KINDS[kind].model_validate(wrong)
    assert len(problems(kind, wrong)) == 1


def test_short_spellings_are_known_to_the_schemas():
    roles = {"baseline": {"attempts": 1}, "mutant": {"attempts": 1}}
    execution = {"schema": "metric-benchmark/execution/v1", "roles": roles, "reward_key": "reward"}
    assert problems("execution", execution | {"environment": "local"}) == []
    assert problems("execution", execution | {"environment": 3}) != []
