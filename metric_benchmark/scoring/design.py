# SPDX-License-Identifier: Apache-2.0
"""What a design can kill at all: the smallest p its attempts reach, against alpha and the number of tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from metric_benchmark.config.models import ScoringConfig
from metric_benchmark.errors import ConfigError
from metric_benchmark.multiplicity import P_TOLERANCE
from metric_benchmark.scoring.exact import smallest_p


@dataclass(frozen=True)
class DesignCheck:
    """What the kill rule can show with so many attempts and tasks.

    Attributes:
        p_min: the smallest p one task can reach; `None` under rules without p-values.
        n_tasks_together: how many tasks must fail together before any of them counts as a kill.
        max_tasks: the largest suite in which one failing task alone still counts.
        refusal: why the design cannot kill anything, or `None`.
        warning: what the design cannot see, or `None`.
    """

    p_min: float | None
    n_tasks_together: int
    max_tasks: int | None
    refusal: str | None = None
    warning: str | None = None


def check_design(settings: ScoringConfig, *, n_baseline: int, n_mutant: int, n_tasks: int) -> DesignCheck:
    """Checks a design before it is paid for.

    Args:
        settings: kill rule, alpha and the least number of valid attempts.
        n_baseline: baseline attempts per task.
        n_mutant: mutant attempts per task.
        n_tasks: tasks in the tested suite (Benjamini-Hochberg runs over all of them).
    """
    rule = settings.kill_rule
    least = min_valid_attempts(settings)
    if min(n_baseline, n_mutant) < least:
        return DesignCheck(
            p_min=None,
            n_tasks_together=n_tasks,
            max_tasks=None,
            refusal=(
                f"{n_baseline} baseline and {n_mutant} mutant attempts, but a cell needs {least} valid "
                "attempts of each: every cell would be undetermined; raise the attempts in execution.yaml or "
                "set `scoring.min_valid_attempts`"
            ),
        )
    if rule.name != "exact":
        warning = None
        if rule.name == "threshold":
            warning = (
                "the rule `threshold` does not control false kills; prefer `exact`, or `deterministic` "
                "without randomness"
            )
        return DesignCheck(p_min=None, n_tasks_together=1, max_tasks=None, warning=warning)
    p_min = smallest_p(rule.test, n_baseline, n_mutant)
    together = max(1, math.ceil(n_tasks * p_min / rule.alpha - P_TOLERANCE))
    max_tasks = math.floor(rule.alpha / p_min + P_TOLERANCE)
    attempts = f"{rule.test}: with {n_baseline} baseline and {n_mutant} mutant attempts the smallest p is {p_min:.3g}"
    if p_min > rule.alpha + P_TOLERANCE:
        return DesignCheck(
            p_min,
            together,
            max_tasks,
            refusal=(
                f"{attempts}, above alpha = {rule.alpha:g}: no task can ever kill a mutant; raise the "
                "attempts in execution.yaml"
            ),
        )
    if together > 1:
        return DesignCheck(
            p_min,
            together,
            max_tasks,
            warning=(
                f"{attempts}, above alpha / tasks = {rule.alpha:g}/{n_tasks}: a fault that shows in a "
                f"single task is invisible; {together} tasks must fail together (one is enough in suites of "
                f"at most {max_tasks} tasks)"
            ),
        )
    return DesignCheck(p_min, together, max_tasks)


def require_design(settings: ScoringConfig, *, n_baseline: int, n_mutant: int, n_tasks: int) -> DesignCheck:
    """Returns `check_design`, or refuses.

    Raises:
        ConfigError: the design cannot kill anything.
    """
    check = check_design(settings, n_baseline=n_baseline, n_mutant=n_mutant, n_tasks=n_tasks)
    if check.refusal:
        raise ConfigError(f"scoring.kill_rule: {check.refusal}")
    return check


def min_valid_attempts(settings: ScoringConfig) -> int:
    """Returns how many valid attempts a cell needs on each side: 2, or 1 under `deterministic`, unless "
    "configured."""
    if settings.min_valid_attempts is not None:
        return settings.min_valid_attempts
    return 1 if settings.kill_rule.name == "deterministic" else 2
