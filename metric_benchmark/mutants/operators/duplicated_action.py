# SPDX-License-Identifier: Apache-2.0
"""duplicated_action: the agent does something twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, override

from pydantic import Field, Strict

from metric_benchmark.mutants.operator import Call, Operator, Params
from metric_benchmark.mutants.selection import EveryNth


class DuplicatedActionParams(Params):
    """Parameters of `duplicated_action`."""

    every: int = Field(default=1, ge=1, description="every nth action is done twice; 1 is every one")
    commands: Annotated[tuple[str, ...], Strict(False)] = Field(
        default=(), description="only actions that run one of these commands are doubled and count; none named: all"
    )


class DuplicatedAction(Operator[DuplicatedActionParams]):
    """Carries every nth action out twice; the agent sees the second result."""

    name = "duplicated_action"
    family = "control"
    fault = "a needless retry: actions are done twice, which matters where they are not idempotent"
    needs = "calls"
    params_model = DuplicatedActionParams

    def __init__(self, params: DuplicatedActionParams, seed: int = 0) -> None:
        super().__init__(params, seed)
        self._selection = EveryNth(params.every, params.commands)

    @override
    def before_exec(self, call: Call) -> Call:
        if not self._selection.takes(call.command):
            return call
        self.fire(call.number, "done twice")
        return replace(call, times=2)
