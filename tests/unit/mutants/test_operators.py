# SPDX-License-Identifier: Apache-2.0
"""Each operator changes a real run's trace as its fault model says, and leaves the rest alone."""

from __future__ import annotations

from typing import Any

import pytest

LOOKUP = "Read it with `cat data.txt`. Count with `wc -l < data.txt`. Write with `sort data.txt > out.txt`."
DATA = {"data.txt": "beta 2\nalpha 1\ngamma 3\n"}

#: For each operator, settings under which it does not come to act on LOOKUP.
IDENTITIES: list[tuple[str, dict[str, Any]]] = [
    ("action_budget", {"max_actions": 4}),
    ("early_stop", {"after_actions": 5}),
    ("early_stop", {"after_actions": 1, "counting": "error"}),
    ("observation_degradation", {"how": "truncate", "keep_chars": 100}),
    ("tool_removal", {"commands": ["grep", "sor"]}),
    ("stale_observation", {"every": 5}),
    ("memory_amnesia", {"keep": 0, "every": 5}),
    ("dropped_instruction", {"sentence": 4}),
    ("write_corruption", {"how": "empty", "files": "*.csv"}),
    ("truncated_instruction", {"keep_sentences": 3}),
    ("misread_number", {}),
    ("tool_error", {"every": 1, "commands": ["grep"]}),
    ("error_blindness", {}),
    ("memory_reset", {"after_actions": 5}),
    ("skipped_action", {"every": 5}),
    ("duplicated_action", {"commands": ["ls"]}),
]


@pytest.mark.parametrize(("operator", "params"), IDENTITIES)
def test_operator_that_does_not_fire_leaves_the_run_as_it_is(run_probe, operator, params):
    bare = run_probe(LOOKUP, files=DATA)
    mutant = run_probe(LOOKUP, operator, params, files=DATA)
    assert mutant.steps == bare.steps
    assert mutant.executed == bare.executed
    assert mutant.read("out.txt") == bare.read("out.txt") == "alpha 1\nbeta 2\ngamma 3\n"
    assert mutant.fired == 0


def test_hard_budget_ends_the_run_when_one_more_action_is_tried(run_probe):
    ran = run_probe(LOOKUP, "action_budget", {"max_actions": 2}, files=DATA)
    assert ran.executed == ["cat data.txt", "wc -l < data.txt"]
    assert ran.seen == ["beta 2\nalpha 1\ngamma 3\n", "3\n"]
    assert not (ran.folder / "out.txt").exists()
    assert ran.metadata["mutation"] == {
        "operator": "action_budget", "seed": 0, "fired": 1, "actions": 3, "stopped": "action budget used up",
    }  # fmt: skip


def test_soft_budget_fails_further_actions_without_running_them(run_probe):
    ran = run_probe(LOOKUP, "action_budget", {"max_actions": 2, "mode": "soft"}, files=DATA)
    assert ran.executed == ["cat data.txt", "wc -l < data.txt"]
    assert ran.trace[2] == ("sort data.txt > out.txt", "action budget exhausted\n", 125)
    assert ran.fired == 2
    assert ran.metadata["mutation"]["stopped"] is None


def test_budget_of_zero_does_nothing_at_all(run_probe):
    ran = run_probe(LOOKUP, "action_budget", {"max_actions": 0}, files=DATA)
    assert ran.executed == []
    assert ran.trace == []


def test_early_stop_carries_out_the_last_action_but_never_shows_it(run_probe):
    ran = run_probe(LOOKUP, "early_stop", {"after_actions": 3}, files=DATA)
    assert ran.read("out.txt") == "alpha 1\nbeta 2\ngamma 3\n"
    assert len(ran.trace) == 2


@pytest.mark.parametrize(("counting", "executed"), [("any", 1), ("empty", 2), ("error", 3)])
def test_early_stop_counts_only_its_kind_of_action(run_probe, counting, executed):
    text = "`echo 1` `true` `cat missing` `echo 2`"
    ran = run_probe(text, "early_stop", {"after_actions": 1, "counting": counting})
    assert len(ran.executed) == executed


def test_truncation_keeps_the_start_of_both_streams(run_probe):
    ran = run_probe("`echo abcdef; echo ghij >&2`", "observation_degradation", {"how": "truncate", "keep_chars": 3})
    assert ran.seen[0] == "abcghi"


def test_garbling_keeps_length_white_space_and_return_codes(run_probe):
    params = {"how": "garble", "garble_frac": 1.0}
    ran = run_probe("`echo 'Abc 12-x'; exit 3`", "observation_degradation", params)
    garbled = ran.seen[0]
    assert [type_of(c) for c in garbled] == [type_of(c) for c in "Abc 12-x\n"]
    assert all(new != old for new, old in zip(garbled, "Abc 12-x\n", strict=True) if old.isalnum())
    assert ran.trace[0][2] == 3


