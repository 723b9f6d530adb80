# SPDX-License-Identifier: Apache-2.0
"""Splits an instruction into sentences, as prompt operators count them."""

from __future__ import annotations

import re

# A sentence ends at . ! or ? before white space and what may start another one, at an empty line, and before
# an item of a list. A path or a number has no white space after its dots.
_BOUNDARY = re.compile(
    r"""(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!cf\.)\s+(?=["'`(*_]*[A-Z0-9/$])  # the next sentence
      | (?<=[.!?]["'`)])\s+(?=["'`(*_]*[A-Z0-9/$])                                    # after a closing quote
      | \s*\n[ \t]*\n\s*                                                             # an empty line
      | \n(?=[ \t]*(?:[-*+]|\d+[.)])[ \t])                                           # an item of a list
    """,
    re.VERBOSE,
)


def split_sentences(text: str) -> list[str]:
    """Splits a text into sentences, paragraphs and list items; each keeps the white space that follows it.

    Joined again they are the text. White space before the first sentence belongs to it.
    """
    parts: list[str] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        if text[start : boundary.end()].strip():
            parts.append(text[start : boundary.end()])
            start = boundary.end()
    if text[start:].strip() or not parts:
        parts.append(text[start:])
    else:
        parts[-1] += text[start:]
    return [part for part in parts if part]


def join_sentences(parts: list[str]) -> str:
    """Puts sentences together again; a sentence that lost its white space gets a blank."""
    text = ""
    for part in parts:
        if text and not text[-1].isspace() and not part[0].isspace():
            text += " "
        text += part
    return text
