# SPDX-License-Identifier: Apache-2.0
"""tool_error: a tool fails now and then, though nothing is wrong with the request."""

from __future__ import annotations

from typing import Annotated, override

from pydantic import Field, Strict

from metric_benchmark.mutants.operator import Call, Observation, Operator, Params, answer
from metric_benchmark.mutants.selection import EveryNth


class ToolErrorParams(Params):
    """Parameters of `tool_error`."""

    every: int = Field(ge=1, description="every nth action fails; 1 is every one")
    commands: Annotated[tuple[str, ...], Strict(False)] = Field(
        default=(), description="only actions that run one of these commands fail and count; none named: all do"
    )
    return_code: int = Field(default=1, ge=1, le=255, description="the exit code of the failure")


class ToolError(Operator[ToolErrorParams]):
    """Answers every nth action with a transient error; it is not executed, a second try may work."""

    name = "tool_error"
    family = "tools"
    fault = "a flaky tool: every nth call fails with a transient error, and a retry is needed"
    needs = "calls"
    params_model = ToolErrorParams

    def __init__(self, params: ToolErrorParams, seed: int = 0) -> None:
        super().__init__(params, seed)
        self._selection = EveryNth(params.every, params.commands)

    @override
    def before_exec(self, call: Call) -> Call | Observation:
        if not self._selection.takes(call.command):
            return call
        self.fire(call.number, "failed")
        return answer("bash: fork: Resource temporarily unavailable", self.params.return_code)
