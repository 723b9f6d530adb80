# SPDX-License-Identifier: Apache-2.0
"""What bars a verdict or makes an interval approximate: the bounds, and the words that records and reports have for it.

Bounds are those of the bootstrap's calibration (docs/calibration.md).
"""

from __future__ import annotations

MIN_TASKS = 20
MIN_MUTANTS = 10
MIN_DOMINATORS = 5
#: The largest share of replicates without an association.
MAX_UNDEFINED = 0.05

FEW_TASKS = f"fewer than {MIN_TASKS} tasks"
FEW_MUTANTS = f"fewer than {MIN_MUTANTS} mutants"
FEW_DOMINATORS = f"fewer than {MIN_DOMINATORS} dominators"
MANY_UNDEFINED = f"more than {MAX_UNDEFINED:.0%} of the replicates are undefined"
TOO_CLOSE_TO_ONE = "association is too close to 1"
NO_DEVIATION = "no bootstrap deviation"
NO_PERMUTATION = "no permutation is defined"
OPAQUE = "metric is opaque"
CHOSEN_USING_BOTH = "subsets were chosen using coverage and kills"

#: What a larger experiment of the same kind may lift; the others need another metric, other mutants or subsets.
WANT_OF_DATA = frozenset({FEW_TASKS, FEW_MUTANTS, FEW_DOMINATORS, MANY_UNDEFINED, TOO_CLOSE_TO_ONE, NO_DEVIATION})
