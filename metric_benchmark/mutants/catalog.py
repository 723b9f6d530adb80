# SPDX-License-Identifier: Apache-2.0
"""The catalogue of mutation operators: what there is, what is a sound request, which code counts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from metric_benchmark.errors import ConfigError
from metric_benchmark.keys import MUTANT_AGENT
from metric_benchmark.mutants.applicability import APPLIES_TO, agent_kind, describe, refusal
from metric_benchmark.mutants.operator import Family, Operator, Params
from metric_benchmark.mutants.operators.action_budget import ActionBudget
from metric_benchmark.mutants.operators.dropped_instruction import DroppedInstruction
from metric_benchmark.mutants.operators.duplicated_action import DuplicatedAction
from metric_benchmark.mutants.operators.early_stop import EarlyStop
from metric_benchmark.mutants.operators.error_blindness import ErrorBlindness
from metric_benchmark.mutants.operators.memory_amnesia import MemoryAmnesia
from metric_benchmark.mutants.operators.memory_reset import MemoryReset
from metric_benchmark.mutants.operators.misread_number import MisreadNumber
from metric_benchmark.mutants.operators.observation_degradation import ObservationDegradation
from metric_benchmark.mutants.operators.shuffled_instruction import ShuffledInstruction
from metric_benchmark.mutants.operators.skipped_action import SkippedAction
from metric_benchmark.mutants.operators.stale_observation import StaleObservation
from metric_benchmark.mutants.operators.tool_error import ToolError
from metric_benchmark.mutants.operators.tool_removal import ToolRemoval
from metric_benchmark.mutants.operators.truncated_instruction import TruncatedInstruction
from metric_benchmark.mutants.operators.write_corruption import WriteCorruption

#: The code every mutated trial runs through: a change of it makes all mutants stale. (Not so the catalogue.)
_SHARED = (
    "mutants/agent.py",
    "mutants/environment.py",
    "mutants/operator.py",
    "mutants/oracle.py",
    "mutants/session.py",
)
_SENTENCES = "mutants/sentences.py"
_SHELL = "mutants/shell.py"
_SELECTION = ("mutants/selection.py", _SHELL)

#: Fields of a Harbor AgentConfig that say how the inner agent is built. All others concern the trial, and are
#: the mutant's as well.
_INNER_ONLY = frozenset(
    {
        "name",
        "import_path",
        "kwargs",
        "base_url",
        "model_api_key_name",
        "model_api_format",
        "skip_model_parsing",
    }
)


@dataclass(frozen=True)
class OperatorInfo:
    """What the catalogue says of an operator.

    Attributes:
        name: as in `operator: {name: ...}`.
        family: prompt, tools, observation, memory or control.
        fault: the fault model in one line.
        applies_to: the agents it can act on.
        params_model: the Pydantic model of its parameters.
        modules: files relative to `metric_benchmark/` whose code can change a trial's outcome.
        operator: the class that does it.
    """

    name: str
    family: Family
    fault: str
    applies_to: str
    params_model: type[Params]
    modules: tuple[str, ...]
    operator: type[Operator[Any]]


def _info(operator: type[Operator[Any]], *modules: str) -> OperatorInfo:
    own = f"mutants/operators/{operator.name}.py"
    return OperatorInfo(
        name=operator.name,
        family=operator.family,
        fault=operator.fault,
        applies_to=APPLIES_TO[operator.needs],
        params_model=operator.params_model,
        modules=tuple(sorted({own, *modules, *_SHARED})),
        operator=operator,
    )


_ALL = (
    _info(DroppedInstruction, _SENTENCES),
    _info(TruncatedInstruction, _SENTENCES),
    _info(ShuffledInstruction, _SENTENCES),
    _info(MisreadNumber),
    _info(ToolRemoval, _SHELL),
    _info(ToolError, *_SELECTION),
    _info(WriteCorruption, _SHELL),
    _info(ObservationDegradation),
    _info(StaleObservation),
    _info(ErrorBlindness),
    _info(MemoryAmnesia),
    _info(MemoryReset),
    _info(ActionBudget),
    _info(EarlyStop),
    _info(SkippedAction, *_SELECTION),
    _info(DuplicatedAction, *_SELECTION),
)

OPERATORS: Mapping[str, OperatorInfo] = MappingProxyType({info.name: info for info in _ALL})


def operator_info(name: str) -> OperatorInfo:
    """Returns an operator's entry.

    Raises:
        ConfigError: there is no operator of this name.
    """
    if name not in OPERATORS:
        raise ConfigError(_unknown(name))
    return OPERATORS[name]


def operator_modules(name: str) -> tuple[str, ...]:
    """Returns the files, relative to `metric_benchmark/`, whose code can change a trial under this operator.

    Raises:
        ConfigError: there is no operator of this name.
    """
    return operator_info(name).modules


def check_operator(name: str, params: Mapping[str, Any], agent: dict[str, Any]) -> list[str]:
    """Returns what is wrong with an operator for a resolved agent; nothing is imported to find out.

    Args:
        name: the operator's name.
        params: its parameters as in the case file.
        agent: the resolved agent it shall act on (a Harbor AgentConfig as JSON).
    """
    if name not in OPERATORS:
        return [_unknown(name)]
    info = OPERATORS[name]
    problems: list[str] = []
    try:
        info.params_model.model_validate(dict(params))
    except ValidationError as exc:
        problems += _problems(info, exc)
    reason = refusal(name, info.operator.needs, agent_kind(agent), describe(agent))
    return [*problems, reason] if reason else problems


def make_operator(name: str, params: Mapping[str, Any], seed: int = 0) -> Operator[Any]:
    """Makes an operator for one run.

    Raises:
        ConfigError: the name or a parameter is wrong.
    """
    info = operator_info(name)
    try:
        return info.operator(info.params_model.model_validate(dict(params)), seed)
    except ValidationError as exc:
        raise ConfigError(_problems(info, exc)) from exc


def mutant_agent(agent: dict[str, Any], *, label: str, operator: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the resolved agent of a mutant: `agent` under an operator, named `label` in Harbor's results.

    Args:
        agent: the inherited resolved agent.
        label: the variant's id.
        operator: `{name, params, seed}`.
    """
    return {
        **{key: value for key, value in agent.items() if key not in _INNER_ONLY},
        "import_path": MUTANT_AGENT,
        "kwargs": {"label": label, "operator": dict(operator), "agent": agent},
    }


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, OPERATORS, n=1)
    hint = f"did you mean {near[0]}?" if near else "write external/<label> for a mutant that brings its own agent."
    return f"operator {name} is unknown; {hint} Known are {', '.join(sorted(OPERATORS))}"


