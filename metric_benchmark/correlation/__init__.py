# SPDX-License-Identifier: Apache-2.0
"""Stage 4: association of coverage and mutant score, tests, intervals, verdicts, pooling, planning. Pure."""

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

__all__ = [
    "correlate",
    "estimate_all",
    "goodman_kruskal_gamma",
    "kendall_tau_b",
    "kendall_tau_c",
    "partial_kendall_given_size",
    "partial_spearman_given_size",
    "pearson",
    "somers_d",
    "spearman",
]
