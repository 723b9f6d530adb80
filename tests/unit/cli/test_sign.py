# SPDX-License-Identifier: Apache-2.0
"""`sign` signs what can be signed, and says what else is wrong."""

from __future__ import annotations

ORACLE = "agent: {name: oracle}"


def test_what_else_is_wrong_is_told_and_signed_all_the_same(run, unsigned):
    unsigned.edit("case.yaml", (ORACLE, "agent: {name: claud-code}"))
    ended = run("sign", "exp")
    assert (ended.status, ended.errors) == (0, [])
    assert ended.out.endswith("6 pins hold\n")
    assert "baseline.agent.name: Harbor has no agent 'claud-code'; did you mean 'claude-code'?" in ended.err
    again = run("sign", "exp", "--json").json
    assert (again["n_pins"], again["changed"], len(again["problems"])) == (6, [], 1)


def test_nothing_is_said_of_an_experiment_that_can_be_run(run, unsigned):
    ended = run("sign", "exp")
    assert (ended.status, ended.err) == (0, "")
