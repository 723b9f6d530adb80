# SPDX-License-Identifier: Apache-2.0
"""Resolves a case to its variants: role, attempts, the agent Harbor is given, trial keys and config hash."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.config import Case, Experiment
from metric_benchmark.config.models import AgentSpec, CaseConfig, MutantConfig, RolesConfig
from metric_benchmark.config.yaml_source import Location
from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.execution.environments import Environment, resolve_environment
from metric_benchmark.execution.runtimes import Runtime
from metric_benchmark.execution.variant import Task, Variant
from metric_benchmark.hashing import digest_json
from metric_benchmark.keys import BUNDLE_AGENT, config_hash, import_path_digest, modules_digest, trial_keys
from metric_benchmark.mutants.catalog import check_operator, mutant_agent, operator_modules
from metric_benchmark.records.execution import Role


def variant_roles(case: CaseConfig, roles: RolesConfig) -> dict[str, Role]:
    """Returns the variants of a case and their roles, in the order they run."""
    found: dict[str, Role] = {"baseline": "baseline"}
    if roles.screening is not None:
        found["screening"] = "screening"
    for number in range(roles.control.count if roles.control else 0):
        found[f"control-{number + 1}"] = "control"
    for mutant in case.mutants:
        found[mutant.id] = "mutant"
    return found


def resolve_variants(experiment: Experiment, *, case_id: str | None = None) -> tuple[Variant, ...]:
    """Resolves the variants of all cases, or of one.

    Raises:
        ConfigError: with every agent Harbor does not know and every operator that cannot act on its agent.
    """
    problems: list[Problem] = []
    variants: list[Variant] = []
    try:
        environment = resolve_environment(experiment.execution.environment)
    except ConfigError as error:
        problems += [
            experiment.execution_source.problem(("environment",), problem.message) for problem in error.problems
        ]
        environment = Environment("invalid", {}, {})
    for case in experiment.cases if case_id is None else (experiment.case(case_id),):
        variants += _case_variants(experiment, case, environment, problems)
    if problems:
        raise ConfigError(problems)
    return tuple(variants)


def _case_variants(
    experiment: Experiment, case: Case, environment: Environment, problems: list[Problem]
) -> Iterator[Variant]:
    settings = experiment.execution
    mutants = {mutant.id: (i, mutant) for i, mutant in enumerate(case.config.mutants)}
    tasks = tuple(Task(t.id, case.path_of(t), t.sha256 or "") for t in case.config.tasks)
    timeouts = {
        "agent": settings.timeouts.agent_multiplier,
        "verifier": settings.timeouts.verifier_multiplier,
        "setup": settings.timeouts.setup_multiplier,
    }
    task_digests = {task.id: task.sha256 for task in tasks}
    timeouts_sha256 = digest_json(timeouts)
    baseline = _Agent.resolve(case, ("baseline", "agent"), case.config.baseline.agent, problems)
    for variant_id, role in variant_roles(case.config, settings.roles).items():
        index, mutant = mutants.get(variant_id, (0, None))
        agent = baseline if mutant is None else _mutant_agent(case, index, mutant, baseline, problems)
        attempts = _attempts(settings.roles, role)
        if agent is None:
            continue
        keys = trial_keys(
            task_digests,
            agent=agent.identity,
            code_sha256=agent.code_sha256,
            environment=environment.identity,
            timeouts=timeouts,
            reward_key=settings.reward_key,
        )
        yield Variant(
            case_id=case.case_id,
            variant_id=variant_id,
            role=role,
            attempts=attempts,
            operator=mutant.operator.name if mutant else None,
            agent=agent.harbor,
            tasks=tasks,
            trial_keys=keys,
            config_hash=config_hash(keys, attempts),
            environment=environment,
            runtime=agent.runtime,
            parts={**agent.parts, "timeouts": timeouts_sha256},
        )


def _attempts(roles: RolesConfig, role: Role) -> int:
    settings = {
        "baseline": roles.baseline,
        "screening": roles.screening,
        "control": roles.control,
        "mutant": roles.mutant,
    }
    found = settings[role]
    assert found is not None
    return found.attempts


@dataclass(frozen=True)
class _Agent:
    """An agent as Harbor is given it, and as a trial key knows it."""

    harbor: Mapping[str, Any]
    identity: Mapping[str, Any]
    code_sha256: str
    runtime: Runtime | None = None
    operator: Mapping[str, Any] | None = None

    @property
    def parts(self) -> dict[str, str]:
        """Digests by which a reader is told what has changed."""
        agent = self.identity if self.operator is None else self.identity["agent"]
        operator = {} if self.operator is None else {"operator": digest_json(self.operator)}
        return {"agent": digest_json(agent), "code": self.code_sha256, **operator}

    @classmethod
    def resolve(cls, case: Case, location: Location, spec: AgentSpec, problems: list[Problem]) -> _Agent | None:
        harbor = harbor_agent(spec, case.folder)
        if spec.bundle is not None:
            # Where the bundle lies is no part of what it does.
            bundle = {key: value for key, value in harbor["kwargs"].items() if key != "bundle_dir"}
            identity = {"bundle": bundle, "model_name": harbor["model_name"], "env": harbor["env"]}
            runtime = _runtime(case, spec)
            if runtime is not None:
                identity["runtime"] = dict(runtime.identity)
            return cls(harbor, identity, spec.bundle.sha256 or "", runtime)
        if spec.import_path is not None:
            try:
                return cls(harbor, harbor, import_path_digest(spec.import_path))
            except ConfigError as error:
                problems.append(case.source.problem((*location, "import_path"), str(error)))
                return None
        unknown = unknown_agent(spec.name or "")
        if unknown:
            problems.append(case.source.problem((*location, "name"), unknown))
            return None
        return cls(harbor, harbor, "")


def _runtime(case: Case, spec: AgentSpec) -> Runtime | None:
    if spec.runtime is None:
        return None
    lock = spec.runtime.requirements
    return Runtime(spec.runtime.python, case.path_of(lock), lock.sha256 or "")


def harbor_agent(spec: AgentSpec, folder: Path) -> dict[str, Any]:
    """Returns the fields of Harbor's `AgentConfig` for an agent of a case file in `folder`."""
    shared: dict[str, Any] = {"model_name": spec.model_name, "env": dict(spec.env)}
    if spec.bundle is not None:
        kwargs = {
            "bundle_dir": str((folder / spec.bundle.path).resolve()),
            "bundle_sha256": spec.bundle.sha256 or "",
            "entry": spec.entry,
            "agent_kwargs": dict(spec.kwargs),
        }
        return {"import_path": BUNDLE_AGENT, "kwargs": kwargs, **shared}
    source = {"name": spec.name} if spec.import_path is None else {"import_path": spec.import_path}
    return {**source, "kwargs": dict(spec.kwargs), **shared}


