# SPDX-License-Identifier: Apache-2.0
"""early_stop: the agent believes too early that it is done."""

from __future__ import annotations

from typing import Literal, override

from pydantic import Field

from metric_benchmark.mutants.operator import Call, Observation, Operator, Params, Stop

Counting = Literal["any", "error", "empty"]


class EarlyStopParams(Params):
    """Parameters of `early_stop`."""

    after_actions: int = Field(ge=1, description="the run ends right after this many actions of the counted kind")
    counting: Counting = Field(
        default="any", description="which actions count: any, those that fail, or those that print nothing"
    )


def counts(seen: Observation, counting: Counting) -> bool:
    """Tells whether an action with this observation is of the counted kind."""
    if counting == "error":
        return seen.return_code != 0
    return counting == "any" or seen.is_empty


class EarlyStop(Operator[EarlyStopParams]):
    """Ends the run right after the last counted action: it was carried out, its observation is never read."""

    name = "early_stop"
    family = "control"
    fault = "premature completion: the agent stops after its nth action, nth failure or nth empty result"
    needs = "calls"
    params_model = EarlyStopParams

    _counted = 0

    @override
    def after_exec(self, call: Call, seen: Observation) -> Observation | Stop:
        self._counted += counts(seen, self.params.counting)
        if self._counted < self.params.after_actions:
            return seen
        self.fire(call.number, "stopped")
        return Stop(f"early stop after {self._counted} actions ({self.params.counting})")
