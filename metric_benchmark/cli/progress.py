# SPDX-License-Identifier: Apache-2.0
"""Shows how stage 1 goes on: a bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from metric_benchmark.cli.console import note, plural
from metric_benchmark.execution.runner import Progress
from metric_benchmark.execution.runtimes import made_runtime
from metric_benchmark.execution.variant import Variant

#: How long a variant may run, in seconds, before plain output says how far it is.
QUIET_S = 30.0


def note_runtimes(variants: Iterable[Variant]) -> None:
    """Says which environments of bundles are not there yet, as nothing is heard of a run while one is made."""
    for runtime in dict.fromkeys(variant.runtime for variant in variants):
        if runtime is not None and made_runtime(runtime) is None:
            note(
                f"{runtime.requirements.name}: its environment for Python {runtime.python} is made before the first "
                "trial that needs it, which can take minutes"
            )


@contextmanager
def show_progress(n_variants: int, n_trials: int, *, is_terminal: bool | None = None) -> Generator[ProgressSink]:
    """Gives what `run_evals` is to tell its progress.

    Args:
        n_variants: how many variants there are.
        n_trials: how many trials all of them ask for.
        is_terminal: whether a bar can be drawn (default: whether standard error is a terminal).
    """
    if sys.stderr.isatty() if is_terminal is None else is_terminal:
        with _bar(n_trials) as draw:
            yield ProgressSink(n_variants, draw, lambda _: None)
        return
    sink = ProgressSink(n_variants, lambda _: None, note)
    yield sink
    sink.finish()


@dataclass
class ProgressSink:
    """Adds the progress of variants up to that of the experiment; they run one after another or take turns.

    Attributes:
        n_variants: how many variants there are.
        draw: told the state of the whole after every step.
        say: told a line when a variant begins to run, fails a trial, takes long, or ends.
        clock: seconds, for tests.
    """

    n_variants: int
    draw: Callable[[Whole], None]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    latest: dict[str, Progress] = field(default_factory=lambda: {})
    current: Progress | None = None
    rewards: list[float] = field(default_factory=lambda: [])
    n_run: int = 0
    cost_before: float = 0.0
    started: float = 0.0
    said: float = 0.0

    def __call__(self, step: Progress) -> None:
        """Takes one step of a variant."""
        if self.current is None or step.key != self.current.key:
            self._begin(step)
        self.current = self.latest[step.key] = step
        if step.kind == "trial_end":
            self._trial(step)
        costs = [found.cost_usd for found in self.latest.values() if found.cost_usd is not None]
        n_done = sum(found.n_done for found in self.latest.values())
        self.draw(Whole(step.key, n_done, sum(costs) if costs else None))

    def finish(self) -> None:
        """Ends the turn of the last variant."""
        if self.current is not None and self.n_run:
            mean = f", mean reward {sum(self.rewards) / len(self.rewards):.2f}" if self.rewards else ""
            known = self.current.cost_usd
            cost = f", {known - self.cost_before:.2f} USD" if known is not None else ""
            seconds = self.clock() - self.started
            self.say(f"{self._name()}: {plural(self.n_run, 'trial')} run{mean}{cost}, {seconds:.1f} s")
        self.current = None

    def _begin(self, step: Progress) -> None:
        self.finish()
        before = self.latest.get(step.key)
        self.cost_before = (before.cost_usd if before is not None else None) or 0.0
        self.rewards, self.n_run = [], 0
        self.started = self.said = self.clock()
        self.current = self.latest[step.key] = step
        if step.kind == "kept" and step.n_done == step.n_total:
            self.say(f"{self._name()}: {plural(step.n_total, 'trial')} kept")

    def _trial(self, step: Progress) -> None:
        self.n_run += 1
        if step.reward is not None:
            self.rewards.append(step.reward)
        if step.exception is not None:
            self.say(f"{self._name()}: task {step.task}: {step.exception}")
        if self.clock() - self.said >= QUIET_S:
            self.said = self.clock()
            self.say(f"{self._name()}: {step.n_done} of {plural(step.n_total, 'trial')}")

    def _name(self) -> str:
        assert self.current is not None
        number = list(self.latest).index(self.current.key) + 1
        return f"[{number}/{self.n_variants}] {self.current.key}"


@dataclass(frozen=True)
class Whole:
    """How far the experiment is: the variant that runs, trials done, cost so far."""

    key: str
    n_done: int
    cost_usd: float | None


@contextmanager
def _bar(n_trials: int) -> Generator[Callable[[Whole], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("trials"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cost]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("starting", total=n_trials, cost="")

        def draw(whole: Whole) -> None:
            cost = "" if whole.cost_usd is None else f"{whole.cost_usd:.2f} USD"
            progress.update(bar, description=whole.key, completed=whole.n_done, cost=cost)

        yield draw
