# SPDX-License-Identifier: Apache-2.0
"""Reads the pages: their files, their commands, their code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from metric_benchmark.cli import main

REPOSITORY = Path(__file__).parents[3]
_FENCE = re.compile(
    r"(?:^<!-- (?P<what>file: \S+|run) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the file it is, if it is one."""

    language: str
    text: str
    file: str | None = None
    is_run: bool = False

    @property
    def commands(self) -> list[Command]:
        """The commands of a console block, each with the output shown below it."""
        found: list[Command] = []
        continued = False
        for line in self.text.splitlines() if self.language == "console" else ():
            if continued:
                found[-1].words += "\n" + line
            elif line.startswith("$ "):
                found.append(Command(line[2:].partition("  #")[0].strip()))
            elif found:
                found[-1].shown.append(line)
            continued = line.endswith("\\")
        return found


@dataclass
class Command:
    """A command of a page and the lines of its output the page shows."""

    words: str
    shown: list[str] = field(default_factory=list)


def blocks(text: str) -> Iterator[Block]:
    """Yields the fenced blocks of a page, in order."""
    for match in _FENCE.finditer(text):
        what = match["what"] or ""
        name = what.removeprefix("file: ") if what.startswith("file: ") else None
        yield Block(match["language"], match["text"], name, what == "run")


@pytest.fixture(scope="session")
def reading() -> SimpleNamespace:
    """What tests of pages share."""
    return SimpleNamespace(blocks=blocks, repository=REPOSITORY)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """Runs a command line in this process."""

    def call(*words: str) -> SimpleNamespace:
        capsys.readouterr()
        status = main(list(words))
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call
