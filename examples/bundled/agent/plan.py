# SPDX-License-Identifier: Apache-2.0
"""From an instruction's sentences to steps: what the clerk understands, and nothing it has seen."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: Where one sentence ends and the next begins. A dot inside a name is never followed by white space.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NAME = r"`([^`]+)`"

#: `the sum of every `fare` next to `paid``, `the `limit` minus the `used``, `the output` ...
_TERM = re.compile(
    r"the (?:name of the )?(?:(?P<how>sum of every|number of|largest|smallest|first|last|file with the largest"
    r"|file with the smallest|word|checksum of) )?`(?P<key>[^`]+)`"
    r"(?: next to (?P<join>the )?`(?P<near>[^`]+)`)?"
    r"(?: (?P<operator>plus|minus|times) the `(?P<other>[^`]+)`)?"
    r"|the (?P<whole>output|number of matching lines|number of files)(?: ending in `(?P<ending>[^`]+)`)?"
)


@dataclass(frozen=True)
class Term:
    """A value the instruction asks for, to be taken from what was observed.

    Attributes:
        how: which of several values, or what to compute from them; empty for the newest.
        key: the name before the colon or equals sign, or a literal for `how="word"`.
        near: only lines that hold this text count; with `join` it is the name of another value.
        operator: `plus`, `minus` or `times` the value named `other`.
    """

    how: str
    key: str
    near: str = ""
    join: bool = False
    operator: str = ""
    other: str = ""


@dataclass(frozen=True)
class Step:
    """One thing to do: a verb, what it acts on, and how.

    Attributes:
        sentence: the words it was read from.
        named: `target` is the name of a value that holds the path, not the path itself.
    """

    verb: str
    target: str
    sentence: str
    options: dict[str, str | int | bool] = field(default_factory=dict[str, str | int | bool])
    terms: tuple[Term, ...] = ()
    named: bool = False


#: Verb, then the words for it. The first pattern that matches a clause wins, so special ones come first.
_VERBS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (verb, re.compile(words, re.IGNORECASE))
    for verb, words in (
        ("read_lines", rf"\bread lines (?P<start>\d+) to (?P<end>\d+) of {_NAME}"),
        ("read_tail", rf"\bread the last (?P<tail>\d+) lines of {_NAME}"),
        ("read_each", rf"\b(?:read|open) (?:every|each) file in {_NAME}"),
        ("read_found", r"\b(?:read|open) the file that was found()"),
        ("read_listed", r"\b(?:read|open) the (?P<which>first|last) file listed()"),
        ("follow", rf"\bfollow (?:the|each|every) {_NAME} note"),
        ("read", rf"\b(?:read|open) (?P<named>the file named in )?{_NAME}"),
        ("fallback", rf"\bif it is (?:missing|not there), (?:use|try) {_NAME}"),
        ("list", rf"\blist {_NAME}(?P<recursive> and everything below it)?"),
        (
            "search",
            rf"\bsearch {_NAME} for (?P<value>the )?`(?P<pattern>[^`]+)`"
            r"(?P<ignore_case>,? in capitals or not)?",
        ),
        ("find", rf"\bfind the file called {_NAME}(?P<ignore_case>,? in capitals or not)?"),
        ("run", rf"\brun {_NAME}(?: in `(?P<cwd>[^`]+)`)?"),
        ("move", rf"\bmove {_NAME} to `(?P<to>[^`]+)`"),
        ("set", rf"\bset {_NAME} to (?P<terms>.+?) in `(?P<path>[^`]+)`"),
        ("append", rf"\bappend (?P<terms>.+?)(?<! next) to {_NAME}"),
        ("write", rf"\bwrite (?P<terms>.+?)(?<! next) to {_NAME}"),
        ("check", rf"\bcheck what {_NAME} holds now"),
    )
)
_NUMBERS = frozenset({"start", "end", "tail"})
_FLAGS = frozenset({"recursive", "ignore_case", "value"})


def sentences(instruction: str) -> list[str]:
    """Splits an instruction into its sentences."""
    return [s.strip() for s in _SENTENCE_END.split(instruction.strip()) if s.strip()]


def make_plan(instruction: str) -> list[Step]:
    """Reads the steps out of an instruction; sentences that name no step are background and are skipped."""
    clauses = [(s, c) for s in sentences(instruction) for c in re.split(r",? then ", s)]
    return [step for sentence, clause in clauses if (step := _step(sentence, clause))]


def terms(words: str) -> tuple[Term, ...]:
    """Reads the values asked for out of e.g. "the `room` and the sum of every `fare`"."""
    found: list[Term] = []
    for match in _TERM.finditer(words):
        if match["whole"]:
            found.append(Term(match["whole"], "", match["ending"] or ""))
        else:
            found.append(
                Term(
                    match["how"] or "", match["key"], match["near"] or "", bool(match["join"]),
                    match["operator"] or "", match["other"] or "",
                )
            )  # fmt: skip
    return tuple(found)


def _step(sentence: str, clause: str) -> Step | None:
    for verb, pattern in _VERBS:
        match = pattern.search(clause)
        if match is None:
            continue
        groups = match.groupdict()
        target = next(m for i, m in enumerate(match.groups(), 1) if i not in pattern.groupindex.values())
        options: dict[str, str | int | bool] = {}
        for name, text in groups.items():
            if text is not None and name not in ("terms", "named"):
                options[name] = int(text) if name in _NUMBERS else True if name in _FLAGS else text
        return Step(verb, target, sentence, options, terms(groups.get("terms") or ""), bool(groups.get("named")))
    return None
