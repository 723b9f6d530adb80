# SPDX-License-Identifier: Apache-2.0
"""Dagster resources: which experiment is run in which evidence root, and who is told about trials as they end."""

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Literal

import dagster as dg
from pydantic import Field

from metric_benchmark.config import Level
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.execution.runner import OnProgress, Progress
from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.pipeline.saved import require_evidence_or_nothing
from metric_benchmark_dagster.failures import Retries, as_failures


@dataclass(frozen=True)
class Step:
    """One step of a run: the opened experiment and a clock."""

    run: ExperimentRun
    started: float = field(default_factory=time.monotonic)

    @property
    def duration_s(self) -> float:
        """How long the step has taken so far."""
        return time.monotonic() - self.started


class ExperimentResource(dg.ConfigurableResource["ExperimentResource"]):
    """Names the experiment and where its evidence is."""

    experiment: str = Field(description="Path of experiment.yaml, or of the folder that holds it.")
    output: str = Field(description="The evidence root; one experiment each.")
    run_id: str | None = Field(default=None, description="Names the run (default: the experiment's name).")
    max_retries: int = Field(default=2, ge=0, description="Of failures that may pass by themselves.")
    retry_delay_s: float = Field(default=30, ge=0, description="Before each of them.")

    def open(self, *, level: Level = "analysis", only: str | None = None) -> ExperimentRun:
        """Opens the experiment as it is now, to look at; errors are the library's own."""
        return open_run(self.experiment, self.output, run_id=self.run_id, level=level, only=only)

    @contextmanager
    def step(
        self,
        *,
        level: Level = "analysis",
        lock: Literal["shared", "exclusive"] | None = "shared",
        only: str | None = None,
    ) -> Generator[Step]:
        """Opens the experiment as it is now and holds its evidence for one step; errors become Dagster failures.

        Args:
            level: what of the experiment must be there and match its pins.
            lock: how the evidence root is held; `None` where the library call holds it itself.
            only: the one case the step looks at: files of hundreds of others are not parsed.
        """
        with as_failures(Retries(self.max_retries, self.retry_delay_s)), ExitStack() as stack:
            run = self.open(level=level, only=only)
            # Before any lock: it leaves a file, and a folder with one passes for evidence.
            require_evidence_or_nothing(run.root)
            if lock is not None:
                stack.enter_context(lock_root(run.root, lock))
            yield Step(run)


class TrialRelay:
    """Relays trials into the log of the Dagster run that runs them, as they end."""

    def listener(self, log: dg.DagsterLogManager) -> OnProgress:
        """Returns what the library calls with each step of a variant."""

        def relay(progress: Progress) -> None:
            message = progress_line(progress)
            if message:
                log.info(message)

        return relay


def progress_line(progress: Progress) -> str | None:
    """Says in one line what happened; None for what needs no line."""
    count = f"{progress.key} {progress.n_done}/{progress.n_total}"
    match progress.kind:
        case "kept" if progress.n_done:
            return f"{count}: kept from before, not paid for again"
        case "trial_end":
            outcome = progress.exception or ("no reward" if progress.reward is None else f"reward {progress.reward:g}")
            cost = "" if progress.cost_usd is None else f" (${progress.cost_usd:.4f} so far)"
            return f"{count}: {progress.task} {outcome}{cost}"
        case _:
            return None
