# SPDX-License-Identifier: Apache-2.0
"""Values of secrets are found in the forms programs write them in, wherever in a file, and never shown."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence import secrets as module
from metric_benchmark.evidence.secrets import SecretSearch, is_searchable, written_forms

VALUE = "s3cr3t-value"


def search(folder, values=None, **options):
    return list(SecretSearch({"TOKEN": VALUE} if values is None else values).search(folder, **options))


def test_the_file_and_the_variable_are_named_and_the_value_is_not(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log").write_text(f"x {VALUE} y {VALUE}")
    (tmp_path / "b").write_text("nothing")
    (hit,) = search(tmp_path)
    assert (hit.path, hit.message()) == (tmp_path / "a" / "log", "holds the value of ${TOKEN}")


def test_several_variables_in_one_file_are_all_named(tmp_path):
    (tmp_path / "log").write_text(f"{VALUE} and another-one")
    hits = search(tmp_path, {"TOKEN": VALUE, "OTHER": "another-one", "ABSENT": "not-there-at-all"})
    assert [hit.variable for hit in hits] == ["OTHER", "TOKEN"]


@pytest.mark.parametrize("offset", [-20, -7, -1, 0, 3])
def test_a_value_across_the_border_of_two_reads(tmp_path, monkeypatch, offset):
    monkeypatch.setattr(module, "_CHUNK", 64)
    (tmp_path / "log").write_bytes(b"." * (128 + offset) + VALUE.encode() + b"." * 50)
    assert [hit.variable for hit in search(tmp_path)] == ["TOKEN"]


@pytest.mark.parametrize(("value", "searched"), [("12345", False), ("123456", True), ("  12345  ", False), ("", False)])
def test_short_values_are_not_searched(tmp_path, value, searched):
    (tmp_path / "log").write_text(f"a {value} b")
    assert is_searchable(value) is searched
    assert bool(search(tmp_path, {"TOKEN": value})) is searched


def test_without_values_no_file_is_opened(tmp_path):
    (tmp_path / "log").write_text("x")
    (tmp_path / "log").chmod(0)
    assert search(tmp_path, {}) == []


def test_what_cannot_be_read_is_an_error_not_a_clean_bill(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_text("x")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(EvidenceError) as refused:
        search(tmp_path)
    assert str(refused.value) == f"{path}: cannot be searched for secrets: Permission denied; make it readable"


def test_names_and_links_are_searched(tmp_path):
    (tmp_path / f"{VALUE}.txt").write_text("")
    (tmp_path / "link").symlink_to(f"/home/{VALUE}")
    shown = {hit.path.name for hit in search(tmp_path)}
    assert shown == {"***.txt", "link"}


def test_folders_may_be_left_out(tmp_path):
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "log").write_text(VALUE)
    assert search(tmp_path, without=[tmp_path / "done"]) == []


def test_pipes_and_sockets_are_passed_over(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert search(tmp_path) == []


def test_a_key_of_several_lines_is_found_line_by_line(tmp_path):
    key = "-----BEGIN KEY-----\n" + "\n".join("A1b2" * 16 for _ in range(2)) + "\n-----END KEY-----\n"
    (tmp_path / "log").write_text("   " + "A1b2" * 16 + "\n")
    assert [hit.variable for hit in search(tmp_path, {"TOKEN": key})] == ["TOKEN"]


@given(st.binary(max_size=20), st.binary(max_size=20), st.text(st.characters(codec="utf-8"), min_size=9, max_size=40))
def test_base64_of_a_text_that_holds_the_value_gives_it_away(before, after, value):
    value = value.strip()
    if len(value.encode()) < 9:
        return
    patterns = [pattern for form, pattern in written_forms(value) if form == "base64"]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(before + value.encode() + after)
        assert any(pattern in encoded for pattern in patterns)
