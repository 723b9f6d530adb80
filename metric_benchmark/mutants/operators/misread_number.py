# SPDX-License-Identifier: Apache-2.0
"""misread_number: one number of the instruction is read wrongly."""

from __future__ import annotations

import re
from typing import Literal, override

from pydantic import Field

from metric_benchmark.mutants.operator import Operator, Params

# A number that stands alone or ends a sentence: no part of a word, a path, a version, a decimal or a date.
_NUMBER = re.compile(r"(?<![\w./:\-])\d+(?![\w/:\-]|\.\w)")


class MisreadNumberParams(Params):
    """Parameters of `misread_number`."""

    which: int | Literal["random"] = Field(
        default="random", description="which number: 1 is the first, -1 the last, random is drawn by the seed"
    )
    off_by: int = Field(default=1, description="what is added to it; the result is at least 0")


def find_numbers(text: str) -> list[re.Match[str]]:
    """Returns the whole numbers that stand alone in a text."""
    return list(_NUMBER.finditer(text))


def change_number(text: str, which: int, off_by: int) -> str:
    """Returns the text with its nth number changed (from the end if negative); as it is when there is none."""
    numbers = find_numbers(text)
    at = which - 1 if which > 0 else len(numbers) + which
    if which == 0 or not 0 <= at < len(numbers):
        return text
    number = numbers[at]
    return f"{text[: number.start()]}{max(0, int(number.group()) + off_by)}{text[number.end() :]}"


class MisreadNumber(Operator[MisreadNumberParams]):
    """Changes one number of the instruction."""

    name = "misread_number"
    family = "prompt"
    fault = "the agent misreads one number of its instruction"
    needs = "instruction"
    params_model = MisreadNumberParams

    @override
    def on_instruction(self, text: str) -> str:
        which = self.params.which
        if which == "random":
            which = self.random("number").randint(1, max(1, len(find_numbers(text))))
        changed = change_number(text, which, self.params.off_by)
        if changed != text:
            self.fire(0, f"changed number {which}")
        return changed
