# SPDX-License-Identifier: Apache-2.0
"""The append-only ledger: what was reserved from the budget and what it came to, hypotheses registered, seals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_ledger
from metric_benchmark.evidence.writes import append_line
from metric_benchmark.hashing import canonical_json


@dataclass(frozen=True)
class Reservation:
    """Trials set aside for one run, before it starts."""

    case: str
    variant: str
    folder: str
    run: str
    n_trials: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Names the run."""
        return (self.case, self.variant, self.folder, self.run)


@dataclass(frozen=True)
class Spent:
    """What an experiment used so far: settled runs as they were, open reservations at their bound."""

    n_trials: int
    cost_usd: float
    open: dict[tuple[str, str, str, str], Reservation]


def read_ledger(root: EvidenceRoot) -> list[dict[str, Any]]:
    """Returns the ledger's entries in order; a last line cut short by a crash is not an entry.

    Raises:
        EvidenceError: another line is damaged.
    """
    return list(_entries(root))


def _entries(root: EvidenceRoot) -> Iterator[dict[str, Any]]:
    if not root.ledger.exists():
        return
    lines = root.ledger.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            if number == len(lines):
                return
            raise EvidenceError(
                f"{root.ledger}:{number}: damaged; expected one JSON object; restore it from a backup"
            ) from None
        yield entry


def append_entry(root: EvidenceRoot, kind: str, **fields: Any) -> None:
    """Appends one entry. The caller holds the ledger's lock."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    torn = root.ledger.exists() and root.ledger.stat().st_size and not root.ledger.read_bytes().endswith(b"\n")
    if torn:
        # The last append died half-way; close its line so that the new entry stands on its own.
        _drop_torn_line(root)
    append_line(root.ledger, canonical_json({"kind": kind, "at": now, **fields}))


def _drop_torn_line(root: EvidenceRoot) -> None:
    data = root.ledger.read_bytes()
    with root.ledger.open("r+b") as stream:
        stream.truncate(data.rfind(b"\n") + 1)


def spent(root: EvidenceRoot, budget: BudgetConfig) -> Spent:
    """Sums the ledger up."""
    n_trials, cost = 0, 0.0
    open_: dict[tuple[str, str, str, str], Reservation] = {}
    for entry in _entries(root):
        if entry["kind"] == "reserve":
            found = Reservation(entry["case"], entry["variant"], entry["folder"], entry["run"], entry["n_trials"])
            open_[found.key] = found
        elif entry["kind"] == "settle":
            open_.pop((entry["case"], entry["variant"], entry["folder"], entry["run"]), None)
            n_trials += entry["n_trials"]
            cost += entry["cost_usd"] or 0.0
    reserved = sum(item.n_trials for item in open_.values())
    return Spent(n_trials + reserved, cost + reserved * (budget.cost_bound_per_trial_usd or 0.0), open_)


def trials_left(root: EvidenceRoot, budget: BudgetConfig) -> int | None:
    """Returns how many more trials the budget allows; None when it sets no limit."""
    used = spent(root, budget)
    limits: list[int] = []
    if budget.max_trials is not None:
        limits.append(budget.max_trials - used.n_trials)
    if budget.max_cost_usd is not None and budget.cost_bound_per_trial_usd is not None:
        limits.append(int((budget.max_cost_usd - used.cost_usd + 1e-9) / budget.cost_bound_per_trial_usd))
    return max(0, min(limits)) if limits else None


def reserve(root: EvidenceRoot, budget: BudgetConfig, wanted: Reservation) -> bool:
    """Reserves a run's trials if the budget still has them.

    Returns:
        Whether it was reserved.
    """
    with lock_ledger(root):
        left = trials_left(root, budget)
        if left is not None and wanted.n_trials > left:
            return False
        append_entry(
            root, "reserve", case=wanted.case, variant=wanted.variant, folder=wanted.folder, run=wanted.run,
            n_trials=wanted.n_trials,
        )  # fmt: skip
        return True


def settle(root: EvidenceRoot, run: Reservation, *, n_trials: int, cost_usd: float | None) -> None:
    """Records what a reserved run came to; a run that is already settled is left alone."""
    with lock_ledger(root):
        for entry in _entries(root):
            if entry["kind"] == "settle" and run.key == (
                entry["case"],
                entry["variant"],
                entry["folder"],
                entry["run"],
            ):
                return
        append_entry(
            root, "settle", case=run.case, variant=run.variant, folder=run.folder, run=run.run, n_trials=n_trials,
            cost_usd=cost_usd,
        )  # fmt: skip
