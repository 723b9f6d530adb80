# SPDX-License-Identifier: Apache-2.0
"""The ledger counts every trial once, survives a crash in mid-line, and never lets a budget be overdrawn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.ledger import (
    Reservation,
    append_entry,
    mean_cost,
    read_ledger,
    reserve,
    reserve_fitting,
    settle,
    spent,
    trials_left,
)
from metric_benchmark.evidence.stamps import stamped


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


def test_the_mean_cost_is_of_trials_that_say_what_they_cost(root):
    assert mean_cost(root) is None
    reserve(root, TRIALS, run(1))
    settle(root, run(1), n_trials=4, cost_usd=None)
    assert mean_cost(root) is None
    reserve(root, TRIALS, run(2))
    settle(root, run(2), n_trials=4, cost_usd=0.5, n_without_cost=2)
    assert mean_cost(root) == pytest.approx(0.25)


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
    assert str(refused.value).startswith(
        f"{root.ledger}:1: damaged: expected one JSON object of ours; restore the file"
    )
    assert "or delete line 1: " in str(refused.value)


def test_a_number_that_changed_in_a_line_is_noticed(root):
    reserve(root, TRIALS, run(1))
    root.ledger.write_bytes(root.ledger.read_bytes().replace(b'"n_trials":4', b'"n_trials":1'))
    with pytest.raises(EvidenceError) as refused:
        spent(root, TRIALS)
    assert refused.value.exit_status == 3
    assert re.fullmatch(
        rf"{root.ledger}:1: damaged: its SHA-256 is [0-9a-f]{{16}}\.\.\., it carries [0-9a-f]{{16}}\.\.\.; restore the "
        "file from a backup, or delete line 1: what it says was spent or registered is then not counted, trials are "
        "not touched",
        str(refused.value),
    )


def test_every_flipped_byte_is_noticed(root):
    reserve(root, TRIALS, run(1))
    settle(root, run(1), n_trials=4, cost_usd=0.5)
    data = root.ledger.read_bytes()
    for position in range(len(data)):
        root.ledger.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(EvidenceError, match=r"ledger\.jsonl:[12]: damaged: "):
            read_ledger(root)


def test_lines_from_before_they_carried_a_digest_are_read(root):
    reserve(root, TRIALS, run(1))
    old = json.loads(root.ledger.read_bytes())
    del old["record_sha256"]
    root.ledger.write_text(json.dumps(old) + "\n")
    settle(root, run(1), n_trials=3, cost_usd=None)
    assert spent(root, TRIALS).n_trials == 3


def test_many_at_once_never_overdraw(root):
    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(lambda n: reserve(root, TRIALS, run(n, 3)), range(12)))
    assert sum(granted) == 3
    assert spent(root, TRIALS).n_trials == 9


def test_the_name_of_a_run_that_came_to_nothing_may_be_reserved_again(root):
    reserve(root, TRIALS, run(1, 4))
    settle(root, run(1), n_trials=0, cost_usd=None)
    reserve(root, TRIALS, run(1, 4))
    assert trials_left(root, TRIALS) == 6
    settle(root, run(1), n_trials=4, cost_usd=None)
    assert spent(root, TRIALS).open == {}
    assert spent(root, TRIALS).n_trials == 4


def test_a_trial_whose_cost_nobody_knows_costs_the_bound(root):
    reserve(root, MONEY, run(1, 5))
    settle(root, run(1), n_trials=5, cost_usd=0.06, n_without_cost=2)
    assert spent(root, MONEY).cost_usd == pytest.approx(0.06 + 2 * 0.1)
    assert trials_left(root, MONEY) == 7


def test_a_whole_entry_without_its_newline_was_never_acknowledged(root):
    reserve(root, TRIALS, run(1))
    line = root.ledger.read_bytes()
    root.ledger.write_bytes(line + line.replace(b"run-1", b"run-2").rstrip(b"\n"))
    assert spent(root, TRIALS).n_trials == 4
    reserve(root, TRIALS, run(3))
    assert [entry["run"] for entry in read_ledger(root)] == ["run-1", "run-3"]


def test_a_job_is_made_as_large_as_what_is_left(root):
    asked: list[int | None] = []

    def fit(left):
        asked.append(left)
        return run(2, left)

    reserve(root, TRIALS, run(1, 7))
    assert reserve_fitting(root, TRIALS, fit) == run(2, 3)
    assert asked == [3]
    assert trials_left(root, TRIALS) == 0


def test_what_others_append_is_seen(root):
    """What this process read before is kept, so that what another one wrote since must not be missed."""
    reserve(root, TRIALS, run(1, 2))
    assert spent(root, TRIALS).n_trials == 2
    script = (
        "import sys; from pathlib import Path; from metric_benchmark.config.models import BudgetConfig; "
        "from metric_benchmark.evidence.layout import EvidenceRoot; "
        "from metric_benchmark.evidence.ledger import Reservation, reserve\n"
        "reserve(EvidenceRoot(Path(sys.argv[1])), BudgetConfig(), Reservation('desk', 'short', 'c', 'run-2', 3))"
    )
    subprocess.run([sys.executable, "-c", script, root.path], check=True)
    assert spent(root, TRIALS).n_trials == 5


def test_another_file_in_its_place_is_read_anew(root):
    for number in range(1, 4):
        reserve(root, TRIALS, run(number, 2))
    assert spent(root, TRIALS).n_trials == 6
    lines = root.ledger.read_bytes().splitlines(keepends=True)
    root.ledger.write_bytes(lines[0] + stamped({**json.loads(lines[1]), "n_trials": 1}))
    assert spent(root, TRIALS).n_trials == 3
    root.ledger.unlink()
    assert spent(root, TRIALS).n_trials == 0


def test_a_damaged_line_is_met_again_by_the_next_look(root):
    reserve(root, TRIALS, run(1))
    with root.ledger.open("ab") as stream:
        stream.write(b'{"kind":"settle"}\n')
    for _ in range(2):
        with pytest.raises(EvidenceError, match=r"ledger\.jsonl:2: damaged: expected one JSON object"):
            spent(root, TRIALS)


def test_an_entry_costs_the_same_however_long_the_ledger_is(root, monkeypatch):
    """Bytes read per reservation, not seconds: those of the last line and what was appended since."""
    sizes: list[int] = []
    pread = os.pread

    def counting(*arguments):
        data = pread(*arguments)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)

    def cost(number):
        sizes.clear()
        reserve(root, TRIALS, run(number, 0))
        settle(root, run(number), n_trials=0, cost_usd=None)
        return sum(sizes)

    costs = [cost(number) for number in range(100, 400)]
    assert costs[-1] == costs[50]


_RESERVE_ALL = """
import sys
from pathlib import Path
from metric_benchmark.config.models import BudgetConfig
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import Reservation, reserve_fitting, settle
root, name, n_granted = EvidenceRoot(Path(sys.argv[1])), sys.argv[2], 0
for number in range(1000):
    run = lambda left: Reservation("desk", name, "c", f"run-{number}", min(3, left)) if left else None
    granted = reserve_fitting(root, BudgetConfig(max_trials=50), run)
    if granted is None:
        break
    n_granted += granted.n_trials
    settle(root, granted, n_trials=granted.n_trials, cost_usd=None)
print(n_granted)
"""


def test_several_processes_share_one_budget(root):
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", _RESERVE_ALL, root.path, f"v{n}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for n in range(4)
    ]  # fmt: skip
    said = [program.communicate() for program in programs]
    assert [error for _, error in said] == [""] * 4
    granted = [int(output) for output, _ in said]
    assert sum(granted) == 50
    assert spent(root, BudgetConfig(max_trials=50)).n_trials == 50
    assert spent(root, BudgetConfig(max_trials=50)).open == {}