def type_of(char: str) -> str:
    return "d" if char.isdigit() else "u" if char.isupper() else "l" if char.islower() else char


def test_garbling_depends_on_seed_and_content_only(run_probe):
    params = {"how": "garble", "garble_frac": 0.5}
    text = "`echo abcdefghijklmnopqrstuvwxyz` `echo abcdefghijklmnopqrstuvwxyz`"
    first = run_probe(text, "observation_degradation", params, seed=1)
    assert run_probe(text, "observation_degradation", params, seed=1).steps == first.steps
    assert run_probe(text, "observation_degradation", params, seed=2).seen[0] != first.seen[0]
    assert run_probe(text + ".", "observation_degradation", params, seed=1).seen[0] != first.seen[0]
    assert first.seen[0] != first.seen[1]


def test_removed_tool_answers_like_a_shell_and_nothing_runs(run_probe):
    ran = run_probe("`echo x > f` `cat f | grep x > g` `ls`", "tool_removal", {"commands": ["grep"]})
    assert ran.trace[1] == ("cat f | grep x > g", "bash: grep: command not found\n", 127)
    assert not (ran.folder / "g").exists()
    assert ran.trace[2][1] == "f\n"
    assert ran.fired == 1


def test_stale_observation_shows_every_nth_the_one_before(run_probe):
    text = "`echo a` `echo b` `echo c` `sh -c 'echo d; exit 4'` `echo e` `echo f`"
    ran = run_probe(text, "stale_observation", {"every": 2})
    assert ran.seen[:6] == ["a\n", "a\n", "c\n", "c\n", "e\n", "e\n"]
    assert [code for *_, code in ran.trace[:6]] == [0] * 6
    assert len(ran.executed) == 7


def test_always_stale_observation_is_late_by_one(run_probe):
    ran = run_probe("`echo a` `echo b` `echo c`", "stale_observation", {"every": 1})
    assert ran.seen == ["a\n", "a\n", "b\n", "c\n"]


@pytest.mark.parametrize(
    ("keep", "every", "remembered"),
    # 4 observations; the newest one of each action is remembered after the forgetting
    [(0, 1, 1), (2, 1, 3), (0, 3, 2), (9, 1, 4)],
)
def test_amnesia_leaves_only_recent_observations(run_probe, keep, every, remembered):
    params = {"keep": keep, "every": every}
    ran = run_probe("`echo a` `echo b` `echo c` `echo d`", "memory_amnesia", params)
    assert ran.read("memory.txt") == f"{remembered}\n"


def test_amnesia_cannot_act_on_an_agent_without_the_hook(run_probe):
    with pytest.raises(Exception, match=r"memory_amnesia cannot act on forgetless: it has no forget\(\)"):
        run_probe("", "memory_amnesia", {"keep": 1}, agent={"import_path": "probe_agent:ForgetlessAgent"})


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (2, "Read it with `cat data.txt`. Write with `sort data.txt > out.txt`."),
        (-1, "Read it with `cat data.txt`. Count with `wc -l < data.txt`. "),
    ],
)
def test_dropped_sentence_is_not_acted_on(run_probe, sentence, expected):
    ran = run_probe(LOOKUP, "dropped_instruction", {"sentence": sentence}, files=DATA)
    assert ran.instruction == expected
    assert len(ran.executed) == 3
    assert ran.fired == 1


def test_randomly_dropped_sentence_is_drawn_by_the_seed(run_probe):
    left = {
        run_probe(LOOKUP, "dropped_instruction", {"sentence": "random"}, seed=seed, files=DATA).instruction
        for seed in range(12)
    }
    assert len(left) == 3


@pytest.mark.parametrize(
    ("how", "content"),
    [
        ("drop_last_line", "alpha 1\nbeta 2\n"),
        ("off_by_one", "alpha 2\nbeta 3\ngamma 4\n"),
        ("empty", ""),
    ],
)
def test_corrupted_write_looks_successful_and_is_wrong(run_probe, how, content):
    bare = run_probe(LOOKUP, files=DATA)
    ran = run_probe(LOOKUP, "write_corruption", {"how": how, "files": "*out*"}, files=DATA)
    assert ran.read("out.txt") == content
    assert ran.trace == bare.trace
    assert ran.fired == 1


def test_corruption_every_second_write(run_probe):
    text = "`echo 1 > a` `cat a` `echo 1 > b` `echo 1 > c` `tee d < a`"
    ran = run_probe(text, "write_corruption", {"how": "off_by_one", "every": 2})
    assert [ran.read(name) for name in "abcd"] == ["1\n", "2\n", "1\n", "2\n"]


