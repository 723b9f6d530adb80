# SPDX-License-Identifier: Apache-2.0
"""Which agents an operator can act on, told from an agent's name or import path, without importing it."""

from __future__ import annotations

from typing import Any, Literal

from metric_benchmark.keys import MUTANT_AGENT
from metric_benchmark.mutants.operator import Need

AgentKind = Literal["host", "oracle", "nop", "terminal", "desktop", "installed"]

_BY_NAME: dict[str, AgentKind] = {
    "oracle": "oracle",
    "nop": "nop",
    "terminus": "terminal",
    "terminus-1": "terminal",
    "terminus-2": "terminal",
    "computer-1": "desktop",
    "dspy-rlm": "host",
}
_BY_MODULE: dict[str, AgentKind] = {
    "harbor.agents.oracle": "oracle",
    "harbor.agents.nop": "nop",
    "harbor.agents.terminus_2": "terminal",
    "harbor.agents.computer_1": "desktop",
    "harbor.agents.installed": "installed",
}

#: What an agent of a kind offers to operators; a host-side agent may also offer `memory`.
_OFFERS: dict[AgentKind, frozenset[Need]] = {
    "host": frozenset({"instruction", "calls", "commands", "observations", "memory"}),
    "oracle": frozenset({"calls"}),
    "nop": frozenset(),
    "terminal": frozenset({"instruction"}),
    "desktop": frozenset({"instruction"}),
    "installed": frozenset({"instruction"}),
}

_REASONS: dict[AgentKind, str] = {
    "host": "",
    "oracle": "it runs the task's solution as one script: it reads no instruction, shows no commands of its own, "
    "looks at no observation and has no memory",
    "nop": "nop does nothing, so there is nothing to mutate",
    "terminal": "it makes several tmux calls a turn, so a call is not an action; use its own knobs instead, "
    "e.g. agent kwargs {max_turns: 5} in an external/<label> mutant",
    "desktop": "it makes several calls per click or key, so a call is not an action; use its own knobs in an "
    "external/<label> mutant",
    "installed": "it runs inside the environment and its whole run is one call; use its own knobs (agent "
    "kwargs) in an external/<label> mutant",
}

APPLIES_TO: dict[Need, str] = {
    "instruction": "any agent that reads its instruction (all but oracle and nop)",
    "calls": "host-side agents with one exec call per action, and oracle",
    "commands": "host-side agents with one exec call per action",
    "observations": "host-side agents with one exec call per action",
    "memory": "host-side agents that have the method forget(*, keep)",
}


def agent_kind(agent: dict[str, Any]) -> AgentKind:
    """Classifies a resolved agent; one given by import path or bundle is taken as host-side."""
    name, import_path = agent.get("name"), agent.get("import_path")
    if import_path is None and isinstance(name, str) and ":" in name and not name.startswith("acp:"):
        import_path, name = name, None
    if import_path is None:
        return _BY_NAME.get(str(name), "installed")
    if import_path == MUTANT_AGENT:
        return agent_kind(agent.get("kwargs", {}).get("agent", {}))
    module = str(import_path).partition(":")[0]
    for known, kind in _BY_MODULE.items():
        if module == known or module.startswith(known + "."):
            return kind
    return "host"


def describe(agent: dict[str, Any]) -> str:
    """Returns how messages name an agent."""
    return str(agent.get("name") or agent.get("kwargs", {}).get("entry") or agent.get("import_path") or "?")


def refusal(operator: str, need: Need, kind: AgentKind, agent: str) -> str | None:
    """Returns why an operator with this need cannot act on an agent of this kind, or None if it can."""
    if need in _OFFERS[kind]:
        return None
    return f"operator {operator} cannot act on agent {agent}: {_REASONS[kind]} (it acts on {APPLIES_TO[need]})"
