# SPDX-License-Identifier: Apache-2.0
"""The ledger counts every trial once, survives a crash in mid-line, and never lets a budget be overdrawn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.ledger import Reservation, append_entry, read_ledger, reserve, settle, spent, trials_left


def run(number: int, n_trials: int = 4) -> Reservation:
    return Reservation("desk", "short", "c" * 16, f"run-{number}", n_trials)


TRIALS = BudgetConfig(max_trials=10)
MONEY = BudgetConfig(max_cost_usd=1.0, cost_bound_per_trial_usd=0.1)


def test_a_new_root_has_an_empty_ledger(root):
    assert read_ledger(root) == []
    assert spent(root, TRIALS).n_trials == 0
    assert trials_left(root, TRIALS) == 10


def test_no_budget_sets_no_limit(root):
    assert trials_left(root, BudgetConfig()) is None
    assert reserve(root, BudgetConfig(), run(1, 10_000))


def test_what_is_reserved_is_spent_until_it_is_settled(root):
    assert reserve(root, TRIALS, run(1, 8))
    assert trials_left(root, TRIALS) == 2
    settle(root, run(1), n_trials=3, cost_usd=0.5)
    assert trials_left(root, TRIALS) == 7
    assert [entry["kind"] for entry in read_ledger(root)] == ["reserve", "settle"]


def test_more_than_is_left_is_not_reserved(root):
    assert reserve(root, TRIALS, run(1, 8))
    assert not reserve(root, TRIALS, run(2, 3))
    assert len(read_ledger(root)) == 1
    assert reserve(root, TRIALS, run(2, 2))


def test_money_is_reserved_at_its_bound_and_settled_at_what_it_was(root):
    assert trials_left(root, MONEY) == 10
    reserve(root, MONEY, run(1, 6))
    assert spent(root, MONEY).cost_usd == pytest.approx(0.6)
    settle(root, run(1), n_trials=6, cost_usd=0.12)
    assert trials_left(root, MONEY) == 8


def test_the_tighter_of_two_limits_counts(root):
    both = BudgetConfig(max_trials=3, max_cost_usd=1.0, cost_bound_per_trial_usd=0.1)
    assert trials_left(root, both) == 3


def test_settling_twice_counts_once(root):
    reserve(root, TRIALS, run(1))
    settle(root, run(1), n_trials=4, cost_usd=None)
    settle(root, run(1), n_trials=4, cost_usd=None)
    assert spent(root, TRIALS).n_trials == 4
    assert spent(root, TRIALS).open == {}


def test_a_line_cut_short_by_a_crash_is_no_entry_and_is_dropped_by_the_next(root):
    reserve(root, TRIALS, run(1))
    with root.ledger.open("ab") as stream:
        stream.write(b'{"kind":"settle","n_tri')
    assert [entry["kind"] for entry in read_ledger(root)] == ["reserve"]
    append_entry(root, "seal", evidence_sha256="x")
    assert [entry["kind"] for entry in read_ledger(root)] == ["reserve", "seal"]
    assert root.ledger.read_bytes().endswith(b"}\n")


def test_damage_in_the_middle_is_named(root):
    reserve(root, TRIALS, run(1))
    root.ledger.write_bytes(b"garbage\n" + root.ledger.read_bytes())
    with pytest.raises(EvidenceError) as refused:
        read_ledger(root)
    assert str(refused.value) == f"{root.ledger}:1: damaged; expected one JSON object; restore it from a backup"


def test_many_at_once_never_overdraw(root):
    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(lambda n: reserve(root, TRIALS, run(n, 3)), range(12)))
    assert sum(granted) == 3
    assert spent(root, TRIALS).n_trials == 9
