# SPDX-License-Identifier: Apache-2.0
"""Stage 2: which task kills which mutant, and each subset's mutant score. Pure: rewards in, records out."""

from metric_benchmark.scoring.design import DesignCheck, check_design, require_design
from metric_benchmark.scoring.eligibility import assess_eligibility
from metric_benchmark.scoring.kills import score_mutant
from metric_benchmark.scoring.scores import score_case

__all__ = [
    "DesignCheck",
    "assess_eligibility",
    "check_design",
    "require_design",
    "score_case",
    "score_mutant",
]