@pytest.mark.parametrize(
    "command",
    [
        "mkdir s && cd s && echo 19 > ../t.txt",
        "F=t.txt; echo 19 >> $F",
        "echo 19 > x && cp x t.txt",
        "echo 19 > t.txt; exit 7",
        "printf '19\\n' | tee t.txt",
        "echo 10 > t.txt && sed -i s/0/9/ t.txt",
        "echo 19 | dd of=t.txt status=none",
        "bash -c 'echo 19 > t.txt'",
        "cat <<'EOF' > t.txt\n19\nEOF",
        "echo 19 > x; mkdir d; cp x d; mv d/x t.txt",
    ],
)
def test_corruption_finds_the_written_file(run_probe, command):
    bare = run_probe(f"`{command}`")
    ran = run_probe(f"`{command}`", "write_corruption", {"how": "off_by_one"})
    assert bare.read("t.txt") == "19\n"
    assert ran.read("t.txt") in ("10\n", "11\n")  # a copy of a corrupted file is corrupted twice
    assert ran.trace == bare.trace


def test_truncated_instruction_ends_early(run_probe):
    ran = run_probe(LOOKUP, "truncated_instruction", {"keep_sentences": 1}, files=DATA)
    assert ran.instruction == "Read it with `cat data.txt`. "
    assert ran.executed == ["cat data.txt", "echo 1 > memory.txt"]


def test_shuffled_instruction_has_the_same_sentences_in_another_order(run_probe):
    orders = {tuple(run_probe(LOOKUP, "shuffled_instruction", seed=seed, files=DATA).executed[:3]) for seed in range(8)}
    own = ("cat data.txt", "wc -l < data.txt", "sort data.txt > out.txt")
    assert own not in orders
    assert len(orders) > 1
    assert all(sorted(order) == sorted(own) for order in orders)


@pytest.mark.parametrize(
    ("params", "command"),
    [
        ({"which": 1}, "head -n 3 data.txt"),
        ({"which": 1, "off_by": -5}, "head -n 0 data.txt"),
        ({"which": -1}, "head -n 2 data.txt"),
    ],
)
def test_misread_number_changes_one_number(run_probe, params, command):
    text = "Print `head -n 2 data.txt` for item-4, v1.2 and /a/7. There are 9."
    ran = run_probe(text, "misread_number", params, files=DATA)
    assert ran.executed[0] == command
    assert ran.instruction.endswith("9." if params["which"] == 1 else "There are 10.")
    assert "item-4, v1.2 and /a/7" in ran.instruction


def test_flaky_tool_fails_every_nth_call_without_running_it(run_probe):
    text = "`echo 1 >> f` `ls` `echo 2 >> f` `echo 3 >> f` `echo 4 >> f`"
    ran = run_probe(text, "tool_error", {"every": 2, "commands": ["echo"], "return_code": 11})
    assert ran.read("f") == "1\n3\n"
    assert ran.trace[2] == ("echo 2 >> f", "bash: fork: Resource temporarily unavailable\n", 11)
    assert ran.fired == 2


def test_blind_agent_sees_no_failure(run_probe):
    ran = run_probe("`echo partial; cat missing` `echo fine`", "error_blindness")
    assert [entry[1:] for entry in ran.trace[:2]] == [("", 0), ("fine\n", 0)]
    assert ran.fired == 1


@pytest.mark.parametrize(("after", "remembered"), [(1, 4), (2, 3), (4, 1), (9, 4)])
def test_memory_reset_forgets_once(run_probe, after, remembered):
    ran = run_probe("`echo a` `echo b` `echo c` `echo d`", "memory_reset", {"after_actions": after})
    assert ran.read("memory.txt") == f"{remembered}\n"
    assert ran.fired == (after <= 5)


def test_skipped_action_looks_done(run_probe):
    text = "`echo 1 > f` `cat f` `echo 2 > f` `cat f`"
    ran = run_probe(text, "skipped_action", {"every": 2, "commands": ["echo"]})
    assert ran.trace[2][1:] == ("", 0)
    assert ran.seen[3] == "1\n"


def test_duplicated_action_is_done_twice_and_seen_once(run_probe):
    ran = run_probe("`echo 1 >> f; wc -l < f` `cat f`", "duplicated_action", {"every": 3})
    assert ran.seen[:2] == ["1\n", "1\n"]
    ran = run_probe("`echo 1 >> f; wc -l < f` `cat f`", "duplicated_action", {"commands": ["wc"]})
    assert ran.seen[:2] == ["2\n", "1\n1\n"]
    assert ran.metadata["mutation"]["actions"] == 3
