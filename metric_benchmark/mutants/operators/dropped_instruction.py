# SPDX-License-Identifier: Apache-2.0
"""dropped_instruction: one sentence of the instruction is missing."""

from __future__ import annotations

from typing import Literal, override

from pydantic import Field

from metric_benchmark.mutants.operator import Operator, Params
from metric_benchmark.mutants.sentences import join_sentences, split_sentences


class DroppedInstructionParams(Params):
    """Parameters of `dropped_instruction`."""

    sentence: int | Literal["random"] = Field(
        description="which one: 1 is the first, -1 the last, random is drawn by the seed"
    )


def drop_sentence(text: str, sentence: int) -> str:
    """Returns the text without its nth sentence, from the end if negative; unchanged when there is none."""
    parts = split_sentences(text)
    at = sentence - 1 if sentence > 0 else len(parts) + sentence
    if sentence == 0 or not 0 <= at < len(parts):
        return text
    return join_sentences(parts[:at] + parts[at + 1 :])


class DroppedInstruction(Operator[DroppedInstructionParams]):
    """Hides one sentence of the instruction from the agent."""

    name = "dropped_instruction"
    family = "prompt"
    fault = "the agent overlooks one sentence of its instruction"
    needs = "instruction"
    params_model = DroppedInstructionParams

    @override
    def on_instruction(self, text: str) -> str:
        sentence = self.params.sentence
        if sentence == "random":
            sentence = self.random("sentence").randint(1, max(1, len(split_sentences(text))))
        changed = drop_sentence(text, sentence)
        if changed != text:
            self.fire(0, f"dropped sentence {sentence}")
        return changed
