# SPDX-License-Identifier: Apache-2.0
"""Loads an agent from a bundle folder, so that bundles whose modules share names do not collide."""

from __future__ import annotations

import difflib
import functools
import importlib
import sys
import traceback
import types
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard, override

from harbor.agents.base import BaseAgent
from harbor.agents.factory import AgentFactory

from metric_benchmark.errors import PinError
from metric_benchmark.execution.bundles import is_module, lacking_module
from metric_benchmark.hashing import digest_folder


@functools.cache
def load_entry(bundle_dir: str, bundle_sha256: str, entry: str) -> type[BaseAgent]:
    """Imports `module:Class` of a bundle as a package named after the bundle's digest.

    Modules of a bundle import each other relatively (`from .policy import Policy`).

    Raises:
        PinError: the bundle's content differs from its digest.
        ImportError: the module or class does not exist, or the import fails; it names file and line in the bundle.
    """
    found = digest_folder(Path(bundle_dir))
    if found != bundle_sha256:
        raise PinError(
            f"{bundle_dir}: the agent bundle has changed: found {found[:16]}..., pinned {bundle_sha256[:16]}..."
        )
    package = f"_mb_bundle_{bundle_sha256[:16]}"
    if package not in sys.modules:
        module = types.ModuleType(package)
        module.__path__ = [bundle_dir]
        sys.modules[package] = module
    module_name, _, class_name = entry.partition(":")
    lacking = lacking_module(Path(bundle_dir), entry)
    if lacking is not None:
        raise ImportError(lacking)
    try:
        loaded = importlib.import_module(f"{package}.{module_name}")
    except Exception as error:
        raise ImportError(_import_failure(error, Path(bundle_dir), package)) from error
    agent_class = getattr(loaded, class_name, None)
    if not _is_agent(agent_class):
        agents = sorted(name for name, value in vars(loaded).items() if _is_agent(value))
        near = difflib.get_close_matches(class_name, agents, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ImportError(f"{entry}: {class_name} is not a Harbor agent class in {module_name}.py of the bundle{hint}")
    return agent_class


def _is_agent(value: object) -> TypeGuard[type[BaseAgent]]:
    return isinstance(value, type) and issubclass(value, BaseAgent)


def _import_failure(error: Exception, bundle: Path, package: str) -> str:
    """Says where in a bundle an import failed, and what to do when it is a module of the bundle that was not found."""
    places = [
        f"{Path(frame.filename).relative_to(bundle)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(bundle)
    ]
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(bundle):
        places.append(f"{Path(error.filename).relative_to(bundle)}:{error.lineno}")
    at = f" at {places[-1]} of the bundle" if places else ""
    told = f"its import fails{at}: {type(error).__name__}: {str(error).replace(f'{package}.', '')}"
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if name and not name.startswith(package) and is_module(bundle, name):
        told += f"; modules of a bundle import each other relatively: write `from .{name} import ...`"
    return told


class AgentExitedError(RuntimeError):
    """An agent's code tried to end the process; the trial is the agent's failure, and its siblings go on."""


@functools.cache
def guard_agents() -> None:
    """Guards every agent Harbor makes in this process from now on, wherever its code comes from."""
    make: Any = AgentFactory.create_agent_from_config  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def make_guarded(*args: Any, **kwargs: Any) -> BaseAgent:
        return guard_exits(make(*args, **kwargs))

    AgentFactory.create_agent_from_config = staticmethod(make_guarded)


def guard_exits(agent: BaseAgent) -> BaseAgent:
    """Wraps an agent's methods in place: asyncio would end the process, and with it all other trials of the job."""
    for name in ("setup", "run", "resume", "load"):
        setattr(agent, name, _guarded(getattr(agent, name)))
    return agent


def _guarded(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt) as error:
            # The worker handles signals itself, so that neither comes from anybody but the agent.
            told = f" {error}" if str(error) else ""
            raise AgentExitedError(
                f"the agent's code tried to end the process: {type(error).__name__}{told}"
            ) from error

    return call


class BundleAgent(BaseAgent):
    """Stands for an agent of a bundle: constructing it gives the bundle's own agent."""

    # Python calls no __init__ here: what is built is not an instance of this class.
    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls,
        logs_dir: Path,
        *,
        bundle_dir: str,
        bundle_sha256: str,
        entry: str,
        agent_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> BaseAgent:
        """Builds the bundle's agent with its own kwargs and those Harbor adds."""
        return load_entry(bundle_dir, bundle_sha256, entry)(logs_dir=logs_dir, **(agent_kwargs or {}), **kwargs)

    @classmethod
    def agent_class(cls, kwargs: dict[str, Any]) -> type[BaseAgent]:
        """Returns the class of the agent this factory makes, for those who must know what it can do."""
        return load_entry(kwargs["bundle_dir"], kwargs["bundle_sha256"], kwargs["entry"])

    @classmethod
    @override
    def preflight(cls, kwargs: dict[str, Any] | None = None, env: Mapping[str, str] | None = None) -> None:
        """Runs the preflight of the bundle's agent."""
        given = kwargs or {}
        inner = load_entry(given["bundle_dir"], given["bundle_sha256"], given["entry"])
        inner.preflight(kwargs=given.get("agent_kwargs"), env=env)

    @staticmethod
    @override
    def name() -> str:
        """The name Harbor shows before the bundle's agent is built."""
        return "bundle"
