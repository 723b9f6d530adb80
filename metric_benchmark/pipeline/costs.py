# SPDX-License-Identifier: Apache-2.0
"""Estimates what is still to be paid for: the trials a variant lacks, what one trial costs, and paid coverage."""

from __future__ import annotations

from typing import Any

from metric_benchmark.config import Experiment
from metric_benchmark.coverage.registry import BUILT_IN, MetricSpec
from metric_benchmark.evidence.ledger import mean_cost
from metric_benchmark.execution.inventory import find_trials
from metric_benchmark.execution.plan import missing_attempts
from metric_benchmark.execution.variant import Variant
from metric_benchmark.pipeline.inputs import ExperimentRun


def count_lacking(run: ExperimentRun, variant: Variant) -> int:
    """Counts the trials a variant still has to run, by its native trials: what was paid for and holds is kept."""
    found = find_trials(run.root, variant.case_id, variant.variant_id, run.experiment.execution.reward_key)
    return sum(missing_attempts(variant.trial_keys, variant.attempts, found).values())


def cost_per_trial(run: ExperimentRun) -> float | None:
    """Estimates what a trial costs: the bound of the budget, else the mean over the trials whose cost is known.

    Returns:
        US dollars; None where nothing says what a trial costs.
    """
    bound = run.experiment.execution.budget.cost_bound_per_trial_usd
    return mean_cost(run.root) if bound is None else bound


def paid_metrics(experiment: Experiment) -> dict[str, float | None]:
    """Returns the metrics that ask a model, by label: what measuring a case with one costs at most.

    What a `command` or a metric of one's own may cost is not known here.
    """
    judge = {"model_judge", BUILT_IN["model_judge"].path}
    found: dict[str, float | None] = {}
    for metric in experiment.analysis.coverage:
        if MetricSpec(metric.name, metric.metric, metric.settings).target in judge:
            limit: Any = metric.settings.get("max_cost_usd")
            found[metric.name] = float(limit) if isinstance(limit, int | float) else None
    return found
