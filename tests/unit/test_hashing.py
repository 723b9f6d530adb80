# SPDX-License-Identifier: Apache-2.0
"""Digests depend on content and nothing else: not on order, time, place or compiled files."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metric_benchmark.errors import PinError
from metric_benchmark.hashing import canonical_json, digest_file, digest_folder, digest_json, implementation_digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_canonical_json_says_the_same_as_the_value(value):
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), JSON, max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(value)


def test_the_one_form_is_written_out():
    assert canonical_json({"b": [1, 2.5, None], "a": "ü\n"}) == '{"a":"ü\\n","b":[1,2.5,null]}'.encode()
    assert digest_json({}) == hashlib.sha256(b"{}").hexdigest()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"a": [math.nan]}])
def test_numbers_that_json_does_not_have_are_refused(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(value)


@pytest.fixture
def folder(tmp_path):
    for name, text in {"b.txt": "2", "a/x.txt": "1", "a/run.sh": "#!/bin/bash"}.items():
        path = tmp_path / "f" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "f"


def test_a_folder_digest_by_hand(folder):
    (folder / "a" / "run.sh").chmod(0o755)
    lines = [
        ["a/run.sh", "x", digest_file(folder / "a/run.sh")],
        ["a/x.txt", "-", hashlib.sha256(b"1").hexdigest()],
        ["b.txt", "-", hashlib.sha256(b"2").hexdigest()],
    ]
    assert digest_folder(folder) == digest_json(lines)


def test_moving_touching_and_compiling_change_nothing(folder, tmp_path):
    before = digest_folder(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.cpython-312.pyc").write_bytes(b"1")
    (folder / "old.pyc").write_bytes(b"1")
    (folder / "empty").mkdir()
    os.utime(folder / "b.txt", (1, 1))
    (folder / "b.txt").chmod(0o600)
    folder.rename(tmp_path / "elsewhere")
    assert digest_folder(tmp_path / "elsewhere") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda f: (f / "b.txt").write_text("3"),
        lambda f: (f / "b.txt").rename(f / "c.txt"),
        lambda f: (f / "b.txt").rename(f / "a/b.txt"),
        lambda f: (f / "a/run.sh").chmod(0o755),
        lambda f: (f / "new").write_text(""),
        lambda f: (f / "link").symlink_to("b.txt"),
    ],
    ids=["content", "name", "folder", "executable", "added", "link"],
)
def test_what_changes_a_folder_digest(folder, change):
    before = digest_folder(folder)
    change(folder)
    assert digest_folder(folder) != before


def test_links_may_not_leave_the_folder(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (folder / "a" / "out").symlink_to(tmp_path / "out")
    with pytest.raises(PinError, match="a symbolic link that leaves the pinned folder; copy the file instead"):
        digest_folder(folder)


def test_what_is_neither_file_nor_folder_is_refused(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(PinError, match="pipe: neither a file, a folder nor a link"):
        digest_folder(folder)


def test_a_link_that_leads_to_itself_is_refused(folder):
    (folder / "loop").symlink_to("loop")
    with pytest.raises(PinError, match="loop: a symbolic link that leads nowhere; remove it"):
        digest_folder(folder)


def test_a_link_to_what_will_be_made_later_is_fine(folder):
    (folder / "later").symlink_to("a/made-in-the-container")
    assert digest_folder(folder)


def test_a_name_that_is_not_utf_8_is_refused(folder):
    (folder / os.fsdecode(b"caf\xe9")).write_text("1")
    with pytest.raises(PinError, match=r"caf\\xe9': its name is not UTF-8; rename it"):
        digest_folder(folder)


@pytest.mark.parametrize(("name", "function"), [("a", "scandir"), ("b.txt", "open")])
def test_what_cannot_be_read_is_never_left_out(folder, monkeypatch, name, function):
    # Root may read everything, so that taking rights away would show nothing here.
    real = getattr(os, function)

    def refusing(path, *rest):
        if str(path) == str(folder / name):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *rest)

    monkeypatch.setattr(os, function, refusing)
    with pytest.raises(PinError, match=f"f/{name}: cannot be read: Permission denied"):
        digest_folder(folder)


def test_the_implementation_digest_is_of_the_parts_named():
    assert implementation_digest("hashing.py") == implementation_digest("hashing.py")
    assert implementation_digest("hashing.py") != implementation_digest("errors.py")
    assert implementation_digest("scoring") != implementation_digest("scoring", "hashing.py")
