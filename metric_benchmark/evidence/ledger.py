# SPDX-License-Identifier: Apache-2.0
"""The append-only ledger: what was reserved from the budget and what it came to, hypotheses registered, seals.

Every line carries the digest of its own bytes, so that a changed number is noticed.

A process reads every line once: what it read before is kept, and the next look goes on from there. So a run of many
jobs costs no more per job at its end than at its start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_ledger
from metric_benchmark.evidence.stamps import STAMP, stamp_problem, stamped
from metric_benchmark.evidence.writes import append_line

#: The kind of an entry that names a case which was removed from the experiment's files on purpose.
REMOVED = "remove_case"
#: The kind of an entry that names such a case which is in the files again.
RESTORED = "restore_case"
#: The kind of an entry that takes back an import: its check failed, so none of its trials ever counted.
IMPORT_UNDONE = "import_undone"

type RunKey = tuple[str, str, str, str]

#: What entries held before lines carried a digest. A line without one may have no other key: else that of the digest
#: is what was damaged.
_UNSTAMPED = frozenset(
    {"kind", "at", "case", "variant", "folder", "run", "n_trials", "cost_usd", "n_without_cost", "evidence_sha256"}
)


@dataclass(frozen=True)
class Reservation:
    """Trials set aside for one run, before it starts."""

    case: str
    variant: str
    folder: str
    run: str
    n_trials: int

    @property
    def key(self) -> RunKey:
        """Names the run."""
        return (self.case, self.variant, self.folder, self.run)


@dataclass(frozen=True)
class Spent:
    """What an experiment used so far.

    Settled runs count as they were, open reservations at their bound, and so does a trial whose cost nobody knows: its
    agent says none, or it was cut short.
    """

    n_trials: int
    cost_usd: float
    open: dict[RunKey, Reservation]


def read_ledger(root: EvidenceRoot) -> list[dict[str, Any]]:
    """Returns the ledger's entries in order; a last line cut short by a crash is not an entry.

    Raises:
        EvidenceError: another line is damaged.
    """
    data = root.ledger.read_bytes() if root.ledger.exists() else b""
    return [entry for entry, _ in _entries(root.ledger, data, 1)]


def removed_cases(root: EvidenceRoot) -> set[str]:
    """Returns the cases that were removed on purpose from the experiment whose execution a root holds or analyses.

    The last word on a case counts: one that was restored since is not among them.

    Raises:
        EvidenceError: a line is damaged.
    """
    entries = read_ledger(EvidenceRoot(root.execution_root))
    last = {entry["case"]: entry["kind"] for entry in entries if entry["kind"] in (REMOVED, RESTORED)}
    return {case_id for case_id, kind in last.items() if kind == REMOVED}


def restore_cases(root: EvidenceRoot, case_ids: Iterable[str]) -> None:
    """Takes back that cases were removed, now that they are run again; whether they are removed anew is asked anew."""
    for case_id in sorted(removed_cases(root) & set(case_ids)):
        with lock_ledger(root):
            append_entry(root, RESTORED, case=case_id)


def append_entry(root: EvidenceRoot, kind: str, **fields: Any) -> None:
    """Appends one entry. The caller holds the ledger's lock."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    append_line(root.ledger, stamped({"kind": kind, "at": now, **fields}).removesuffix(b"\n"))


def spent(root: EvidenceRoot, budget: BudgetConfig) -> Spent:
    """Sums the ledger up.

    Raises:
        EvidenceError: a line is damaged.
    """
    sums = _read_on(root)
    bound = budget.cost_bound_per_trial_usd or 0.0
    reserved = sum(item.n_trials for item in sums.open.values())
    cost_usd = sums.cost_usd + (reserved + sums.n_without_cost) * bound
    return Spent(sums.n_trials + reserved, cost_usd, dict(sums.open))


def mean_cost(root: EvidenceRoot) -> float | None:
    """Returns what a trial cost on average, of those that say so; None where none does.

    Raises:
        EvidenceError: a line is damaged.
    """
    sums = _read_on(root)
    n_known = sums.n_trials - sums.n_without_cost
    return sums.cost_usd / n_known if n_known > 0 else None


def trials_left(root: EvidenceRoot, budget: BudgetConfig) -> int | None:
    """Returns how many more trials the budget allows; None when it sets no limit."""
    if budget.max_trials is None and budget.max_cost_usd is None:
        return None
    used = spent(root, budget)
    limits: list[int] = []
    if budget.max_trials is not None:
        limits.append(budget.max_trials - used.n_trials)
    if budget.max_cost_usd is not None and budget.cost_bound_per_trial_usd is not None:
        limits.append(int((budget.max_cost_usd - used.cost_usd + 1e-9) / budget.cost_bound_per_trial_usd))
    return max(0, min(limits))


def reserve_fitting(
    root: EvidenceRoot, budget: BudgetConfig, fit: Callable[[int | None], Reservation | None]
) -> Reservation | None:
    """Reserves as much of a run as the budget still has.

    Args:
        root: the evidence.
        budget: its limits.
        fit: makes a reservation of at most that many trials (None: no limit); nobody reserves in between.

    Returns:
        What was reserved; None where `fit` made nothing.
    """
    with lock_ledger(root):
        wanted = fit(trials_left(root, budget))
        if wanted is not None:
            append_entry(
                root, "reserve", case=wanted.case, variant=wanted.variant, folder=wanted.folder, run=wanted.run,
                n_trials=wanted.n_trials,
            )  # fmt: skip
        return wanted


