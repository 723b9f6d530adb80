# SPDX-License-Identifier: Apache-2.0
"""The columns of the table each asset shows: their types and what they mean, for its card and for its definition."""

from collections.abc import Mapping

import dagster as dg

#: Type and description by name.
type Columns = Mapping[str, tuple[str, str]]

TRIALS: Columns = {
    "task": ("string", "the task's id"),
    "attempt": ("int", "rank by start time"),
    "status": ("string", "whether the trial counts, and why not"),
    "reward": ("float", "what stage 2 counts; empty without a verdict"),
    "duration_s": ("float", "wall time of the trial"),
    "cost_usd": ("float", "what the agent says it cost"),
    "reason": ("string", "what went wrong"),
}
KILLS: Columns = {
    "task": ("string", "the task's id"),
    "outcome": ("string", "killed, survived or undetermined"),
    "mean_baseline": ("float", "mean reward of the baseline's attempts"),
    "mean_mutant": ("float", "mean reward of this variant's attempts"),
    "p_adjusted": ("float", "p-value after correction over tasks; empty under rules without one"),
    "reason": ("string", "why the task says nothing"),
}
MUTANTS: Columns = {
    "mutant": ("string", "mutant or control"),
    "operator": ("string", "the fault"),
    "status": ("string", "killed, survived or undetermined by the whole suite"),
    "n_killing_tasks": ("int", "how many eligible tasks kill it"),
    "remarks": ("string", "trivial, dominator, never killed, duplicate"),
}
METRICS: Columns = {
    "metric": ("string", "the metric's label"),
    "kind": ("string", "items = has a cover matrix; opaque = numbers only"),
    "n_items": ("int", "size of its universe"),
    "n_unmeasured_tasks": ("int", "tasks it can say nothing about"),
    "mean_coverage": ("float", "over the subsets that have one"),
    "label": ("string", "what a reader must know before using it"),
}
ESTIMATES: Columns = {
    "metric": ("string", "the metric's label"),
    "spearman": ("float", "rank correlation of coverage and mutant score"),
    "partial_spearman": ("float", "the same given subset size"),
    "kendall_tau_b": ("float", "Kendall's tau-b"),
    "verdict": ("string", "of this case alone; the report has the final one, over all cases"),
    "reason": ("string", "why"),
}
VARIANTS: Columns = {
    "variant": ("string", "case|variant"),
    "role": ("string", "baseline, screening, control or mutant"),
    "n_trials": ("int", "trials that were chosen"),
    "mean_reward": ("float", "over the attempts that count"),
    "config_hash": ("string", "of everything that can change its outcome"),
}
VERDICTS: Columns = {
    "case": ("string", "the case's id"),
    "metric": ("string", "the metric's label"),
    "n_subsets": ("int", "subsets that were paired"),
    "rho": ("float", "Spearman's rank correlation of coverage and mutant score"),
    "partial_rho": ("float", "the same given subset size"),
    "p_adjusted": ("float", "of a registered claim, adjusted over those of all cases"),
    "verdict": ("string", "supported, refuted, inconclusive, blocked or not tested"),
    "reason": ("string", "why"),
}

BY_ASSET: Mapping[str, Columns] = {
    "raw_results": TRIALS,
    "mutant_scores": KILLS,
    "subset_scores": MUTANTS,
    "coverage": METRICS,
    "correlation": ESTIMATES,
    "execution_manifest": VARIANTS,
    "report": VERDICTS,
}


def schema(columns: Columns) -> dg.TableSchema:
    """Returns columns as Dagster describes them."""
    return dg.TableSchema([dg.TableColumn(name, kind, description=text) for name, (kind, text) in columns.items()])
