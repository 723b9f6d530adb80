# SPDX-License-Identifier: Apache-2.0
"""memory_reset: the agent loses its whole memory once."""

from __future__ import annotations

from typing import override

from pydantic import Field

from metric_benchmark.mutants.hooks import Forgetful
from metric_benchmark.mutants.operator import Call, Operator, Params


class MemoryResetParams(Params):
    """Parameters of `memory_reset`."""

    after_actions: int = Field(ge=1, description="the agent forgets everything once, after this many actions")


class MemoryReset(Operator[MemoryResetParams]):
    """Calls the agent's `forget(keep=0)` once, just before it sees that action's observation."""

    name = "memory_reset"
    family = "memory"
    fault = "a context reset in mid-run: everything seen before a certain action is lost"
    needs = "memory"
    params_model = MemoryResetParams

    @override
    def after_action(self, call: Call, agent: Forgetful) -> None:
        if call.number == self.params.after_actions:
            agent.forget(keep=0)
            self.fire(call.number, "forgot everything")
