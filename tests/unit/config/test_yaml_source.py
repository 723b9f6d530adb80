# SPDX-License-Identifier: Apache-2.0
"""What YAML would read as no one means it is refused with its line, and no file takes long."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from metric_benchmark.config.yaml_source import MAX_BYTES, parse_yaml, read_yaml
from metric_benchmark.errors import ConfigError

#: All files of the examples.
FILES = sorted((Path(__file__).parents[3] / "examples").rglob("*.yaml"))

REFUSED = {
    "octal": ("a: 1\nb: 010\n", "f.yaml:2: found 010, which YAML reads as 8; write that, or a text in quotes"),
    "base sixty": ("a: 1:30\n", "f.yaml:1: found 1:30, which YAML reads as 90; write that, or a text in quotes"),
    "object": (
        "a: 1\nb: !!python/object:os.stat []\n",
        "f.yaml:2: found the tag 'tag:yaml.org,2002:python/object:os.stat'; write plain values, texts in quotes",
    ),
    "own tag": ("a: !x {b: 1}\n", "f.yaml:1: found the tag '!x'; write plain values, texts in quotes"),
    "merge key": ("x: &x {c: 1}\na:\n  <<: *x\n", "f.yaml:3: found the merge key `<<`; write the keys out"),
    "list as a key": ("? [a, b]\n: 1\n", "f.yaml:1: found a list or a mapping as a key; expected a text"),
    "half a character": ('a: "\\ud800"\n', "f.yaml:1: found half of a surrogate pair; write the character itself"),
    "long key twice": (
        f"{'k' * 90}: 1\n{'k' * 90}: 2\n", f"f.yaml:2: key '{'k' * 77}...' is given twice; keep one",
    ),
}  # fmt: skip


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse_yaml(Path("f.yaml"), text.encode(), "f.yaml")
    return str(refused.value)


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_could_be_misread_is_refused(text, message):
    assert refusal(text) == message


def test_plain_values_are_read_as_written():
    text = "a: 0\nb: -7\nc: 0.5\nd: 1_000\ne: 2024-01-02\nf: '010'\n7: yes\ng: [~, '<<']\n"
    assert parse_yaml(Path("f"), text.encode(), "f").value == {
        "a": 0, "b": -7, "c": 0.5, "d": 1000, "e": "2024-01-02", "f": "010", "7": True, "g": [None, "<<"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("[" * 100_000, "f.yaml: refused: values are nested more than 60 deep"),
        ("a: 1\n" * 300_000, "f.yaml: refused: the file expands to more than 200000 values"),
        ("key: 1\n" * 300_000, f"f.yaml: 2100000 bytes; expected at most {MAX_BYTES}"),
    ],
    ids=["brackets", "keys", "bytes"],
)
def test_a_file_that_is_too_large_is_refused_before_it_is_read_to_its_end(text, begins):
    began = time.process_time()
    assert refusal(text).startswith(begins)
    # It took minutes; the slack is for machines with much else to do.
    assert time.process_time() - began < 10


def test_both_parsers_read_the_same_values_and_lines(monkeypatch):
    read = [parse_yaml(path, path.read_bytes(), path.name) for path in FILES]
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert [parse_yaml(path, path.read_bytes(), path.name) for path in FILES] == read
    assert len(FILES) > 10


def test_both_parsers_expand_aliases_and_nest_as_deep(monkeypatch):
    deepest = "[" * 59 + "7" + "]" * 59
    text = f"a: &a {{b: [1, 2]}}\nc:\n- *a\n- *a\nd: {deepest}\n"
    quick = parse_yaml(Path("f"), text.encode(), "f")
    assert quick.value["c"] == [{"b": [1, 2]}, {"b": [1, 2]}]
    assert quick.place(("c", 1, "b", 0)) == "f:1: c[1].b[0]"
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert parse_yaml(Path("f"), text.encode(), "f") == quick


@pytest.mark.parametrize("is_quick", [True, False])
def test_sixty_levels_are_read_and_one_more_is_not(is_quick, monkeypatch):
    if not is_quick:
        monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    parse_yaml(Path("f"), f"a: {'[' * 59}7{']' * 59}".encode(), "f")
    assert refusal(f"a: {'[' * 60}7{']' * 60}") == "f.yaml: refused: values are nested more than 60 deep"


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_the_parser_that_is_always_there_refuses_alike(text, message, monkeypatch):
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert refusal(text) == message


def test_a_small_file_is_refused_by_depth_without_the_quick_parser(monkeypatch):
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert refusal("[" * 100_000) == "f.yaml: refused: values are nested more than 60 deep"


def test_a_named_pipe_is_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "f.yaml")
    with pytest.raises(ConfigError, match=r"f\.yaml: is no regular file; name a YAML file"):
        read_yaml(tmp_path / "f.yaml")