def unknown_agent(name: str) -> str | None:
    """Explains why Harbor has no agent of this name; None when it has."""
    known = _harbor_agents()
    if name in known:
        return None
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of: {', '.join(known)}"
    return f"Harbor has no agent {name!r}; {hint}"


@functools.cache
def _harbor_agents() -> tuple[str, ...]:
    from harbor.models.agent.name import AgentName

    return tuple(sorted(AgentName.values()))


def _mutant_agent(
    case: Case, index: int, mutant: MutantConfig, baseline: _Agent | None, problems: list[Problem]
) -> _Agent | None:
    location: Location = ("mutants", index)
    if mutant.agent is not None:
        return _Agent.resolve(case, (*location, "agent"), mutant.agent, problems)
    if baseline is None:
        return None
    operator = mutant.operator.model_dump()
    found = check_operator(mutant.operator.name, mutant.operator.params, dict(baseline.harbor))
    if found:
        problems += [case.source.problem((*location, "operator"), message) for message in found]
        return None
    harbor = mutant_agent(dict(baseline.harbor), label=mutant.id, operator=operator)
    # The label is a name, not a behaviour: renaming a mutant runs nothing again within its folder.
    identity = {"operator": operator, "agent": dict(baseline.identity)}
    code = digest_json([baseline.code_sha256, modules_digest(operator_modules(mutant.operator.name))])
    return _Agent(harbor, identity, code, baseline.runtime, operator)
