# SPDX-License-Identifier: Apache-2.0
"""Harbor's oracle as an inner agent: it is built in `setup`, when the task's folder is known."""

from __future__ import annotations

from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.oracle import OracleAgent
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext


class LateOracle(BaseAgent):
    """Runs the task's solution.

    Harbor hands the task's folder only to an agent configured as `oracle`; the environment knows it as well.
    Skills, MCP servers and earlier trajectories are ignored, as Harbor has it for its own oracle.
    """

    capabilities = AgentCapabilities(
        windows=True, skills=True, mcp_servers=True, mcp_http_headers=True, load_atif_trajectory=True
    )

    _oracle: OracleAgent | None = None

    @staticmethod
    @override
    def name() -> str:
        return OracleAgent.name()

    @override
    def version(self) -> str:
        return "1.0.0"

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        self._oracle = OracleAgent(
            logs_dir=self.logs_dir,
            task_dir=environment.environment_dir.parent,
            trial_paths=environment.trial_paths,
            extra_env=self.extra_env,
        )
        self._oracle.session_id, self._oracle.context_id = self.session_id, self.context_id
        await self._oracle.setup(environment)

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        if self._oracle is None:
            raise RuntimeError("the oracle was not set up: setup() comes before run()")
        await self._oracle.run(instruction, environment, context)

    @override
    async def load(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await self.run(instruction, environment, context)


def is_oracle(agent: dict[str, Any]) -> bool:
    """Tells whether a resolved agent is Harbor's oracle."""
    return agent.get("name") == OracleAgent.name() and not agent.get("import_path")