def _problems(info: OperatorInfo, error: ValidationError) -> list[str]:
    """Words what Pydantic found; of a parameter that may be one of several kinds it tells each kind by itself."""
    by_field: dict[str, list[Any]] = {}
    for item in error.errors(include_url=False):
        by_field.setdefault(str(item["loc"][0]) if item["loc"] else "", []).append(item)
    return [
        problem
        for name, items in by_field.items()
        for problem in ([_one_of(info, name, items)] if _are_kinds(items) else [_problem(info, item) for item in items])
    ]


def _are_kinds(items: list[Any]) -> bool:
    return len(items) > 1 and all(len(item["loc"]) == 2 and isinstance(item["loc"][1], str) for item in items)


def _one_of(info: OperatorInfo, name: str, items: list[Any]) -> str:
    kinds = [
        "a whole number" if item["type"].startswith("int_") else item.get("ctx", {}).get("expected", item["msg"])
        for item in items
    ]
    return f"operator {info.name}: params.{name}: expected {' or '.join(kinds)}, found {items[0]['input']!r}"


def _problem(info: OperatorInfo, error: Any) -> str:
    place = ".".join(["params", *map(str, error["loc"])])
    known = ", ".join(info.params_model.model_fields) or "none"
    match error["type"]:
        case "extra_forbidden":
            return f"operator {info.name}: {place} is unknown; its parameters are {known}"
        case "missing":
            return f"operator {info.name}: {place} is missing; its parameters are {known}"
        case _:
            return f"operator {info.name}: {place}: {error['msg']}, found {error['input']!r}"
