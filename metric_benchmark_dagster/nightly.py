# SPDX-License-Identifier: Apache-2.0
"""The settings of the scheduled backfill; importable without Dagster."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Nightly:
    """When the scheduled backfill runs and what one tick may ask for.

    Attributes:
        cron: when.
        timezone: of the cron expression (default: UTC).
        max_runs: partitions of one tick.
        max_cost_usd: what their trials may cost by estimate; None sets no limit.
        max_runtime_s: after which Dagster ends one of its runs; what has a verdict is kept.
    """

    cron: str = "0 2 * * *"
    timezone: str | None = None
    max_runs: int = 200
    max_cost_usd: float | None = None
    max_runtime_s: int = 6 * 3600
