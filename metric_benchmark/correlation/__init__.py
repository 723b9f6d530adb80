# SPDX-License-Identifier: Apache-2.0
"""Stage 4: association of coverage and mutant score, tests, intervals, verdicts, pooling, planning. Pure.

For notebooks: everything here takes arrays, nested lists or DataFrames of 0 and 1 (subsets x tasks, tasks x mutants,
tasks x items, labels ignored: bring them in one order) and needs no files. `metric_benchmark.matrices` aligns by label.
"""

from metric_benchmark.correlation.bootstrap import (
    Bootstrap,
    mutant_bootstrap,
    task_value_bootstrap,
    two_way_bootstrap,
)
from metric_benchmark.correlation.conclusion import CaseEvidence, conclude, pool_metrics
from metric_benchmark.correlation.correlate import correlate
from metric_benchmark.correlation.estimators import (
    estimate_all,
    goodman_kruskal_gamma,
    kendall_tau_b,
    kendall_tau_c,
    partial_kendall_given_size,
    partial_spearman_given_size,
    pearson,
    somers_d,
    spearman,
)
from metric_benchmark.correlation.permutation import (
    Permutations,
    task_permutation_test,
    task_value_test,
    which_items_test,
)
from metric_benchmark.correlation.pooling import CaseMatrices, effect_at_equal_mutants, pool_cases
from metric_benchmark.correlation.practical import estimate_practical_value
from metric_benchmark.correlation.verdicts import decide

__all__ = [
    "Bootstrap",
    "CaseEvidence",
    "CaseMatrices",
    "Permutations",
    "conclude",
    "correlate",
    "decide",
    "effect_at_equal_mutants",
    "estimate_all",
    "estimate_practical_value",
    "goodman_kruskal_gamma",
    "kendall_tau_b",
    "kendall_tau_c",
    "mutant_bootstrap",
    "partial_kendall_given_size",
    "partial_spearman_given_size",
    "pearson",
    "pool_cases",
    "pool_metrics",
    "somers_d",
    "spearman",
    "task_permutation_test",
    "task_value_bootstrap",
    "task_value_test",
    "two_way_bootstrap",
    "which_items_test",
]
