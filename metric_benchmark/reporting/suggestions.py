# SPDX-License-Identifier: Apache-2.0
"""What a team can do next, read off the records: tasks worth their cost, redundant ones, gaps in tests and coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from metric_benchmark.records.scores import MutantScores
from metric_benchmark.reporting.data import CaseReport
from metric_benchmark.reporting.numbers import kill_matrix

type Kind = Literal["keep", "redundant", "untested", "inert", "unexercised", "undetermined", "unreliable", "diffuse"]

#: A fault that no task shows but the suite as a whole does is worth a remark below this p-value.
_DIFFUSE_P = 0.01


@dataclass(frozen=True)
class TaskValue:
    """What one eligible task is worth for catching this case's mutants.

    Attributes:
        task: its id.
        kills: mutants it kills.
        alone: mutants no other task kills.
        rank: its place when tasks are taken greedily by new kills per cost, from 1; None where it adds none.
        new_kills: mutants it adds at that place.
        cost: mean over the baseline's attempts, in `CostUnit`.
        cumulative_kills: mutants killed by all tasks up to that place.
        cumulative_cost: their cost.
    """

    task: str
    kills: tuple[str, ...]
    alone: tuple[str, ...]
    rank: int | None
    new_kills: tuple[str, ...]
    cost: float
    cumulative_kills: int | None
    cumulative_cost: float | None

    @property
    def is_redundant(self) -> bool:
        """Whether the suite loses no kill without it."""
        return not self.alone


@dataclass(frozen=True)
class TaskValues:
    """All tasks of a case, those that add kills first; `unit` is `USD`, `s` or `tasks`."""

    unit: Literal["USD", "s", "tasks"]
    tasks: tuple[TaskValue, ...]

    @property
    def useful(self) -> tuple[TaskValue, ...]:
        """Tasks that add kills, in the order they are worth running."""
        return tuple(task for task in self.tasks if task.rank is not None)


@dataclass(frozen=True)
class Suggestion:
    """One thing to do: what was found, what to do about it, and about what (task, mutant or item names)."""

    kind: Kind
    found: str
    advice: str
    subjects: tuple[str, ...]


def value_tasks(case: CaseReport) -> TaskValues:
    """Ranks a case's tasks by the kills they add per cost, greedily; ties go to the case's order."""
    if case.scores is None:
        return TaskValues("tasks", ())
    scores = case.scores
    killed, _ = kill_matrix(scores)
    names = list(scores.mutants)
    unit, costs = _costs(case, scores)
    open_mutants = killed.any(axis=0)
    ranked: dict[int, tuple[int, tuple[str, ...], int, float]] = {}
    n_killed, spent = 0, 0.0
    while open_mutants.any():
        gain = (killed & open_mutants).sum(axis=1) / np.array(costs)
        best = int(np.argmax(gain))
        new = np.flatnonzero(killed[best] & open_mutants)
        n_killed, spent = n_killed + len(new), spent + costs[best]
        ranked[best] = (len(ranked) + 1, tuple(names[i] for i in new), n_killed, spent)
        open_mutants &= ~killed[best]
    only = killed & (killed.sum(axis=0) == 1)
    rest = sorted((i for i in range(len(killed)) if i not in ranked), key=lambda i: -int(killed[i].sum()))
    tasks: list[TaskValue] = []
    for i in [*ranked, *rest]:
        rank, new_kills, total, cost = ranked.get(i, (None, (), None, None))
        tasks.append(
            TaskValue(
                task=scores.eligible_tasks[i],
                kills=tuple(names[j] for j in np.flatnonzero(killed[i])),
                alone=tuple(names[j] for j in np.flatnonzero(only[i])),
                rank=rank, new_kills=new_kills, cost=costs[i], cumulative_kills=total, cumulative_cost=cost,
            )
        )  # fmt: skip
    return TaskValues(unit, tuple(tasks))


def suggest(case: CaseReport) -> list[Suggestion]:
    """Returns what can be done about a case, most useful first; nothing before its mutants are scored."""
    if case.scores is None:
        return []
    found = [*_tests(case, case.scores), *_tasks(case, case.scores), *_items(case)]
    return [suggestion for suggestion in found if suggestion.subjects]


def _tests(case: CaseReport, scores: MutantScores) -> list[Suggestion]:
    inert = tuple(name for name, mutant in scores.mutants.items() if mutant.is_inert)
    survivors = {
        name: m
        for name, m in scores.mutants.items()
        # No task can notice what changes nothing.
        if m.is_never_killed and m.status == "survived" and name not in inert
    }
    by_operator: dict[str, list[str]] = {}
    for name, mutant in survivors.items():
        by_operator.setdefault(mutant.operator or "an unnamed fault", []).append(name)
    found = [
        Suggestion(
            "untested",
            f"No task notices {operator} ({_count(len(names), 'mutant')}).",
            f"Write a task that an agent with this fault fails: its answer must depend on what {operator} takes away.",
            tuple(names),
        )
        for operator, names in sorted(by_operator.items(), key=lambda item: -len(item[1]))
    ]
    found.append(
        Suggestion(
            "inert",
            f"{_count(len(inert), 'mutant')} never did anything the baseline did not do.",
            "Choose other parameters, or tasks on which the fault can show; until then they only lower every score.",
            inert,
        )
    )
    diffuse = [
        name
        for name in survivors
        if (kills := case.kills.get(name)) and kills.suite_test and kills.suite_test.p_value < _DIFFUSE_P
    ]
    found.append(
        Suggestion(
            "diffuse",
            f"The suite as a whole does worse with {_count(len(diffuse), 'mutant')}, but no single task shows it.",
            "Raise the attempts: a small loss everywhere needs more of them to be pinned to a task.",
            tuple(diffuse),
        )
    )
    open_mutants = [name for name, mutant in scores.mutants.items() if mutant.undetermined_tasks]
    found.append(
        Suggestion(
            "undetermined",
            f"{_count(len(open_mutants), 'mutant')} could not be compared on every task.",
            "Run the evals again: trials without a verdict are repeated, the others are kept.",
            tuple(open_mutants),
        )
    )
    return found


def _tasks(case: CaseReport, scores: MutantScores) -> list[Suggestion]:
    values = value_tasks(case)
    useful = values.useful
    total = sum(task.cost for task in values.tasks)
    found: list[Suggestion] = []
    if useful and useful[-1].cumulative_cost is not None:
        cost = f"{_amount(useful[-1].cumulative_cost, values.unit)} of {_amount(total, values.unit)} a run"
        found.append(
            Suggestion(
                "keep",
                f"{_count(len(useful), 'task')} in this order kill all {useful[-1].cumulative_kills} mutants that the "
                f"whole suite of {len(values.tasks)} kills, for {cost}.",
                "Run these first, or on every change, and the rest less often.",
                tuple(task.task for task in useful),
            )
        )
    redundant = tuple(task.task for task in values.tasks if task.is_redundant and task.rank is None)
    found.append(
        Suggestion(
            "redundant",
            f"{_count(len(redundant), 'task')} add{'s' if len(redundant) == 1 else ''} no kill to those above.",
            "They are candidates to drop or to make harder, as far as these mutants tell; a fault nobody thought of "
            "may still need them.",
            redundant,
        )
    )
    found.append(
        Suggestion(
            "unreliable",
            f"{_count(len(scores.eligibility.ineligible), 'task')} could not be used: the unchanged agent is not "
            "reliable on them.",
            "Fix the task or the agent; a task that fails by itself cannot tell a faulty agent from a good one.",
            tuple(scores.eligibility.ineligible),
        )
    )
    return found


def _items(case: CaseReport) -> list[Suggestion]:
    found: list[Suggestion] = []
    for name, metric in (case.coverage.metrics if case.coverage else {}).items():
        seen = {item for items in metric.tasks.values() for item in items}
        missing = tuple(item for item in metric.items if item not in seen)
        if metric.kind == "items" and not metric.label:
            found.append(
                Suggestion(
                    "unexercised",
                    f"{_count(len(missing), 'item')} of {len(metric.items)} in {name} are never exercised.",
                    "Add a task that needs them, or take them out of the metric's universe.",
                    missing,
                )
            )
    return found


def _costs(case: CaseReport, scores: MutantScores) -> tuple[Literal["USD", "s", "tasks"], list[float]]:
    """Returns the cost of a task: money where every task has some, else time, else each task counts 1."""
    baseline = case.results.get("baseline")
    money: dict[str, list[float]] = {}
    time: dict[str, list[float]] = {}
    for trial in baseline.trials if baseline else ():
        if trial.counts and trial.cost_usd:
            money.setdefault(trial.task, []).append(trial.cost_usd)
        if trial.counts and trial.duration_s:
            time.setdefault(trial.task, []).append(trial.duration_s)
    if _knows_all(money, scores):
        return "USD", [float(np.mean(money[task])) for task in scores.eligible_tasks]
    if _knows_all(time, scores):
        return "s", [float(np.mean(time[task])) for task in scores.eligible_tasks]
    return "tasks", [1.0] * len(scores.eligible_tasks)


def _knows_all(found: Mapping[str, object], scores: MutantScores) -> bool:
    return all(task in found for task in scores.eligible_tasks)


def _amount(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
