# SPDX-License-Identifier: Apache-2.0
"""What is told of a variant while it runs: each trial as it starts and ends, and how far the variant is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from metric_benchmark.execution.child import Event
from metric_benchmark.execution.variant import Variant


@dataclass(frozen=True)
class Progress:
    """One step of a variant, for a progress bar or a log.

    Attributes:
        key: the variant's partition key.
        kind: `kept` (trials that were there already), `trial_start` or `trial_end`.
        n_done: trials that count or were tried in this run, so far.
        n_total: trials the variant asks for.
        cost_usd: what this run's trials cost so far, where they say.
    """

    key: str
    kind: str
    n_done: int
    n_total: int
    task: str | None = None
    reward: float | None = None
    exception: str | None = None
    cost_usd: float | None = None


type OnProgress = Callable[[Progress], None]


@dataclass
class Tally:
    """Counts a run's trials for progress."""

    variant: Variant
    on_progress: OnProgress
    n_done: int = 0
    n_run: int = 0
    cost_usd: float | None = None
    task_ids: dict[str, str] = field(default_factory=lambda: {})

    def event(self, event: Event) -> None:
        """Takes an event of the process that runs the jobs."""
        if event["event"] == "trial_end":
            self.n_done += 1
            self.n_run += 1
            if event["cost_usd"] is not None:
                self.cost_usd = (self.cost_usd or 0.0) + event["cost_usd"]
        self.say(event["event"], self.task_ids.get(event["task_path"]), event["reward"], event["exception"])

    def say(
        self, kind: str, task: str | None = None, reward: float | None = None, exception: str | None = None
    ) -> None:
        """Tells a step."""
        total = self.variant.n_trials
        done = min(self.n_done, total)
        self.on_progress(Progress(self.variant.key, kind, done, total, task, reward, exception, self.cost_usd))
