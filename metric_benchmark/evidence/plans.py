# SPDX-License-Identifier: Apache-2.0
"""Reads power.json, which is simulated and no evidence: a damaged one counts as none."""

from __future__ import annotations

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.records.correlation import PowerPlans


def read_plans(root: EvidenceRoot) -> tuple[PowerPlans | None, str | None]:
    """Returns the plans beside the evidence, if there are any, and what is wrong with them, if something is."""
    if not root.power.exists():
        return None, None
    try:
        return read_record(root.power, PowerPlans), None
    except EvidenceError as error:
        return None, f"no power plan is shown: {error}. It is no evidence; `plan --power --output` simulates it anew"
