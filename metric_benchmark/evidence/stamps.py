# SPDX-License-Identifier: Apache-2.0
"""The digest a record carries of itself: whoever reads it alone still notices a damaged byte."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from metric_benchmark.hashing import canonical_json, digest_bytes

#: The key of the digest. It covers every byte of the file, its own digits taken as zeros.
STAMP = "record_sha256"
_BLANK = "0" * 64
_DIGITS = re.compile(r"[0-9a-f]{64}")


def stamped(value: Mapping[str, Any]) -> bytes:
    """Returns the bytes a record has on disk: canonical JSON, a newline, and the digest of both within."""
    blank = canonical_json({**value, STAMP: _BLANK}) + b"\n"
    return blank.replace(_entry(_BLANK), _entry(digest_bytes(blank)), 1)


def stamp_problem(data: bytes, value: Mapping[str, Any]) -> str | None:
    """Says what is wrong with the digest a record carries; None when it holds.

    A record that says nothing about what wrote it (`implementation`) was not written here and need not carry one.

    Args:
        data: the file.
        value: the JSON object it holds.
    """
    found = value.get(STAMP)
    if found is None:
        return f"it carries no {STAMP}" if "implementation" in value else None
    if not isinstance(found, str) or not _DIGITS.fullmatch(found) or data.count(_entry(found)) != 1:
        return f"its {STAMP} is not readable"
    now = digest_bytes(data.replace(_entry(found), _entry(_BLANK)))
    return None if now == found else f"its SHA-256 is {now[:16]}..., it carries {found[:16]}..."


def _entry(digest: str) -> bytes:
    return f'"{STAMP}":"{digest}"'.encode()
