# SPDX-License-Identifier: Apache-2.0
"""What an experiment will run: trials by case and role, what is kept of earlier evidence, and the most it can cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from metric_benchmark.cli.checks import Checked
from metric_benchmark.evidence.ledger import spent
from metric_benchmark.execution.variant import Variant
from metric_benchmark.experiment import changed_inputs
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.costs import count_lacking


@dataclass(frozen=True)
class RoleForecast:
    """The variants of one role of one case."""

    case: str
    role: str
    n_variants: int
    n_tasks: int
    attempts: int
    n_trials: int
    n_kept: int
    n_to_run: int


@dataclass(frozen=True)
class Forecast:
    """What `plan` shows.

    Attributes:
        changes: what was paid for and would be set aside.
        cost: the most the trials to run can cost, in words.
        cost_bound_usd: the same as a number; None without a bound per trial.
    """

    rows: tuple[RoleForecast, ...]
    environment: str
    cost_bound_usd: float | None
    cost: str
    changes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def n_trials(self) -> int:
        """How many trials the experiment asks for."""
        return sum(row.n_trials for row in self.rows)

    @property
    def n_to_run(self) -> int:
        """How many of them are still to run."""
        return sum(row.n_to_run for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "n_trials": self.n_trials,
            "n_to_run": self.n_to_run,
            "roles": [asdict(row) for row in self.rows],
            "environment": self.environment,
            "cost_bound_usd": self.cost_bound_usd,
            "changes": list(self.changes),
            "warnings": list(self.warnings),
        }


def forecast(run: ExperimentRun, checked: Checked, *, has_evidence: bool) -> Forecast:
    """Plans an experiment against the evidence that is there; writes nothing.

    Args:
        run: the experiment and its evidence root.
        checked: the experiment's variants and warnings.
        has_evidence: whether the root is one the user named.
    """
    rows = [
        _role(run, group, has_evidence=has_evidence)
        for case in run.experiment.cases
        for group in _by_role(checked.of(case.case_id))
    ]
    n_to_run = sum(row.n_to_run for row in rows)
    bound, cost = _cost(run, n_to_run)
    return Forecast(
        rows=tuple(rows),
        environment=checked.variants[0].environment.kind,
        cost_bound_usd=bound,
        cost=cost,
        changes=tuple(changed_inputs(run, checked.variants)) if has_evidence else (),
        warnings=(*checked.warnings, *_budget_warnings(run, n_to_run, has_evidence=has_evidence)),
    )


def _by_role(variants: Sequence[Variant]) -> list[list[Variant]]:
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(variant.role, []).append(variant)
    return list(groups.values())


def _role(run: ExperimentRun, group: list[Variant], *, has_evidence: bool) -> RoleForecast:
    to_run = sum(count_lacking(run, variant) if has_evidence else variant.n_trials for variant in group)
    n_trials = sum(variant.n_trials for variant in group)
    first = group[0]
    return RoleForecast(
        case=first.case_id,
        role=first.role,
        n_variants=len(group),
        n_tasks=len(first.tasks),
        attempts=first.attempts,
        n_trials=n_trials,
        n_kept=n_trials - to_run,
        n_to_run=to_run,
    )


def _cost(run: ExperimentRun, n_to_run: int) -> tuple[float | None, str]:
    per_trial = run.experiment.execution.budget.cost_bound_per_trial_usd
    if per_trial is None:
        return None, "cost: no bound is set; budget.cost_bound_per_trial_usd in the execution file would give one"
    bound = n_to_run * per_trial
    return bound, f"cost: at most {bound:.2f} USD ({n_to_run} x {per_trial:g} USD; infrastructure retries come on top)"


def _budget_warnings(run: ExperimentRun, n_to_run: int, *, has_evidence: bool) -> list[str]:
    budget = run.experiment.execution.budget
    used = spent(run.root, budget) if has_evidence else None
    n_used, cost_used = (used.n_trials, used.cost_usd) if used else (0, 0.0)
    found: list[str] = []
    if budget.max_trials is not None and n_used + n_to_run > budget.max_trials:
        found.append(
            f"budget.max_trials is {budget.max_trials}, but {n_used + n_to_run} trials are needed ({n_used} used "
            "already): the run will stop half-way"
        )
    per_trial = budget.cost_bound_per_trial_usd
    if budget.max_cost_usd is not None and per_trial is not None:
        needed = cost_used + n_to_run * per_trial
        if needed > budget.max_cost_usd:
            found.append(
                f"budget.max_cost_usd is {budget.max_cost_usd:g}, but {needed:g} USD may be needed: the run may stop "
                "half-way"
            )
    return found
