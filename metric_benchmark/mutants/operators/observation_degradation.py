# SPDX-License-Identifier: Apache-2.0
"""observation_degradation: what the agent reads is cut short or garbled."""

from __future__ import annotations

import random
import string
from typing import Literal, Self, override

from pydantic import Field, model_validator

from metric_benchmark.mutants.operator import Call, Observation, Operator, Params

_ALPHABETS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


class ObservationDegradationParams(Params):
    """Parameters of `observation_degradation`."""

    how: Literal["truncate", "garble"] = Field(description="cut the text, or replace characters in it")
    keep_chars: int | None = Field(default=None, ge=0, description="truncate: characters kept, from the start")
    garble_frac: float | None = Field(
        default=None, gt=0, le=1, description="garble: share of letters and digits replaced by others"
    )

    @model_validator(mode="after")
    def _one_setting(self) -> Self:
        wanted, other = ("keep_chars", "garble_frac") if self.how == "truncate" else ("garble_frac", "keep_chars")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise ValueError(f"how: {self.how} needs {wanted} and no {other}")
        return self


def truncate(text: str, keep_chars: int) -> str:
    """Returns the first `keep_chars` characters."""
    return text[:keep_chars]


def garble(text: str, share: float, rng: random.Random) -> str:
    """Replaces each ASCII letter and digit, with probability `share`, by another one of its kind."""

    def replaced(char: str) -> str:
        for alphabet in _ALPHABETS:
            if char in alphabet and rng.random() < share:
                return rng.choice(alphabet.replace(char, ""))
        return char

    return "".join(map(replaced, text))


class ObservationDegradation(Operator[ObservationDegradationParams]):
    """Degrades standard output and standard error of every action, without a notice."""

    name = "observation_degradation"
    family = "observation"
    fault = "the agent reads only the start of long outputs, or misreads some of their characters"
    needs = "observations"
    params_model = ObservationDegradationParams

    @override
    def after_exec(self, call: Call, seen: Observation) -> Observation:
        degraded = Observation(
            self._degrade(seen.stdout, call.number, "stdout"),
            self._degrade(seen.stderr, call.number, "stderr"),
            seen.return_code,
        )
        if degraded != seen:
            self.fire(call.number, self.params.how)
        return degraded

    def _degrade(self, text: str | None, number: int, stream: str) -> str | None:
        if text is None:
            return None
        if self.params.keep_chars is not None:
            return truncate(text, self.params.keep_chars)
        return garble(text, self.params.garble_frac or 0.0, self.random(number, stream))
