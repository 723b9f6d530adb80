# SPDX-License-Identifier: Apache-2.0
"""skipped_action: the agent believes it acted, but did not."""

from __future__ import annotations

from typing import Annotated, override

from pydantic import Field, Strict

from metric_benchmark.mutants.operator import Call, Observation, Operator, Params
from metric_benchmark.mutants.selection import EveryNth

_SILENT_SUCCESS = Observation(stdout="", stderr="", return_code=0)


class SkippedActionParams(Params):
    """Parameters of `skipped_action`."""

    every: int = Field(ge=1, description="every nth action is skipped; 1 is every one")
    commands: Annotated[tuple[str, ...], Strict(False)] = Field(
        default=(), description="only actions that run one of these commands are skipped and count; none named: all"
    )


class SkippedAction(Operator[SkippedActionParams]):
    """Does not carry every nth action out, and reports a success without output."""

    name = "skipped_action"
    family = "control"
    fault = "a hallucinated action: the agent believes it did something that was never done"
    needs = "calls"
    params_model = SkippedActionParams

    def __init__(self, params: SkippedActionParams, seed: int = 0) -> None:
        super().__init__(params, seed)
        self._selection = EveryNth(params.every, params.commands)

    @override
    def before_exec(self, call: Call) -> Call | Observation:
        if not self._selection.takes(call.command):
            return call
        self.fire(call.number, "skipped")
        return _SILENT_SUCCESS
