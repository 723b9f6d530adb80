# SPDX-License-Identifier: Apache-2.0
"""Writes mutants into a case file: checked against the catalogue and the baseline, layout kept, pins set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from metric_benchmark.config import YamlSource, parse_model, read_yaml
from metric_benchmark.config.models import BaselineConfig, CaseConfig, CasesConfig, ExperimentConfig, OperatorSpec
from metric_benchmark.config.mutant_entries import append_mutants
from metric_benchmark.config.yaml_source import parse_yaml
from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.mutants.catalog import check_operator
from metric_benchmark.pins import replace_text, set_pins
from metric_benchmark.variants import harbor_agent

_MOST_ID = 60


class WrittenOperator(OperatorSpec):
    """An operator as it is written outside a case file: beside it may stand the id of its mutant."""

    id: str | None = None


@dataclass(frozen=True)
class NewMutant:
    """A mutant to be made by an operator of the catalogue; without an id it gets one that says what it is."""

    operator: str
    params: Mapping[str, Any]
    seed: int = 0
    id: str | None = None


@dataclass(frozen=True)
class Mutated:
    """What `add_mutants` came to.

    Attributes:
        case: the case file.
        mutants: id and operator of each new mutant.
        before: the file's text as it was.
        after: its text with the mutants.
        signed_in: the cases files whose pin of the case was renewed.
        unsigned: why a pin was not renewed.
    """

    case: Path
    mutants: tuple[tuple[str, OperatorSpec], ...]
    before: str
    after: str
    signed_in: tuple[Path, ...] = ()
    unsigned: str | None = None


def add_mutants(case_file: Path, new: Sequence[NewMutant], *, dry_run: bool = False) -> Mutated:
    """Adds mutants of the inherited baseline to a case file, and renews its pin in the experiment it belongs to.

    Args:
        case_file: the `case.yaml`.
        new: the mutants, in the order they shall stand.
        dry_run: only say what would be written.

    Raises:
        ConfigError: with all that is wrong with the case, an operator, its parameters, or an id.
        StorageError: a file cannot be written.
    """
    source = read_yaml(case_file)
    before = case_file.read_bytes().decode("utf-8")
    listed: Any = source.value.get("mutants")
    if not isinstance(listed, list | None):
        raise ConfigError(source.problem(("mutants",), "expected a list"))
    known: list[Any] = [entry.get("id") if isinstance(entry, dict) else None for entry in listed or ()]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    problems = [problem for mutant in new for problem in _external(mutant)]
    mutants = _named(new, [name for name in known if isinstance(name, str)])
    after = append_mutants(before, [(name, operator) for name, operator in mutants if not operator.is_external])
    edited = parse_yaml(case_file, after.encode("utf-8"), source.shown)
    _require_nothing_else_changed(source, edited, len(known))
    try:
        parse_model(edited, CaseConfig)
    except ConfigError as error:
        problems += error.problems
    problems += _refusals(edited, case_file.parent, mutants)
    if problems:
        raise ConfigError(problems)
    if dry_run:
        return Mutated(case_file, mutants, before, after)
    replace_text(case_file, after)
    signed_in, unsigned = _renew_pins(case_file, source.sha256, edited.sha256)
    return Mutated(case_file, mutants, before, after, signed_in, unsigned)


def _external(mutant: NewMutant) -> list[Problem]:
    if not mutant.operator.startswith("external/"):
        return []
    message = (
        "only names the fault of a mutant that brings its own agent; write that mutant into the case file yourself"
    )
    return [Problem(f"operator {mutant.operator}", message)]


def _refusals(edited: YamlSource, folder: Path, mutants: Iterable[tuple[str, OperatorSpec]]) -> list[Problem]:
    """Returns why operators cannot make their mutants; nothing where the baseline itself is wrong: others say so."""
    try:
        baseline = BaselineConfig.model_validate(edited.value.get("baseline"))
    except ValidationError:
        return []
    agent = harbor_agent(baseline.agent, folder)
    return [
        Problem(f"mutant {name}", message)
        for name, operator in mutants
        if not operator.is_external
        for message in check_operator(operator.name, operator.params, agent)
    ]


def _named(new: Sequence[NewMutant], known: Sequence[str]) -> tuple[tuple[str, OperatorSpec], ...]:
    taken = {*known, *(mutant.id for mutant in new if mutant.id)}
    named: list[tuple[str, OperatorSpec]] = []
    for mutant in new:
        name = mutant.id or _free(_described(mutant), taken)
        taken.add(name)
        named.append((name, OperatorSpec(name=mutant.operator, params=dict(mutant.params), seed=mutant.seed)))
    return tuple(named)


def _described(mutant: NewMutant) -> str:
    """Returns an id that says what a mutant is, e.g. `action-budget-2` or `tool-removal-grep`."""
    parts = [mutant.operator, *map(str, _scalars(list(mutant.params.values())))]
    parts += [f"seed-{mutant.seed}"] if mutant.seed else []
    slug = re.sub(r"[^a-z0-9.]+", "-", "-".join(parts).lower()).strip("-.")
    return slug[:_MOST_ID].rstrip("-.") or "mutant"


def _scalars(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for child in value for leaf in _scalars(child)]  # pyright: ignore[reportUnknownVariableType]
    return [] if isinstance(value, dict) else [value]


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _require_nothing_else_changed(before: YamlSource, after: YamlSource, n_known: int) -> None:
    """Checks the edit by what the two texts mean: the same case, with more mutants at the end of its list."""
    old: dict[str, Any] = {**before.value, "mutants": before.value.get("mutants") or []}
    new: dict[str, Any] = {**after.value, "mutants": after.value["mutants"][:n_known]}
    if old != new:
        raise ConfigError(
            before.problem(
                ("mutants",),
                "the list is written in a way that cannot be added to without touching the rest; write it as a block, "
                "one `- id:` a line",
            )
        )


def _renew_pins(case_file: Path, old: str, new: str) -> tuple[tuple[Path, ...], str | None]:
    """Renews the pins of a case where they held; one that was out of date stands for a change nobody has accepted yet.

    Returns:
        The cases files with a renewed pin, and why there is none or another was left as it is.
    """
    renewed: list[Path] = []
    left: str | None = None
    for source, index, pinned in _pins_of(case_file.resolve()):
        if pinned != old:
            why = "did not hold before" if pinned else "is not set"
            left = f"the pin of the case in {source.path} {why}"
            continue
        text = source.path.read_bytes().decode("utf-8")
        replace_text(source.path, set_pins(text, [(("cases", index), new)]))
        renewed.append(source.path)
    if not renewed and left is None:
        left = "no experiment.yaml beside or above the case names it"
    return tuple(renewed), left


def _pins_of(case_file: Path) -> Iterable[tuple[YamlSource, int, str | None]]:
    """Yields where the nearest experiments above a case pin it."""
    for folder in case_file.parents:
        if not (folder / "experiment.yaml").is_file():
            continue
        try:
            experiment = parse_model(read_yaml(folder / "experiment.yaml"), ExperimentConfig)
            source = read_yaml((folder / experiment.cases).resolve())
            cases = parse_model(source, CasesConfig)
        except ConfigError:
            continue
        for index, pinned in enumerate(cases.cases):
            if (source.path.parent / pinned.path).resolve() == case_file:
                yield source, index, pinned.sha256
