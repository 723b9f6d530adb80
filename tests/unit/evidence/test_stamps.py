# SPDX-License-Identifier: Apache-2.0
"""A record carries the digest of every byte of its file, its own digits taken as zeros."""

from __future__ import annotations

import contextlib
import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from metric_benchmark.evidence.stamps import stamp_problem, stamped

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
)


def check(data: bytes) -> str | None:
    return stamp_problem(data, json.loads(data))


def test_anybody_can_recompute_it():
    data = stamped({"b": 1, "a": "x"})
    (digest,) = [json.loads(data)["record_sha256"]]
    blank = '{"a":"x","b":1,"record_sha256":"' + "0" * 64 + '"}\n'
    assert digest == hashlib.sha256(blank.encode()).hexdigest()
    assert data == blank.replace("0" * 64, digest).encode()


@given(st.dictionaries(texts, values), st.data())
def test_it_holds_until_any_byte_changes(value, data):
    written = stamped({**value, "implementation": None})
    assert check(written) is None
    position = data.draw(st.integers(0, len(written) - 1))
    changed = bytearray(written)
    changed[position] ^= data.draw(st.integers(1, 255))
    # Where it is no JSON any more, the reader notices before.
    with contextlib.suppress(ValueError):
        assert check(bytes(changed)) is not None


def test_a_value_that_quotes_a_stamp_does_not_confuse_it():
    inner = stamped({"implementation": None}).decode()
    data = stamped({"quoted": inner, "nested": json.loads(inner), "implementation": None})
    assert check(data) is None


def test_a_record_that_does_not_say_who_wrote_it_needs_none():
    assert check(b'{"schema":"x"}') is None
    assert check(b'{"schema":"x","implementation":null}') == "it carries no record_sha256"
