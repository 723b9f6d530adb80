# SPDX-License-Identifier: Apache-2.0
"""truncated_instruction: the end of the instruction is missing."""

from __future__ import annotations

from typing import override

from pydantic import Field

from metric_benchmark.mutants.operator import Operator, Params
from metric_benchmark.mutants.sentences import split_sentences


class TruncatedInstructionParams(Params):
    """Parameters of `truncated_instruction`."""

    keep_sentences: int = Field(ge=0, description="how many sentences the agent is given, from the start")


def keep_first(text: str, sentences: int) -> str:
    """Returns the first sentences of a text."""
    return "".join(split_sentences(text)[:sentences])


class TruncatedInstruction(Operator[TruncatedInstructionParams]):
    """Cuts the instruction after its first sentences, without a notice."""

    name = "truncated_instruction"
    family = "prompt"
    fault = "the agent reads only the beginning of its instruction"
    needs = "instruction"
    params_model = TruncatedInstructionParams

    @override
    def on_instruction(self, text: str) -> str:
        changed = keep_first(text, self.params.keep_sentences)
        if changed != text:
            self.fire(0, f"kept {self.params.keep_sentences} sentences")
        return changed
