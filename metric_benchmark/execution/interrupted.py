# SPDX-License-Identifier: Apache-2.0
"""Puts right what runs that died left in an evidence root: open reservations, half-made updates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.errors import LockedError
from metric_benchmark.evidence import ledger
from metric_benchmark.evidence.index import finish_updates
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_case, lock_variant
from metric_benchmark.evidence.reader import read_index
from metric_benchmark.execution.inventory import read_run
from metric_benchmark.execution.plan import FoundTrial


def settle_run(root: EvidenceRoot, run: ledger.Reservation, trials: Sequence[FoundTrial]) -> None:
    """Settles a run by the trials it left: each that was started is spent, whatever came of it."""
    costs = [trial.outcome.cost_usd for trial in trials if trial.outcome.cost_usd is not None]
    ledger.settle(
        root,
        run,
        n_trials=len(trials),
        cost_usd=sum(costs) if costs else None,
        n_without_cost=len(trials) - len(costs),
    )


def settle_interrupted(root: EvidenceRoot, budget: BudgetConfig, reward_key: str, *, held: str | None = None) -> None:
    """Settles all runs that died before they could; those of other variants only when nobody runs them.

    Args:
        root: the evidence.
        budget: its limits.
        reward_key: which reward counts.
        held: the variant (`case|variant`) whose lock the caller holds.
    """
    for run in ledger.spent(root, budget).open.values():
        if f"{run.case}|{run.variant}" == held:
            _settle(root, run, reward_key)
            continue
        with suppress(LockedError), lock_variant(root, run.case, run.variant, orphan_wait_s=0, is_momentary=True):
            _settle(root, run, reward_key)


def _settle(root: EvidenceRoot, run: ledger.Reservation, reward_key: str) -> None:
    settle_run(root, run, read_run(root, run.case, run.variant, run.folder, run.run, reward_key))


def tidy_root(root: EvidenceRoot) -> None:
    """Finishes updates of indices that were killed."""
    for index in root.execution_root.glob("execution/*/results.json"):
        tidy_case(root, index.parent.name)


def tidy_case(root: EvidenceRoot, case_id: str) -> None:
    """Finishes an update of a case's index that was killed."""
    if root.index(case_id).exists():
        with lock_case(root, case_id):
            finish_updates(root, read_index(root, case_id))
