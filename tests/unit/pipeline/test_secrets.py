# SPDX-License-Identifier: Apache-2.0
"""Which variables are searched: every one an experiment's files refer to, wherever, and keys agents take unasked."""

from __future__ import annotations

import pytest

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import SecretError
from metric_benchmark.pipeline.secrets import describe_states, referenced_variables, search_secrets, search_states


def test_variables_are_found_wherever_a_file_refers_to_them(project):
    project.edit("case.yaml", ("agent: {name: oracle}", 'agent: {name: oracle, env: {A_KEY: "${BASELINE_VAR}"}}'))
    project.edit("case.yaml", ("agent: {name: nop}", 'agent: {name: nop, kwargs: {deep: ["x ${MUTANT_VAR:-none} y"]}}'))
    project.edit("execution.yaml", ("environment: docker", 'environment: {type: docker, env: {B: "${PLACE_VAR}"}}'))
    project.edit(
        "analysis.yaml",
        ("  - {name: suite_size}", "  - {name: mine, metric: command, settings: {argv: [x], env: [METRIC_VAR]}}"),
    )
    project.edit("tasks/alpha/task.toml", ("[environment]", '[verifier]\nenv = { C = "${TASK_VAR}" }\n[environment]'))
    project.sign()
    expected = ("BASELINE_VAR", "METRIC_VAR", "MUTANT_VAR", "PLACE_VAR", "TASK_VAR")
    assert referenced_variables(load_experiment(project.folder)) == expected


def test_an_experiment_without_references_needs_no_search(project):
    assert referenced_variables(load_experiment(project.folder)) == ()


def test_what_is_not_searched_is_said():
    states = search_states(["A", "B", "C", "D"], {"A": "long-enough", "B": "short", "C": ""})
    assert states == {"A": "searched", "B": "too_short", "C": "not_set", "D": "not_set"}
    assert describe_states(states) == [
        "${B} is shorter than 6 characters, so its value was not searched in the evidence",
        "${C} is not set here, so its value was not searched in the evidence",
        "${D} is not set here, so its value was not searched in the evidence",
    ]


def test_what_holds_no_secret_is_not_searched(tmp_path):
    (tmp_path / "log").write_text("some-value")
    assert search_secrets(["A"], [tmp_path], environ={"A": "some-value"}, public=["A"]) == {"A": "public"}
    assert describe_states({"A": "public"}) == []


def test_the_password_in_a_public_url_is_searched(tmp_path):
    environ = {"SITE": "https://me:hunter2x@host/v1"}
    (tmp_path / "log").write_text("GET https://host/v1 as me")
    assert search_secrets(["SITE"], [tmp_path], environ=environ, public=["SITE"]) == {"SITE": "searched"}
    (tmp_path / "log").write_text("GET https://me:hunter2x@host/v1")
    with pytest.raises(SecretError, match=r"log: holds the value of \$\{SITE\}"):
        search_secrets(["SITE"], [tmp_path], environ=environ, public=["SITE"])


KEY = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("amqp://u:first-pass@a,amqp://u:second-pass@b", "first-pass"),
        ("amqp://u:first-pass@a,amqp://u:second-pass@b", "second-pass"),
        (f"https://{KEY}@github.com", KEY),
        (f"https://host/?key={KEY}", KEY),
    ],
)
def test_every_password_and_key_in_a_public_value_is_searched(tmp_path, value, secret):
    (tmp_path / "log").write_text("u at a, b, host and github.com")
    assert search_secrets(["SITE"], [tmp_path], environ={"SITE": value}, public=["SITE"]) == {"SITE": "searched"}
    (tmp_path / "log").write_text(f"found {secret}.")
    with pytest.raises(SecretError, match=r"log: holds the value of \$\{SITE\}"):
        search_secrets(["SITE"], [tmp_path], environ={"SITE": value}, public=["SITE"])


def test_one_password_too_short_to_be_searched_is_said():
    environ = {"SITE": "amqp://u:first-pass@a,amqp://u:pw@b"}
    assert search_states(["SITE"], environ, public=["SITE"]) == {"SITE": "too_short"}


@pytest.mark.parametrize(
    ("name", "value", "is_searched"),
    [
        ("OPENAI_API_KEY", "k" * 16, True),
        ("AWS_SECRET_ACCESS_KEY", "k" * 16, True),
        ("CLAUDE_CODE_OAUTH_TOKEN", "k" * 16, True),
        ("OPENAI_API_KEY", "k" * 15, False),
        ("CACHE_KEY", "k" * 16, False),
        ("HOME", "k" * 16, False),
    ],
)
def test_keys_of_providers_are_searched_unasked(tmp_path, name, value, is_searched):
    (tmp_path / "log").write_text(value)
    if not is_searched:
        assert search_secrets([], [tmp_path], environ={name: value}) == {}
        return
    with pytest.raises(SecretError) as found:
        search_secrets([], [tmp_path], environ={name: value})
    assert str(found.value).splitlines()[0] == f"{tmp_path / 'log'}: holds the value of ${{{name}}}"


def test_many_hits_are_counted_after_the_first_fifty(tmp_path):
    for number in range(60):
        (tmp_path / f"log-{number}").write_text("some-value")
    with pytest.raises(SecretError) as found:
        search_secrets(["A"], [tmp_path], environ={"A": "some-value"})
    assert len(found.value.problems) == 52
    assert str(found.value.problems[50]) == "and 10 more"
