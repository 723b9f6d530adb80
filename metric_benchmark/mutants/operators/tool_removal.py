# SPDX-License-Identifier: Apache-2.0
"""tool_removal: some commands are not there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, override

from pydantic import Field, Strict

from metric_benchmark.mutants.operator import Call, Observation, Operator, Params, answer
from metric_benchmark.mutants.shell import command_names


class ToolRemovalParams(Params):
    """Parameters of `tool_removal`."""

    commands: Annotated[tuple[str, ...], Strict(False)] = Field(
        min_length=1, description="names of the missing commands, e.g. [grep, rg]"
    )


def missing_command(command: str, removed: Collection[str]) -> str | None:
    """Returns the first removed command that a command line runs, in a pipeline or substitution too."""
    return next((name for name in command_names(command) if name in removed), None)


class ToolRemoval(Operator[ToolRemovalParams]):
    """Answers an action that runs a removed command like a shell that cannot find it; none of it is run."""

    name = "tool_removal"
    family = "tools"
    fault = "a tool of the agent is gone: commands that use it fail with `command not found`"
    needs = "commands"
    params_model = ToolRemovalParams

    @override
    def before_exec(self, call: Call) -> Call | Observation:
        missing = missing_command(call.command, self.params.commands)
        if missing is None:
            return call
        self.fire(call.number, f"{missing} not found")
        return answer(f"bash: {missing}: command not found", 127)
