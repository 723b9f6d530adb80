# SPDX-License-Identifier: Apache-2.0
"""action_budget: the agent may act only so many times."""

from __future__ import annotations

from typing import Literal, override

from pydantic import Field

from metric_benchmark.mutants.operator import Call, Observation, Operator, Params, Stop, answer

#: What a used-up soft budget answers; `docker run` and `timeout` return 125 for their own failures, too.
EXHAUSTED = answer("action budget exhausted", 125)


class ActionBudgetParams(Params):
    """Parameters of `action_budget`."""

    max_actions: int = Field(ge=0, description="how many actions are carried out")
    mode: Literal["hard", "soft"] = Field(
        default="hard",
        description="hard: the run ends when one more is tried; soft: more of them fail with exit code 125",
    )


class ActionBudget(Operator[ActionBudgetParams]):
    """Ends the run, or refuses to act, when the budget is used up."""

    name = "action_budget"
    family = "control"
    fault = "the agent runs out of steps: nothing it tries after the budget is carried out"
    needs = "calls"
    params_model = ActionBudgetParams

    @override
    def before_exec(self, call: Call) -> Call | Observation | Stop:
        if call.number <= self.params.max_actions:
            return call
        self.fire(call.number, "budget used up")
        return Stop("action budget used up") if self.params.mode == "hard" else EXHAUSTED
