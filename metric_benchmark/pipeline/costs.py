# SPDX-License-Identifier: Apache-2.0
"""Estimates what is still to be paid for: the trials a variant lacks, and what one trial costs."""

from __future__ import annotations

from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.evidence.ledger import spent
from metric_benchmark.execution.inventory import find_trials
from metric_benchmark.execution.plan import missing_attempts
from metric_benchmark.execution.variant import Variant
from metric_benchmark.pipeline.inputs import ExperimentRun


def count_lacking(run: ExperimentRun, variant: Variant) -> int:
    """Counts the trials a variant still has to run, by its native trials: what was paid for and holds is kept."""
    found = find_trials(run.root, variant.case_id, variant.variant_id, run.experiment.execution.reward_key)
    return sum(missing_attempts(variant.trial_keys, variant.attempts, found).values())


def cost_per_trial(run: ExperimentRun) -> float:
    """Estimates what a trial costs: the bound of the budget, else what trials cost so far on average, else nothing."""
    bound = run.experiment.execution.budget.cost_bound_per_trial_usd
    if bound is not None:
        return bound
    used = spent(run.root, BudgetConfig())
    return used.cost_usd / used.n_trials if used.n_trials else 0.0
