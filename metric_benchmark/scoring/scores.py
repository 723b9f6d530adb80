# SPDX-License-Identifier: Apache-2.0
"""Mutant scores: from the kill matrix to each subset's score with bounds, and to what the controls say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.multiplicity import P_TOLERANCE
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.scores import (
    ControlNoise,
    Eligibility,
    KillRule,
    MutantKills,
    MutantScores,
    MutantStatus,
    SubsetScore,
)
from metric_benchmark.scoring.controls import assess_noise
from metric_benchmark.scoring.dominators import MutantStructure, find_structure

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def score_case(
    eligibility: Eligibility,
    kills: Sequence[MutantKills],
    subsets: Mapping[str, Sequence[str]],
) -> MutantScores:
    """Scores every subset of a case.

    Args:
        eligibility: from `assess_eligibility`, the same that the kills were decided with.
        kills: one record per mutant and control, in the case's order; controls never enter a score.
        subsets: task ids by subset. A subset counts with its eligible tasks only; one without any is dropped.

    Raises:
        ConfigError: there is no mutant, or a subset names no task of the case.
        EvidenceError: the records were not made with one kill rule and these eligible tasks, or no subset is
            left.
    """
    mutants = [record for record in kills if record.role == "mutant"]
    controls = [record for record in kills if record.role == "control"]
    tasks = eligibility.eligible_tasks
    rule = _one_rule(mutants, controls, tasks)
    members, dropped = _restrict(subsets, eligibility)
    membership = _membership(members, tasks)
    killed, undetermined = _matrix(mutants, tasks, "killed"), _matrix(mutants, tasks, "undetermined")
    structure = find_structure(killed)
    noise = _noise(membership, controls, tasks, rule)
    statuses = {record.variant: _status(i, record, structure, mutants) for i, record in enumerate(mutants)}
    return MutantScores(
        eligible_tasks=list(tasks),
        eligibility=eligibility,
        rule=rule,
        mutants=statuses,
        controls={record.variant: _status(None, record, None, controls) for record in controls},
        subsets=_scores(members, membership, mutants, killed, undetermined, structure, subsets, tasks),
        dropped_subsets=dropped,
        n_mutants=len(mutants),
        n_dominators=int(structure.is_dominator.sum()),
        n_undetermined=sum(record.status == "undetermined" for record in mutants),
        never_killed=[record.variant for record in mutants if not record.killed_by],
        trivial=[name for name, status in statuses.items() if status.is_trivial],
        duplicate_groups=_groups(mutants, structure),
        noise=noise,
        notes=_notes(rule),
        warnings=_warnings(mutants, controls, rule),
    )


def _one_rule(mutants: list[MutantKills], controls: list[MutantKills], tasks: list[str]) -> KillRule:
    if not mutants:
        raise ConfigError(
            "mutant score: the case has no mutant, so there is nothing to detect; add mutants to case.yaml"
        )
    for record in (*mutants, *controls):
        if record.rule != mutants[0].rule:
            raise EvidenceError(
                f"variant {record.variant!r} was scored by another kill rule than {mutants[0].variant!r}; "
                "run `score` again"
            )
        if set(record.tasks) != set(tasks):
            raise EvidenceError(
                f"variant {record.variant!r} was scored on other tasks than are eligible now; run `score` again"
            )
    return mutants[0].rule


def _restrict(
    subsets: Mapping[str, Sequence[str]], eligibility: Eligibility
) -> tuple[dict[str, list[str]], dict[str, str]]:
    eligible, known = set(eligibility.eligible_tasks), set(eligibility.ineligible)
    members: dict[str, list[str]] = {}
    dropped: dict[str, str] = {}
    for name, tasks in subsets.items():
        unknown = [task for task in tasks if task not in eligible and task not in known]
        if unknown:
            raise ConfigError(
                f"subset {name!r} names {', '.join(map(repr, unknown))}, not a task of the case; correct subsets.yaml"
            )
        left = [task for task in tasks if task in eligible]
        if left:
            members[name] = left
        else:
            dropped[name] = f"none of its {len(tasks)} tasks is eligible"
    if not members:
        raise EvidenceError("mutant score: no subset has an eligible task; see `eligibility` for the reasons")
    return members, dropped


def _membership(members: Mapping[str, Sequence[str]], tasks: Sequence[str]) -> Bools:
    column = {task: i for i, task in enumerate(tasks)}
    matrix = np.zeros((len(members), len(tasks)), dtype=bool)
    for row, names in enumerate(members.values()):
        matrix[row, [column[name] for name in names]] = True
    return matrix


def _matrix(records: Sequence[MutantKills], tasks: Sequence[str], outcome: str) -> Bools:
    cells = [[record.tasks[task].outcome == outcome for record in records] for task in tasks]
    return np.array(cells, dtype=bool).reshape(len(tasks), len(records))


def _scores(
    members: Mapping[str, Sequence[str]],
    membership: Bools,
    mutants: Sequence[MutantKills],
    killed: Bools,
    undetermined: Bools,
    structure: MutantStructure,
    subsets: Mapping[str, Sequence[str]],
    tasks: Sequence[str],
) -> dict[str, SubsetScore]:
    detected = _any(membership, killed)
    possible = detected | _any(membership, undetermined)
    holm = _detected_holm(membership, mutants, tasks)
    names = np.array([record.variant for record in mutants], dtype=object)
    n_mutants, eligible = len(mutants), set(tasks)
    scores: dict[str, SubsetScore] = {}
    for row, name in enumerate(members):
        score = int(detected[row].sum()) / n_mutants
        scores[name] = SubsetScore(
            size=int(membership[row].sum()),
            detected=list(names[detected[row]]),
            score=score,
            score_low=score,
            score_high=int(possible[row].sum()) / n_mutants,
            score_killable=_share(detected[row], ~structure.is_never_killed, "no_mutant_was_killed"),
            score_dominators=_share(detected[row], structure.is_dominator, "no_dominators"),
            detected_holm=None if holm is None else list(names[holm[row]]),
            ineligible_tasks=[task for task in subsets[name] if task not in eligible],
        )
    return scores


def _any(membership: Bools, cells: Bools) -> Bools:
    return (membership.astype(np.float32) @ cells.astype(np.float32)) > 0.5


def _share(detected: Bools, counted: Bools, reason: str) -> float | Undefined:
    total = int(counted.sum())
    return int((detected & counted).sum()) / total if total else Undefined(reason=reason)


def _detected_holm(membership: Bools, mutants: Sequence[MutantKills], tasks: Sequence[str]) -> Bools | None:
    """Holm within a subset rejects some task iff the smallest p is at most alpha / number of tested tasks."""
    alpha = mutants[0].rule.alpha
    if alpha is None:
        return None
    held = np.zeros((len(membership), len(mutants)), dtype=bool)
    for column, record in enumerate(mutants):
        cells = [record.tasks[task].p_value for task in tasks]
        tested = np.array([p is not None for p in cells])
        p = np.array([1.0 if value is None else value for value in cells])
        n_tested = np.maximum((membership & tested).sum(axis=1), 1)
        lowest = np.where(membership & tested, p, 1.0).min(axis=1)
        held[:, column] = lowest <= alpha / n_tested + P_TOLERANCE
    return held


def _status(
    index: int | None, record: MutantKills, structure: MutantStructure | None, records: Sequence[MutantKills]
) -> MutantStatus:
    flags: dict[str, object] = {"is_never_killed": not record.killed_by}
    if index is not None and structure is not None:
        twin = int(structure.duplicate_of[index])
        flags |= {
            "is_trivial": bool(structure.is_trivial[index]),
            "is_dominator": bool(structure.is_dominator[index]),
            "duplicate_of": records[twin].variant if twin >= 0 else None,
        }
    return MutantStatus.model_validate(
        {
            "status": record.status,
            "killed_by": record.killed_by,
            "undetermined_tasks": record.undetermined_tasks,
            "operator": record.operator,
            "is_inert": record.is_inert,
            "effect": record.effect,
            **flags,
        }
    )


def _groups(mutants: Sequence[MutantKills], structure: MutantStructure) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for index, first in enumerate(structure.duplicate_of):
        if first >= 0:
            groups.setdefault(int(first), [mutants[int(first)].variant]).append(mutants[index].variant)
    return list(groups.values())


def _noise(membership: Bools, controls: Sequence[MutantKills], tasks: Sequence[str], rule: KillRule) -> ControlNoise:
    known = [record for record in controls if record.tested_tasks]
    return assess_noise(membership, membership.sum(axis=1), _matrix(known, tasks, "killed"), alpha=rule.alpha)


def _notes(rule: KillRule) -> list[str]:
    if rule.name != "exact":
        return []
    return [
        f"the rule `exact` keeps the share of false kills of a mutant at {rule.alpha:g} or below. Where one breaks "
        "many tasks, an unaffected one is falsely killed more often, which controls cannot reveal; the claim that a "
        "subset detects a mutant holds for `detected_holm`"
    ]


def _warnings(mutants: list[MutantKills], controls: list[MutantKills], rule: KillRule) -> list[str]:
    warnings = sorted({text for record in (*mutants, *controls) for text in record.warnings})
    if rule.name == "deterministic":
        warnings += [
            f"control {record.variant!r} was killed by {', '.join(record.killed_by)}: the agent is not "
            "deterministic, so kills "
            "may be noise; use the rule `exact` with more attempts"
            for record in controls
            if record.killed_by
        ]
    if not rule.is_controlled and rule.name == "threshold":
        warnings.append("the rule `threshold` does not control false kills")
    return warnings
