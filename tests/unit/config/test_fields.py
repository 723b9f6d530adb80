# SPDX-License-Identifier: Apache-2.0
"""What is taken for a secret, and what is not."""

from __future__ import annotations

import pytest

from metric_benchmark.config.fields import check_slug, literal_secrets, looks_secret
from metric_benchmark.errors import ConfigError


@pytest.mark.parametrize(
    "key",
    [
        "OPENAI_API_KEY",
        "api-key",
        "apiKey",
        "Authorization",
        "db.password",
        "HF_TOKEN",
        "client_secret",
        "AUTH",
        "MYTOKEN",
        "DBPASSWORD",
        "SECRETS",
        "TOKENS",
        "api_keys",
        "OPENAIKEY",
        "keyboard_secret",
        "author_key",
    ],
)
def test_keys_of_secrets(key):
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "max_tokens",
        "monkey",
        "author",
        "keyboard",
        "tokenizer",
        "PATH",
        "secretary",
        "reward_key",
        "maxTokens",
        "max_output_tokens",
        "tokens_per_minute",
        "tokenizer_name",
        "authors",
    ],
)
def test_keys_that_only_look_alike(key):
    assert not looks_secret(key)


@pytest.mark.parametrize(
    "value",
    [
        "sk-proj-abcdefghijklmnop0123", "ghp_abcdefghijklmnopqrst1", "AKIAABCDEFGHIJKLMNOP", "xoxb-1234567890-x",
        "hf_abcdefghijklmnopqrst", "Bearer abcdefghijklmnop.qr", "see sk-ant-api03-abcdefghijklmnop here",
    ],
)  # fmt: skip
def test_values_of_secrets(value):
    assert [location for location, _ in literal_secrets({"args": [value]})] == [("args", 0)]


@pytest.mark.parametrize(
    "value",
    [
        {"OPENAI_API_KEY": "${OPENAI_API_KEY}"}, {"TOKEN": ""}, {"kwargs": {"max_tokens": "4096"}},
        {"text": "sk-short"}, {"u": "postgres://u:${PW}@h/d"}, {"use_auth": True}, {"max_tokens": 4096},
    ],
)  # fmt: skip
def test_what_may_be_written(value):
    assert list(literal_secrets(value)) == []


@pytest.mark.parametrize(
    ("value", "where", "why"),
    [
        ({"password": 31337}, ("password",), "the key 'password' looks like that of a secret"),
        ({"auth": {"pass": ["${X}", "y"]}}, ("auth", "pass", 1), "the key 'auth' looks like that of a secret"),
        ({"max_tokens": "abc"}, ("max_tokens",), "the key 'max_tokens' looks like that of a secret"),
        ({"u": "postgres://u:pw@h/d"}, ("u",), "the value looks like a URL with a password"),
        ({"k": "-----BEGIN RSA PRIVATE KEY-----\nMIIE"}, ("k",), "the value looks like a private key"),
        ({"j": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{'a' * 12}"}, ("j",), "the value looks like an API key"),
        ({"a": {"sk-ant-api03-abcdefghijklmnop": 1}}, ("a",), "a key of this mapping looks like an API key"),
    ],
)
def test_secrets_in_other_clothes(value, where, why):
    assert list(literal_secrets(value)) == [(where, why)]


def test_a_reference_inside_a_longer_text_is_no_reference():
    assert [why for _, why in literal_secrets({"AUTH": "Basic ${X}"})] == ["the key 'AUTH' looks like that of a secret"]


@pytest.mark.parametrize("name", ["", "A", "a b", "a|b", "-a", "a,b", "ä", "a" * 81, "../a", "a\n"])
def test_a_run_id_must_be_usable_as_a_name(name):
    with pytest.raises(ConfigError, match=r"the run id: .* is not usable as an id"):
        check_slug(name, "the run id")


def test_a_usable_run_id_comes_back():
    assert check_slug("2024.run_1-b", "the run id") == "2024.run_1-b"
