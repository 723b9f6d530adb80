# SPDX-License-Identifier: Apache-2.0
"""memory_amnesia: the agent remembers only its most recent observations."""

from __future__ import annotations

from typing import override

from pydantic import Field

from metric_benchmark.mutants.hooks import Forgetful
from metric_benchmark.mutants.operator import Call, Operator, Params


class MemoryAmnesiaParams(Params):
    """Parameters of `memory_amnesia`."""

    keep: int = Field(ge=0, description="observations kept, besides the newest one")
    every: int = Field(default=1, ge=1, description="the agent forgets after every nth action")


class MemoryAmnesia(Operator[MemoryAmnesiaParams]):
    """Calls the agent's `forget(keep=...)` after every nth action, just before it sees the observation."""

    name = "memory_amnesia"
    family = "memory"
    fault = "a short memory: all but the most recent observations are forgotten"
    needs = "memory"
    params_model = MemoryAmnesiaParams

    @override
    def after_action(self, call: Call, agent: Forgetful) -> None:
        if call.number % self.params.every == 0:
            agent.forget(keep=self.params.keep)
            self.fire(call.number, f"forgot all but {self.params.keep}")
