# SPDX-License-Identifier: Apache-2.0
"""The clerk's trajectory in Harbor's interchange format (ATIF)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harbor.models.trajectories import (
    Agent,
    FinalMetrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)


class Recorder:
    """Collects one step per tool call; `purpose` is the sentence the next calls serve."""

    def __init__(self, agent: str, version: str, session_id: str | None, instruction: str) -> None:
        self._agent = Agent(name=agent, version=version)
        self._session_id = session_id
        self._steps = [Step(step_id=1, source="user", message=instruction, timestamp=_now())]
        self.purpose = ""

    @property
    def n_calls(self) -> int:
        """How many tool calls were recorded."""
        return len(self._steps) - 1

    def add(self, tool: str, arguments: dict[str, Any], text: str, code: int) -> None:
        """Records one tool call and what was observed."""
        call = f"call-{len(self._steps)}"
        self._steps.append(
            Step(
                step_id=len(self._steps) + 1,
                source="agent",
                message=self.purpose,
                timestamp=_now(),
                llm_call_count=0,
                tool_calls=[ToolCall(tool_call_id=call, function_name=tool, arguments=arguments)],
                observation=Observation(results=[ObservationResult(source_call_id=call, content=text)]),
                extra={"return_code": code},
            )
        )

    def save(self, path: Path) -> None:
        """Writes the trajectory."""
        trajectory = Trajectory(
            session_id=self._session_id,
            agent=self._agent,
            steps=self._steps,
            final_metrics=FinalMetrics(total_steps=len(self._steps)),
        )
        path.write_text(json.dumps(trajectory.to_json_dict(), indent=1), encoding="utf-8")


def _now() -> str:
    return datetime.now(UTC).isoformat()
