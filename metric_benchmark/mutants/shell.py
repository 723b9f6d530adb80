# SPDX-License-Identifier: Apache-2.0
"""Reads a shell command line far enough to tell which commands it runs and where its output goes.

Not a shell: it never expands anything. What it cannot know (a variable's value, a script's content) it leaves
as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_REDIRECT = re.compile(r"\d*(?:<<<|<<-?|<>|<&|<)|&>>?|\d*(?:>>|>\||>&|>)")
_SEPARATOR = re.compile(r"&&|\|\||;;|\|&|[;&|()\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=")
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_KEYWORDS = frozenset(
    (
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "do",
        "done",
        "while",
        "until",
        "!",
        "{",
        "}",
        "time",
        "coproc",
        "esac",
    )
)
_HEADS = frozenset(("for", "case", "select", "function"))
#: Commands that run the command in their arguments, with those of their options that take a value.
_WRAPPERS = {
    "sudo": "-u -g -p -h -C", "xargs": "-I -d -n -P -L -s -a -E", "timeout": "-s -k", "nice": "-n",
    "env": "-u -C", "stdbuf": "-i -o -e", "exec": "-a", "nohup": "", "command": "", "setsid": "",
}  # fmt: skip
_SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ash", "ksh"))
_CLOSER = {"(": ")", "{": "}"}
_DEPTH = 5


@dataclass(frozen=True)
class Word:
    """A word as written (`raw`), with its quotes removed (`value`), and the commands substituted in it."""

    raw: str
    value: str
    nested: tuple[str, ...] = ()


@dataclass
class Simple:
    """One simple command: its name without folder, its arguments, its redirections."""

    name: str = ""
    args: list[Word] = field(default_factory=list[Word])
    redirects: list[tuple[str, Word]] = field(default_factory=list[tuple[str, Word]])


def simple_commands(command: str, depth: int = _DEPTH) -> list[Simple]:
    """Returns the simple commands of a command line, nested ones (`$(...)`, `bash -c`, `xargs`) included."""
    found: list[Simple] = []
    current = Simple()
    skipping = False
    redirect: str | None = None

    def finish() -> None:
        nonlocal current, skipping, redirect
        if current.name or current.redirects:
            found.extend([current, *_inner(current, depth)])
        current, skipping, redirect = Simple(), False, None

    for token in _lex(command):
        if isinstance(token, str):
            if _REDIRECT.fullmatch(token):
                redirect = token
            else:
                finish()
            continue
        for text in token.nested if depth else ():
            found.extend(simple_commands(text, depth - 1))
        if redirect is not None:
            current.redirects.append((redirect, token))
            redirect = None
        elif skipping:
            continue
        elif current.name:
            current.args.append(token)
        elif token.value in _HEADS:
            skipping = True
        elif token.value not in _KEYWORDS and not _ASSIGNMENT.match(token.value):
            current.name = _base(token.value)
    finish()
    return found


def command_names(command: str) -> tuple[str, ...]:
    """Returns the names of the commands a command line runs, without their folders, in order."""
    return tuple(simple.name for simple in simple_commands(command) if simple.name)


def _inner(simple: Simple, depth: int) -> list[Simple]:
    """Returns what a command that runs another one runs."""
    if not depth:
        return []
    if simple.name in _SHELLS:
        for option, script in zip(simple.args, simple.args[1:], strict=False):
            if re.fullmatch(r"-[a-z]*c", option.value):
                return simple_commands(script.value, depth - 1)
    if simple.name == "eval":
        return simple_commands(" ".join(word.value for word in simple.args), depth - 1)
    if simple.name in _WRAPPERS:
        takes_value = _WRAPPERS[simple.name].split()
        for at, word in enumerate(simple.args):
            is_value = at > 0 and simple.args[at - 1].value in takes_value
            if is_value or re.match(r"-|[0-9.]+[smhd]?$", word.value) or _ASSIGNMENT.match(word.value):
                continue
            inner = Simple(_base(word.value), simple.args[at + 1 :])
            return [inner, *_inner(inner, depth - 1)]
    return []


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _lex(command: str) -> Iterator[Word | str]:
    """Yields words, and operators as plain strings; comments and here-document bodies are left out."""
    at = 0
    here_documents: list[str] = []
    awaits_delimiter = False
    while at < len(command):
        if blank := _BLANK.match(command, at):
            at = blank.end()
        elif command[at] == "#":
            at = _line_end(command, at)
        elif operator := _REDIRECT.match(command, at) or _SEPARATOR.match(command, at):
            at = operator.end()
            awaits_delimiter = operator.group().lstrip("0123456789") in ("<<", "<<-")
            if operator.group() == "\n":
                for delimiter in here_documents:
                    at = _after_here_document(command, at, delimiter)
                here_documents = []
            yield operator.group()
        else:
            word, at = _word(command, at)
            if awaits_delimiter:
                here_documents.append(word.value)
                awaits_delimiter = False
            yield word


def _word(command: str, start: int) -> tuple[Word, int]:
    at, value, nested = start, "", list[str]()
    while at < len(command) and command[at] not in " \t\n;&|()<>":
        char = command[at]
        if char == "\\":
            value += command[at + 1 : at + 2].replace("\n", "")
            at += 2
        elif char == "'":
            end = _find(command, "'", at + 1)
            value += command[at + 1 : end]
            at = end + 1
        elif char == '"':
            end = _double_quote_end(command, at)
            inside = command[at + 1 : end]
            value += re.sub(r'\\([\\"$`])', r"\1", inside)
            nested += _substitutions(inside)
            at = end + 1
        else:
            end = _expansion_end(command, at)
            nested += _substitutions(command[at:end])
            value += command[at:end]
            at = end
    return Word(command[start:at], value, tuple(nested)), min(at, len(command))


def _substitutions(text: str) -> list[str]:
    """Returns the commands of the `$(...)` and backticks of a text, outermost ones only."""
    found: list[str] = []
    at = 0
    while at < len(text):
        end = _expansion_end(text, at)
        piece = text[at:end]
        if piece.startswith("$(") and not piece.startswith("$(("):
            found.append(piece[2:-1])
        elif piece.startswith("`"):
            found.append(piece[1:-1])
        at = end + (text[at] == "\\")
    return found


def _expansion_end(text: str, at: int) -> int:
    """Returns the end of the `$(...)`, `${...}` or backticks that begin at `at`, else of one character."""
    if text[at] == "`":
        return min(_find(text, "`", at + 1) + 1, len(text))
    if text[at] != "$" or text[at + 1 : at + 2] not in _CLOSER:
        return at + 1
    opener, closer, depth = text[at + 1], _CLOSER[text[at + 1]], 0
    at += 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "'":
            at = _find(text, "'", at + 1)
        elif text[at] == '"':
            at = _double_quote_end(text, at)
        elif text[at] == opener:
            depth += 1
        elif text[at] == closer:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return len(text)


def _double_quote_end(text: str, at: int) -> int:
    """Returns where the double quote that opens at `at` is closed, or the end of the text."""
    at += 1
    while at < len(text) and text[at] != '"':
        at = at + 2 if text[at] == "\\" else _expansion_end(text, at)
    return min(at, len(text))


def _after_here_document(command: str, at: int, delimiter: str) -> int:
    while at < len(command):
        end = _line_end(command, at)
        if command[at:end].lstrip("\t") == delimiter:
            return end
        at = end + 1
    return len(command)


def _line_end(text: str, at: int) -> int:
    return _find(text, "\n", at)


def _find(text: str, char: str, at: int) -> int:
    found = text.find(char, at)
    return len(text) if found < 0 else found
