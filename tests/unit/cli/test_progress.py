# SPDX-License-Identifier: Apache-2.0
"""Progress: a bar on a terminal, a line per variant elsewhere, and sums that are right over variants."""

from __future__ import annotations

import io

import pytest

from metric_benchmark.cli.progress import ProgressSink, Whole, show_progress
from metric_benchmark.cli.working import working
from metric_benchmark.execution.runner import Progress


def variant(key: str, rewards: list[float | None], *, kept: int = 0, cost: float | None = None):
    """The steps of one variant: trials kept, then one trial after another."""
    total = kept + len(rewards)
    yield Progress(key, "kept", kept, total)
    for number, reward in enumerate(rewards, start=1):
        yield Progress(key, "trial_start", kept + number - 1, total, f"t{number}")
        spent = None if cost is None else cost * number
        error = None if reward is not None else "VerifierTimeoutError"
        yield Progress(key, "trial_end", kept + number, total, f"t{number}", reward, error, spent)


@pytest.fixture
def watch():
    """Feeds steps to a sink whose clock goes on by `tick` seconds per look; returns lines and states."""

    def call(*variants, tick: float = 0.0):
        lines, states, now = [], [], [0.0]

        def clock():
            now[0] += tick
            return now[0]

        sink = ProgressSink(len(variants), states.append, lines.append, clock)
        for steps in variants:
            for step in steps:
                sink(step)
        sink.finish()
        return lines, states

    return call


def test_a_line_per_variant_with_what_was_run(watch):
    lines, _ = watch(
        variant("desk|baseline", [1.0, 1.0, 0.0, 0.0]),
        variant("desk|short", [], kept=4),
        variant("desk|idle", [0.0], kept=3, cost=0.5),
    )
    assert lines == [
        "[1/3] desk|baseline: 4 trials run, mean reward 0.50, 0.0 s",
        "[2/3] desk|short: 4 trials kept",
        "[3/3] desk|idle: 1 trial run, mean reward 0.00, 0.50 USD, 0.0 s",
    ]


def test_variants_that_take_turns_are_added_up_once(watch):
    def turn(key, number, cost):
        yield Progress(key, "trial_start", number - 1, 2, "t", cost_usd=cost - 0.5 or None)
        yield Progress(key, "trial_end", number, 2, "t", 1.0, None, cost)

    lines, states = watch(
        [Progress("a", "kept", 0, 2)],
        [Progress("b", "kept", 0, 2)],
        turn("a", 1, 0.5), turn("b", 1, 0.5), turn("a", 2, 1.0), turn("b", 2, 1.0),
    )  # fmt: skip
    assert [line.partition(" USD")[0] for line in lines] == [
        "[1/6] a: 1 trial run, mean reward 1.00, 0.50",
        "[2/6] b: 1 trial run, mean reward 1.00, 0.50",
        "[1/6] a: 1 trial run, mean reward 1.00, 0.50",
        "[2/6] b: 1 trial run, mean reward 1.00, 0.50",
    ]
    assert states[-1] == Whole("b", 4, 2.0)


def test_a_trial_that_breaks_is_named(watch):
    lines, _ = watch(variant("desk|baseline", [1.0, None]))
    assert lines == [
        "[1/1] desk|baseline: task t2: VerifierTimeoutError",
        "[1/1] desk|baseline: 2 trials run, mean reward 1.00, 0.0 s",
    ]


def test_a_long_variant_says_how_far_it_is_but_not_at_every_trial(watch):
    lines, _ = watch(variant("desk|baseline", [1.0] * 10), tick=10.0)
    assert [line for line in lines if " of " in line] == [
        "[1/1] desk|baseline: 3 of 10 trials",
        "[1/1] desk|baseline: 6 of 10 trials",
        "[1/1] desk|baseline: 9 of 10 trials",
    ]


def test_the_whole_is_the_sum_of_the_variants(watch):
    _, states = watch(
        variant("a", [1.0, 1.0], cost=0.25), variant("b", [], kept=2), variant("c", [1.0], kept=1, cost=1.0)
    )
    assert states[-1] == Whole("c", 6, 1.5)
    done = [state.n_done for state in states]
    assert done == sorted(done)


def test_nothing_but_a_kept_variant_costs_nothing(watch):
    _, states = watch(variant("a", [], kept=2))
    assert states == [Whole("a", 2, None)]


def test_plain_lines_go_to_standard_error(capsys):
    with show_progress(1, 2, is_terminal=False) as sink:
        for step in variant("desk|baseline", [1.0, 1.0]):
            sink(step)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("[1/1] desk|baseline: 2 trials run, mean reward 1.00, ")


def test_a_terminal_gets_a_bar(monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with show_progress(1, 2) as sink:
        for step in variant("desk|baseline", [1.0, 1.0], cost=0.5):
            sink(step)
    shown = screen.getvalue()
    assert "2/2" in shown
    assert "desk|baseline" in shown
    assert "1.00 USD" in shown
    assert "mean reward" not in shown


def test_what_takes_long_is_shown_on_a_terminal_and_said_in_a_line_elsewhere(monkeypatch, capsys):
    with working("writing the report", is_terminal=False) as tell:
        tell("analysing case desk")
    assert capsys.readouterr() == ("", "analysing case desk\n")
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with working("writing the report") as tell:
        tell("analysing case [bold]")
    assert "analysing case [bold] " in screen.getvalue()
    assert "0:00:00" in screen.getvalue()


def test_an_interrupted_run_says_nothing_of_the_variant_it_was_in(capsys):
    def interrupted():
        with show_progress(1, 2, is_terminal=False) as sink:
            for step in variant("desk|baseline", [1.0]):
                sink(step)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capsys.readouterr().err == ""
