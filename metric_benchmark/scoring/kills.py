# SPDX-License-Identifier: Apache-2.0
"""Kill rules: from valid rewards of baseline and mutant to killed, survived or undetermined, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metric_benchmark.config.models import ScoringConfig
from metric_benchmark.multiplicity import P_TOLERANCE, adjust_bh
from metric_benchmark.records.scores import (
    Eligibility,
    KillRule,
    MutantKills,
    MutantRole,
    Outcome,
    SuiteTest,
    TaskKill,
)
from metric_benchmark.scoring.design import check_design, min_valid_attempts
from metric_benchmark.scoring.eligibility import REWARD_TOLERANCE, passed
from metric_benchmark.scoring.exact import attempt_permutation_p, boschloo_p, fisher_p
from metric_benchmark.scoring.stratified import cmh_test

Rewards = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class _Cell:
    """Valid rewards of one task on both sides."""

    baseline: Sequence[float]
    mutant: Sequence[float]
    pass_reward: float

    @property
    def n_baseline_passed(self) -> int:
        return sum(passed(reward, self.pass_reward) for reward in self.baseline)

    @property
    def n_mutant_passed(self) -> int:
        return sum(passed(reward, self.pass_reward) for reward in self.mutant)

    @property
    def is_binary(self) -> bool:
        return all(reward in (0.0, 1.0) for reward in (*self.baseline, *self.mutant))

    def kill(self, outcome: Outcome, **more: object) -> TaskKill:
        return TaskKill.model_validate(
            {
                "outcome": outcome,
                "n_baseline": len(self.baseline),
                "n_mutant": len(self.mutant),
                "n_baseline_passed": self.n_baseline_passed,
                "n_mutant_passed": self.n_mutant_passed,
                "mean_baseline": _mean(self.baseline),
                "mean_mutant": _mean(self.mutant),
                **more,
            }
        )


def score_mutant(
    settings: ScoringConfig,
    eligibility: Eligibility,
    baseline: Rewards,
    mutant: Rewards,
    *,
    variant: str,
    role: MutantRole = "mutant",
    operator: str | None = None,
) -> MutantKills:
    """Decides for every eligible task whether it kills the mutant (or control).

    Args:
        settings: kill rule, least valid attempts, pass reward.
        eligibility: from `assess_eligibility`; only its eligible tasks are tested.
        baseline: rewards of the baseline's *valid* attempts by task. An attempt the agent failed by its own
            error is a reward of 0; an attempt without a verdict is left out, and an absent task has none.
        mutant: the same of the mutant or control.
        variant: id of the mutant or control.
        role: `mutant` or `control`.
        operator: what made the mutant, for the record.

    Returns:
        the record, with every eligible task in `tasks`. Under `exact` p-values are adjusted by
        Benjamini-Hochberg over all tested tasks of this mutant, once; subsets never change them.
    """
    least = min_valid_attempts(settings)
    cells = {
        task: _Cell(tuple(baseline.get(task, ())), tuple(mutant.get(task, ())), settings.pass_reward)
        for task in eligibility.eligible_tasks
    }
    tested = {task: cell for task, cell in cells.items() if min(len(cell.baseline), len(cell.mutant)) >= least}
    kills = {
        task: cell.kill(
            "undetermined",
            reason=(
                f"{len(cell.baseline)} valid baseline and {len(cell.mutant)} valid mutant attempts, "
                f"{least} of each needed"
            ),
        )
        for task, cell in cells.items()
        if task not in tested
    }
    kills |= _apply_rule(settings, tested)
    killed_by = [task for task in cells if kills[task].outcome == "killed"]
    undetermined = [task for task in cells if task not in tested]
    return MutantKills(
        variant=variant,
        role=role,
        operator=operator,
        rule=describe_rule(settings),
        status="killed" if killed_by else "undetermined" if undetermined else "survived",
        killed_by=killed_by,
        undetermined_tasks=undetermined,
        tested_tasks=list(tested),
        tasks={task: kills[task] for task in cells},
        suite_test=_suite_test(settings, tested),
        warnings=_warnings(settings, tested),
    )


def describe_rule(settings: ScoringConfig) -> KillRule:
    """Returns the kill rule as the records hold it."""
    rule = settings.kill_rule
    return KillRule(
        name=rule.name,
        test=rule.test if rule.name == "exact" else None,
        alpha=rule.alpha if rule.name == "exact" else None,
        drop=rule.drop,
        min_valid_attempts=min_valid_attempts(settings),
        pass_reward=settings.pass_reward,
        is_controlled=rule.name == "exact",
    )


def _apply_rule(settings: ScoringConfig, cells: Mapping[str, _Cell]) -> dict[str, TaskKill]:
    rule = settings.kill_rule
    if rule.name == "exact":
        return _exact(cells, rule.test, rule.alpha)
    if rule.name == "threshold":
        drop = (rule.drop or 0.0) - REWARD_TOLERANCE
        return {task: cell.kill("killed" if _drop(cell) >= drop else "survived") for task, cell in cells.items()}
    return {task: _deterministic(cell) for task, cell in cells.items()}


def _deterministic(cell: _Cell) -> TaskKill:
    if cell.n_baseline_passed < len(cell.baseline):
        reason = "the baseline failed here itself, so a failure of the mutant says nothing"
        return cell.kill("survived", reason=reason)
    return cell.kill("killed" if cell.n_mutant_passed < len(cell.mutant) else "survived")


def _exact(cells: Mapping[str, _Cell], test: str, alpha: float) -> dict[str, TaskKill]:
    tests = {task: _p_value(cell, test) for task, cell in cells.items()}
    adjusted = adjust_bh([p for _, p in tests.values()])
    return {
        task: cells[task].kill(
            "killed" if q <= alpha + P_TOLERANCE else "survived", p_value=p, p_adjusted=float(q), test=name
        )
        for (task, (name, p)), q in zip(tests.items(), adjusted, strict=True)
    }


def _p_value(cell: _Cell, test: str) -> tuple[str, float]:
    if not cell.is_binary:
        return "attempt_permutation", attempt_permutation_p(cell.baseline, cell.mutant)
    table_p = boschloo_p if test == "boschloo" else fisher_p
    a, b = round(sum(cell.baseline)), round(sum(cell.mutant))
    return test, table_p(a, len(cell.baseline), b, len(cell.mutant))


def _suite_test(settings: ScoringConfig, cells: Mapping[str, _Cell]) -> SuiteTest | None:
    if settings.kill_rule.name != "exact":
        return None
    found = cmh_test(
        [
            (cell.n_baseline_passed, len(cell.baseline), cell.n_mutant_passed, len(cell.mutant))
            for cell in cells.values()
        ]
    )
    return found and SuiteTest(z=found.z, p_value=found.p_value, n_tasks=len(cells))


def _warnings(settings: ScoringConfig, cells: Mapping[str, _Cell]) -> list[str]:
    if not cells:
        return ["no task has enough valid attempts: nothing is known about this variant"]
    # The best-off task decides: the design is refused only where even that task could not kill.
    check = min(
        (
            check_design(settings, n_baseline=n0, n_mutant=n, n_tasks=len(cells))
            for n0, n in {(len(cell.baseline), len(cell.mutant)) for cell in cells.values()}
        ),
        key=lambda found: found.p_min or 0.0,
    )
    return [text for text in (check.refusal, check.warning) if text]


def _mean(rewards: Sequence[float]) -> float | None:
    return sum(rewards) / len(rewards) if rewards else None


def _drop(cell: _Cell) -> float:
    return sum(cell.baseline) / len(cell.baseline) - sum(cell.mutant) / len(cell.mutant)
