# SPDX-License-Identifier: Apache-2.0
"""The environment a mutated agent is given: the real one, but actions and uploads can be intercepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast

from harbor.environments.base import BaseEnvironment, ExecResult


class Gate(Protocol):
    """Decides what becomes of an agent's actions."""

    async def act(self, real: BaseEnvironment, command: str, **where: Any) -> ExecResult:
        """Carries out, changes or refuses one `exec`."""
        ...

    async def upload(self, real: BaseEnvironment, source: Path, target: str) -> None:
        """Carries out, changes or refuses one `upload_file`."""
        ...

    async def pass_through(self) -> bool:
        """Tells whether any other change of the environment may still be made."""
        ...


class EnvironmentProxy:
    """Delegates to the real environment; only `exec`, `service_exec` and uploads go through the gate.

    It claims the real environment's class, so that `isinstance` keeps working for agents and for Harbor.
    """

    def __init__(self, real: BaseEnvironment, gate: Gate) -> None:
        object.__setattr__(self, "_real", real)
        object.__setattr__(self, "_gate", gate)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_real"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_real"), name, value)

    @property
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast("type[Any]", type(object.__getattribute__(self, "_real")))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
        **more: Any,
    ) -> ExecResult:
        """One action of the agent."""
        return await self._gate.act(self._real, command, cwd=cwd, env=env, timeout_sec=timeout_sec, user=user, **more)

    async def service_exec(self, command: str, *, service: str | None = None, **where: Any) -> ExecResult:
        """One action, unless it is for another service than the agent's own."""
        if BaseEnvironment.is_main_service(service):
            return await self.exec(command, **where)
        return await self._real.service_exec(command, service=service, **where)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """A file the agent writes from outside."""
        await self._gate.upload(self._real, Path(source_path), target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str, **more: Any) -> None:
        """A folder the agent writes from outside; never changed, but not done any more after a stop."""
        if await self._gate.pass_through():
            await self._real.upload_dir(source_dir, target_dir, **more)


def intercepted(real: BaseEnvironment, gate: Gate) -> BaseEnvironment:
    """Returns the environment as a mutated agent sees it."""
    return cast(BaseEnvironment, EnvironmentProxy(real, gate))
