# SPDX-License-Identifier: Apache-2.0
"""stale_observation: the agent sees the previous action's result instead of the newest."""

from __future__ import annotations

from typing import override

from pydantic import Field

from metric_benchmark.mutants.operator import Call, Observation, Operator, Params


class StaleObservationParams(Params):
    """Parameters of `stale_observation`."""

    every: int = Field(ge=1, description="every nth action shows the result of the action before it")


class StaleObservation(Operator[StaleObservationParams]):
    """Carries every action out, but shows the previous result for every nth one; the first has none."""

    name = "stale_observation"
    family = "observation"
    fault = "an observation arrives late: every nth action shows the result of the action before it"
    needs = "observations"
    params_model = StaleObservationParams

    _previous: Observation | None = None

    @override
    def after_exec(self, call: Call, seen: Observation) -> Observation:
        previous, self._previous = self._previous, seen
        if previous is None or call.number % self.params.every:
            return seen
        if previous != seen:
            self.fire(call.number, "showed the previous observation")
        return previous