def reserve(root: EvidenceRoot, budget: BudgetConfig, wanted: Reservation) -> bool:
    """Reserves a run's trials if the budget still has all of them.

    Returns:
        Whether it was reserved.
    """

    def fit(left: int | None) -> Reservation | None:
        return wanted if left is None or wanted.n_trials <= left else None

    return reserve_fitting(root, budget, fit) is not None


def settle(
    root: EvidenceRoot, run: Reservation, *, n_trials: int, cost_usd: float | None, n_without_cost: int | None = None
) -> None:
    """Records what a reserved run came to; a run that has no open reservation is left alone.

    A run that died before it had a plan is settled with nothing, and its name may be reserved again.

    Args:
        root: the evidence.
        run: the run.
        n_trials: trials it started.
        cost_usd: what those cost that say so; None when none does.
        n_without_cost: how many do not (default: all of them when `cost_usd` is None, else none).
    """
    if n_without_cost is None:
        n_without_cost = n_trials if cost_usd is None else 0
    with lock_ledger(root):
        if run.key not in _read_on(root).open:
            return
        append_entry(
            root, "settle", case=run.case, variant=run.variant, folder=run.folder, run=run.run, n_trials=n_trials,
            cost_usd=cost_usd, n_without_cost=n_without_cost,
        )  # fmt: skip


@dataclass
class _Sums:
    """What the lines read so far add up to, and which bytes of which file they were."""

    inode: int = 0
    n_bytes: int = 0
    n_lines: int = 0
    last_line: bytes = b""
    n_trials: int = 0
    cost_usd: float = 0.0
    n_without_cost: int = 0
    open: dict[RunKey, Reservation] = field(default_factory=lambda: {})

    def add(self, entry: dict[str, Any]) -> None:
        if entry["kind"] == "reserve":
            found = Reservation(entry["case"], entry["variant"], entry["folder"], entry["run"], entry["n_trials"])
            self.open[found.key] = found
        elif entry["kind"] == "settle":
            key = (entry["case"], entry["variant"], entry["folder"], entry["run"])
            self.open.pop(key, None)
            self.n_trials += entry["n_trials"]
            self.cost_usd += entry["cost_usd"] or 0.0
            self.n_without_cost += entry["n_without_cost"]


#: By the ledger's path: what this process read of it.
_known: dict[Path, _Sums] = {}


def _read_on(root: EvidenceRoot) -> _Sums:
    """Reads what was appended since the last look; all of it where the file is another one."""
    path = root.ledger
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        _known.pop(path, None)
        return _Sums()
    try:
        status = os.fstat(handle)
        sums = _known.get(path)
        if sums is None or not _goes_on(handle, status, sums):
            sums = _Sums(inode=status.st_ino)
        data = os.pread(handle, max(0, status.st_size - sums.n_bytes), sums.n_bytes)
    finally:
        os.close(handle)
    # Forgotten first: a damaged line must be met again by the next look.
    _known.pop(path, None)
    for entry, line in _entries(path, data, sums.n_lines + 1):
        try:
            sums.add(entry)
        except (KeyError, TypeError):
            raise _damaged(path, sums.n_lines + 1, "expected one JSON object of ours") from None
        sums.n_lines += 1
        sums.n_bytes += len(line) + 1
        sums.last_line = line
    _known[path] = sums
    return sums


def _goes_on(handle: int, status: os.stat_result, sums: _Sums) -> bool:
    """Whether the file still starts with what was read, as far as its size and its last known line tell."""
    if status.st_ino != sums.inode or status.st_size < sums.n_bytes:
        return False
    size = len(sums.last_line) + 1
    return sums.n_bytes == 0 or os.pread(handle, size, sums.n_bytes - size) == sums.last_line + b"\n"


def _entries(path: Path, data: bytes, number: int) -> list[tuple[dict[str, Any], bytes]]:
    """Parses whole lines; what follows the last newline was cut short and is no entry."""
    found: list[tuple[dict[str, Any], bytes]] = []
    *lines, rest = data.split(b"\n")
    for offset, line in enumerate(lines):
        entry, problem = _parse(line)
        if problem is not None:
            raise _damaged(path, number + offset, problem)
        found.append((entry, line))
    if STAMP.encode() in rest and _parse(rest[:-1])[1] is None:
        # Cut short it would not end after a whole entry.
        raise _damaged(path, number + len(lines), "its end is not that of a line")
    return found


def _parse(line: bytes) -> tuple[dict[str, Any], str | None]:
    """Reads a line without its end; what is wrong with it comes second."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or "kind" not in entry or not (STAMP in entry or entry.keys() <= _UNSTAMPED):
        return {}, "expected one JSON object of ours"
    return entry, stamp_problem(line + b"\n", entry)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _damaged(path: Path, number: int, why: str) -> EvidenceError:
    return EvidenceError(
        f"{path}:{number}: damaged: {why}; restore the file from a backup, or delete line {number}: what it says was "
        "spent or registered is then not counted, trials are not touched"
    )
