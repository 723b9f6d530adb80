# SPDX-License-Identifier: Apache-2.0
"""shuffled_instruction: the instruction's sentences come in another order."""

from __future__ import annotations

import random
from typing import override

from metric_benchmark.mutants.operator import NoParams, Operator
from metric_benchmark.mutants.sentences import join_sentences, split_sentences


def shuffle_sentences(text: str, rng: random.Random) -> str:
    """Returns the text with its sentences in another order than theirs, if it has two that differ."""
    parts = split_sentences(text)
    if len(set(parts)) < 2:
        return text
    shuffled = parts
    while shuffled == parts:
        shuffled = rng.sample(parts, len(parts))
    return join_sentences(shuffled)


class ShuffledInstruction(Operator[NoParams]):
    """Puts the sentences of the instruction into an order drawn by the seed."""

    name = "shuffled_instruction"
    family = "prompt"
    fault = "the agent takes the steps of its instruction in the wrong order"
    needs = "instruction"
    params_model = NoParams

    @override
    def on_instruction(self, text: str) -> str:
        changed = shuffle_sentences(text, self.random("order"))
        if changed != text:
            self.fire(0, "shuffled the sentences")
        return changed
