# SPDX-License-Identifier: Apache-2.0
"""When each role of a case ran: a provider that changes a model in between would look like a difference of variants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean

from metric_benchmark.records.execution import RawResults, Role, Trial


@dataclass(frozen=True)
class RoleTime:
    """When the trials of one role ran.

    Attributes:
        n_trials: those that count and say when they started.
        first_start: of the earliest, ISO 8601.
        last_end: of the one that ended last.
        offset_s: how much later than the baseline's its trials started on average; None without a baseline.
    """

    n_trials: int
    first_start: str
    last_end: str
    offset_s: float | None


def role_times(results: Iterable[RawResults]) -> dict[Role, RoleTime]:
    """Returns when each role ran, in order of the roles' first starts; roles without a timed trial are absent.

    Args:
        results: the raw results of a case's variants.
    """
    spans: dict[Role, list[tuple[datetime, datetime]]] = {}
    for variant in results:
        found = [span for trial in variant.trials if trial.counts and (span := _span(trial)) is not None]
        if found:
            spans.setdefault(variant.role, []).extend(found)
    means = {role: fmean(start.timestamp() for start, _ in found) for role, found in spans.items()}
    base = means.get("baseline")
    times: dict[Role, RoleTime] = {
        role: RoleTime(
            n_trials=len(found),
            first_start=min(start for start, _ in found).isoformat(),
            last_end=max(end for _, end in found).isoformat(),
            offset_s=None if base is None else means[role] - base,
        )
        for role, found in spans.items()
    }
    return dict(sorted(times.items(), key=lambda item: item[1].first_start))


def _span(trial: Trial) -> tuple[datetime, datetime] | None:
    if trial.started_at is None:
        return None
    start = datetime.fromisoformat(trial.started_at)
    start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
    return start, start + timedelta(seconds=trial.duration_s or 0.0)
