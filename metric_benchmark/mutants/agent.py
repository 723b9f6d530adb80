# SPDX-License-Identifier: Apache-2.0
"""The Harbor agent of a mutant: any other agent, with an operator between it and the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.agents.factory import AgentFactory
from harbor.agents.installed.base import BaseInstalledAgent
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trial.config import AgentConfig
from harbor.models.trial.result import AgentInfo

from metric_benchmark.errors import ConfigError
from metric_benchmark.keys import MUTANT_AGENT
from metric_benchmark.mutants.applicability import describe, refusal
from metric_benchmark.mutants.catalog import check_operator, make_operator, operator_info
from metric_benchmark.mutants.operator import Operator
from metric_benchmark.mutants.oracle import LateOracle, is_oracle
from metric_benchmark.mutants.session import Session


class MutantAgent(BaseAgent):
    """A factory: Harbor asks for a `MutantAgent` and gets the inner agent itself, its methods wrapped.

    So whatever Harbor reads off an agent (capabilities, session ids, its class) is the inner agent's own.

    Args of the constructor, as in an AgentConfig's `kwargs`:
        label: the variant's id; results name the agent by it.
        operator: `{name, params, seed}` of the catalogue.
        agent: the inner agent as a resolved AgentConfig.
    """

    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls,
        logs_dir: Path,
        model_name: str | None = None,
        *,
        label: str,
        operator: dict[str, Any],
        agent: dict[str, Any],
        extra_env: dict[str, str] | None = None,
        **framework: Any,
    ) -> BaseAgent:
        """Builds the inner agent and wraps it."""
        if is_oracle(agent):
            inner: BaseAgent = LateOracle(logs_dir, model_name, extra_env=extra_env, **framework)
        else:
            config = AgentConfig.model_validate(agent)
            config.model_name = config.model_name or model_name
            config.env = {**config.env, **(extra_env or {})}
            inner = AgentFactory.create_agent_from_config(  # pyright: ignore[reportUnknownMemberType]
                config, logs_dir=logs_dir, **framework
            )
        return mutate(inner, label=label, operator=operator)

    @classmethod
    def preflight(cls, kwargs: dict[str, Any] | None = None, env: Mapping[str, str] | None = None) -> None:
        """Checks the inner agent and the operator before any trial is queued.

        Raises:
            ConfigError: the operator cannot act on the agent.
        """
        resolved = {"import_path": MUTANT_AGENT, "kwargs": kwargs or {}}
        if problems := refusal_for(resolved):
            raise ConfigError(problems)
        AgentFactory.run_preflight(AgentConfig.model_validate((kwargs or {})["agent"]))

    @classmethod
    def agent_class(cls, kwargs: dict[str, Any]) -> type[BaseAgent]:
        """Returns the class of the agent this factory makes."""
        return inner_class(kwargs["agent"])


def mutate(inner: BaseAgent, *, label: str, operator: Mapping[str, Any] | Callable[[], Operator[Any]]) -> BaseAgent:
    """Wraps an agent's methods in place so that an operator acts on its runs, and returns it.

    Args:
        inner: an agent of any class.
        label: the name under which results show it.
        operator: `{name, params, seed}` of the catalogue, or a function that makes an operator for one run.
    """
    make = operator if callable(operator) else partial(_make, operator)
    name, needs = make().name, make().needs
    session = Session(inner, make)
    bare_info, bare_setup, bare_populate = inner.to_agent_info, inner.setup, inner.populate_context_post_run

    def wrapped(run: Any) -> Any:
        async def drive(instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
            await session.drive(run, instruction, environment, context)

        return drive

    async def setup(environment: BaseEnvironment) -> None:
        # Not in the constructor: what is raised there cancels all other trials of the job.
        if needs == "memory" and not hasattr(inner, "forget"):
            raise ConfigError(f"operator {name} cannot act on {describe({'name': inner.name()})}: it has no forget()")
        await bare_setup(session.environment(environment))

    def populate_context_post_run(context: AgentContext) -> None:
        bare_populate(context)
        session.annotate(context)

    def to_agent_info() -> AgentInfo:
        info = bare_info()
        return info.model_copy(update={"name": label, "version": f"{info.version}+{name}"})

    inner.setup = setup
    inner.populate_context_post_run = populate_context_post_run
    inner.to_agent_info = to_agent_info
    for method in ("run", "resume", "load"):
        setattr(inner, method, wrapped(getattr(inner, method)))
    return inner


def _make(operator: Mapping[str, Any]) -> Operator[Any]:
    return make_operator(operator["name"], operator.get("params", {}), operator.get("seed", 0))


def inner_class(agent: dict[str, Any]) -> type[BaseAgent]:
    """Returns the class of a resolved agent; a factory tells what it makes by `agent_class(kwargs)`."""
    found: Any = AgentFactory.get_agent_class_from_config(AgentConfig.model_validate(agent))
    makes: Any = getattr(found, "agent_class", None)
    return found if makes is None else makes(agent.get("kwargs", {}))


def refusal_for(resolved_agent: dict[str, Any]) -> list[str]:
    """Returns why a mutant cannot run; nothing for agents that are no mutants.

    Call it before a job starts: unlike `check_operator` it imports the inner agent and looks at its class.
    """
    if resolved_agent.get("import_path") != MUTANT_AGENT:
        return []
    operator, agent = resolved_agent["kwargs"]["operator"], resolved_agent["kwargs"]["agent"]
    problems = check_operator(operator["name"], operator.get("params", {}), agent)
    problems += refusal_for(agent)
    if problems:
        return problems
    try:
        found = inner_class(agent)
    except Exception as exc:  # noqa: BLE001 - whatever a user's module raises when it is imported
        return [f"agent {describe(agent)} cannot be imported: {exc}"]
    needs = operator_info(operator["name"]).operator.needs
    if issubclass(found, BaseInstalledAgent):
        reason = refusal(operator["name"], needs, "installed", describe(agent))
        return [reason] if reason else []
    if needs == "memory" and not hasattr(found, "forget"):
        return [
            f"operator {operator['name']} cannot act on agent {describe(agent)}: its class {found.__name__} "
            "has no method forget(*, keep); see metric_benchmark.mutants.hooks.Forgetful"
        ]
    return []
