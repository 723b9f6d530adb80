# SPDX-License-Identifier: Apache-2.0
"""Signing writes pins that hold, where they belong, and touches no other character."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import ConfigError, PinError
from metric_benchmark.hashing import digest_file, digest_folder
from metric_benchmark.pins import set_pins, sign_experiment

ONE, TWO = "1a" * 32, "2b" * 32


def test_signing_makes_an_experiment_loadable(unsigned):
    with pytest.raises(PinError):
        load_experiment("exp")
    signed = sign_experiment("exp")
    # Description, subsets, three tasks, and the case file itself.
    assert signed.n_pins == 6
    assert [path.name for path in signed.changed] == ["case.yaml", "cases.yaml"]
    case = load_experiment("exp").cases[0].config
    assert case.tasks[0].sha256 == digest_folder(unsigned.folder / "tasks/alpha")
    assert case.description.sha256 == digest_file(unsigned.folder / "description.yaml")


def test_a_second_signature_changes_nothing(project):
    before = project.snapshot()
    assert sign_experiment("exp").changed == ()
    assert project.snapshot() == before


def test_only_pins_differ_from_the_unsigned_file(unsigned):
    text = unsigned.read("case.yaml").replace("tasks:\n", "# all of them\ntasks: # three\n")
    unsigned.write("case.yaml", text)
    unsigned.sign()
    signed = unsigned.read("case.yaml")
    assert len(re.findall("[0-9a-f]{64}", signed)) == 5
    assert re.sub(r"(, |\n    )sha256: [0-9a-f]{64}", "", signed) == text


def test_a_change_is_signed_again_in_place(project):
    before = project.read("case.yaml")
    project.write("tasks/beta/instruction.md", "Something else.\n")
    assert [path.name for path in sign_experiment("exp").changed] == ["case.yaml", "cases.yaml"]
    changed = [
        (old, new)
        for old, new in zip(before.splitlines(), project.read("case.yaml").splitlines(), strict=True)
        if old != new
    ]
    assert len(changed) == 1
    assert changed[0][1].startswith("  - {id: beta, path: tasks/beta, sha256: ")


def test_a_bundle_is_pinned_where_it_is_named(unsigned):
    unsigned.write("agent/agent.py", "class A: ...\n")
    agent = "agent:\n    bundle:\n      path: agent # mine\n    entry: 'agent:A'"
    unsigned.edit(
        "case.yaml", ("agent: {name: oracle}", agent), ("action_budget, params: {max_actions: 1}", "early_stop")
    )
    unsigned.sign()
    digest = digest_folder(unsigned.folder / "agent")
    assert f"      path: agent # mine\n      sha256: {digest}\n    entry:" in unsigned.read("case.yaml")


def test_problems_other_than_pins_stop_it_before_anything_is_written(unsigned):
    unsigned.edit("case.yaml", ("id: short", "id: baseline"))
    before = unsigned.snapshot()
    with pytest.raises(ConfigError, match="reserved"):
        sign_experiment("exp")
    assert unsigned.snapshot() == before


def test_a_link_out_of_a_pinned_folder_is_refused(unsigned, tmp_path):
    (tmp_path / "secret").write_text("x")
    (unsigned.folder / "tasks/alpha/environment/link").symlink_to(tmp_path / "secret")
    with pytest.raises(PinError, match=r"environment/link: a symbolic link that leaves the pinned folder"):
        sign_experiment("exp")


def test_file_modes_are_kept(unsigned):
    path = unsigned.folder / "case.yaml"
    path.chmod(0o640)
    unsigned.sign()
    assert path.stat().st_mode & 0o777 == 0o640


LAYOUTS = {
    "one line": ("a: {path: x}\n", f"a: {{path: x, sha256: {ONE}}}\n"),
    "one line, path first": ("a: {path: x, id: 1} # why\n", f"a: {{path: x, sha256: {ONE}, id: 1}} # why\n"),
    "one line, signed": (f"a: {{path: x, sha256: {TWO}}}\n", f"a: {{path: x, sha256: {ONE}}}\n"),
    "one line, pin first": (f"a: {{sha256: {TWO}, path: x}}\n", f"a: {{sha256: {ONE}, path: x}}\n"),
    "braces over lines": ("a: {id: 1,\n    path: x}\n", f"a: {{id: 1,\n    path: x, sha256: {ONE}}}\n"),
    "braces over lines, signed": (
        f"a: {{path: x,\n    sha256: {TWO}}}\n",
        f"a: {{path: x,\n    sha256: {ONE}}}\n",
    ),
    "block": ("a:\n  path: x\nb: 1\n", f"a:\n  path: x\n  sha256: {ONE}\nb: 1\n"),
    "block, with comments": (
        "a:\n  # here\n  path: x   # there\n\nb: 1\n",
        f"a:\n  # here\n  path: x   # there\n  sha256: {ONE}\n\nb: 1\n",
    ),
    "block, signed, with comment": (
        f"a:\n  sha256: {TWO} # by me\n  path: x\n",
        f"a:\n  sha256: {ONE} # by me\n  path: x\n",
    ),
    "block, quoted": (f"a:\n  path: 'x'\n  sha256: '{TWO}'\n", f"a:\n  path: 'x'\n  sha256: {ONE}\n"),
    "block, key without value": ("a:\n  path: x\n  sha256:\nb: 1\n", f"a:\n  path: x\n  sha256: {ONE}\nb: 1\n"),
    "no last newline": ("a:\n  path: x", f"a:\n  path: x\n  sha256: {ONE}"),
    "lines of another system": ("a:\r\n  path: x\r\nb: 1\r\n", f"a:\r\n  path: x\r\n  sha256: {ONE}\r\nb: 1\r\n"),
    "with a byte order mark": ("\ufeffa: {path: x}\n", f"\ufeffa: {{path: x, sha256: {ONE}}}\n"),
    "other alphabets before it": ("é: ü\na: {path: 日}\n", f"é: ü\na: {{path: 日, sha256: {ONE}}}\n"),
}


@pytest.mark.parametrize(("before", "after"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_pin_is_set_in_every_layout(before, after):
    assert set_pins(before, [(("a",), ONE)]) == after
    assert set_pins(after, [(("a",), ONE)]) == after


def test_the_first_key_of_a_list_entry():
    assert (
        set_pins("cases:\n  - path: x\n  - path: y\n", [(("cases", 0), ONE), (("cases", 1), TWO)])
        == f"cases:\n  - path: x\n    sha256: {ONE}\n  - path: y\n    sha256: {TWO}\n"
    )


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "id": st.from_regex(r"[a-z]{1,5}", fullmatch=True),
                "path": st.from_regex(r"[a-z/ #']{1,9}", fullmatch=True),
            },
            optional={"sha256": st.just(TWO), "note": st.text("ab:#\n'\" ", max_size=9)},
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_nothing_but_the_pins_changes_whatever_the_values_are(entries, is_flow):
    before = yaml.safe_dump({"cases": entries}, default_flow_style=is_flow, sort_keys=False)
    after = set_pins(before, [(("cases", n), ONE) for n in range(len(entries))])
    assert yaml.safe_load(after) == {"cases": [{**entry, "sha256": ONE} for entry in entries]}
