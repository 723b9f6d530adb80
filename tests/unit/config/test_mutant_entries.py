# SPDX-License-Identifier: Apache-2.0
"""Mutants are added to a case file of any layout, and nothing else in it changes."""

from __future__ import annotations

import os

import pytest
import yaml

from metric_benchmark.config.models import OperatorSpec
from metric_benchmark.config.mutant_entries import append_mutants

NEW = [("quick", OperatorSpec(name="early_stop", params={"after_actions": 1}, seed=4)), ("odd", OperatorSpec(name="x"))]
BLOCK = """\
  - id: quick
    operator: {name: early_stop, params: {after_actions: 1}, seed: 4}
    agent: inherit
  - id: odd
    operator: {name: x}
    agent: inherit
"""


def test_behind_the_last_entry_and_before_what_follows():
    before = "mutants:\n  # first\n  - id: a\n    agent: inherit  # why\n\n# the end\nother: 1\n"
    assert append_mutants(before, NEW) == (
        "mutants:\n  # first\n  - id: a\n    agent: inherit  # why\n" + BLOCK + "\n# the end\nother: 1\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mutants: []  # none yet\nz: 1\n", "mutants:  # none yet\n" + BLOCK + "z: 1\n"),
        ("mutants:\n  # - id: later\nz: 1\n", "mutants:\n" + BLOCK + "  # - id: later\nz: 1\n"),
        ("z: 1", "z: 1\nmutants:\n" + BLOCK),
        ("mutants:\n  - id: a", "mutants:\n  - id: a\n" + BLOCK.rstrip("\n")),
        ("mutants:\n- {id: a}\nz: 1\n", "mutants:\n- {id: a}\n" + BLOCK.replace("\n  ", "\n")[2:] + "z: 1\n"),
        (
            "mutants: [{id: a}, {id: b}]  # two\n",
            "mutants: [{id: a}, {id: b}, {id: quick, operator: {name: early_stop, params: {after_actions: 1}, "
            "seed: 4}, agent: inherit}, {id: odd, operator: {name: x}, agent: inherit}]  # two\n",
        ),
    ],
    ids=["empty", "only-comments", "missing", "no-newline-at-the-end", "not-indented", "flow"],
)
def test_layouts(before, after):
    assert append_mutants(before, NEW) == after


@pytest.mark.parametrize(
    "before",
    [
        "mutants:\r\n    - id: a\r\n      agent: inherit\r\nz: 1\r\n",
        "shared: &s {name: oracle}\nmutants: &m\n  - id: a\n    agent: *s  # an alias\n# last\n",
        "mutants:\n  - id: a\n    operator:\n      name: |\n        q\n\nz: 1\n",
        "mutants:\n  - id: a\n    operator:\n      params: [1,\n        2]\n    agent:\nz: 1\n",
        "mutants:\n  - {id: a,\n     agent: inherit}\nz: 1\n",
    ],
    ids=["crlf", "aliases", "literal", "empty-scalar", "flow-over-lines"],
)
def test_old_entries_keep_their_meaning_and_their_characters(before):
    after = append_mutants(before, NEW)
    old, new = yaml.safe_load(before), yaml.safe_load(after)
    assert new["mutants"][:-2] == old["mutants"]
    assert [mutant["id"] for mutant in new["mutants"][-2:]] == ["quick", "odd"]
    assert {**new, "mutants": None} == {**old, "mutants": None}
    # One piece was put in, and nothing was taken out.
    start = len(os.path.commonprefix([before, after]))  # noqa: RUF071 - character by character is what is meant
    assert after.endswith(before[start:])
    assert ("\r\n" in after) == ("\r\n" in before)


def test_texts_that_look_like_something_else_are_quoted():
    spec = OperatorSpec(name="tool_removal", params={"commands": ["no", "a: b", "1"], "how": "ünder"})
    after = append_mutants("mutants:\n  - id: a\n", [("007", spec)])
    (_, added) = yaml.safe_load(after)["mutants"]
    assert added["id"] == "007"
    assert added["operator"]["params"] == {"commands": ["no", "a: b", "1"], "how": "ünder"}
    assert "ünder" in after
