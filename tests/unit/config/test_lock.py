# SPDX-License-Identifier: Apache-2.0
"""What is a lock and what is not, and how a case with a runtime is loaded, pinned and keyed."""

from __future__ import annotations

import re

import pytest

from metric_benchmark.config import load_experiment
from metric_benchmark.config.lock import lock_problems, locked_packages
from metric_benchmark.errors import ConfigError, PinError
from metric_benchmark.variants import resolve_variants

LOCK = """\
# made by pip-compile
requests[socks]==2.32.0 \\
    --hash=sha256:00ff \\
    --hash=sha256:11ee
    # via agent
Some_Thing.else==1.0rc1+cpu ; python_version < "4" --hash=sha256:22dd  # why
"""


def test_a_lock():
    assert lock_problems(LOCK) == []
    assert locked_packages(LOCK) == {"requests": "2.32.0", "some-thing-else": "1.0rc1+cpu"}
    assert locked_packages("") == {}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\nrequests>=2\n", 2, "'requests>=2' is no exact version; write `name==version`"),
        ("requests\n", 1, "'requests' is no exact version"),
        ("a==1\nb~=2.0\n", 2, "'b~=2.0' is no exact version"),
        ("--index-url https://example.invalid/simple\n", 1, "--index-url is no pin; leave options out"),
        ("-e .\n", 1, "-e is no pin"),
        ("-r other.txt\n", 1, "-r is no pin"),
        ("./wheels/a.whl\n", 1, "'./wheels/a.whl' is not understood"),
        ("a @ https://example.invalid/a.whl\n", 1, "is not understood"),
        ("a==1.*\n", 1, "'a==1.*' is not understood"),
        ("a==1\nA==2\n", 2, "a is locked twice, first in line 1; keep one"),
        ("a==1 --hash=sha256:00ff\nb==1\n", 1, "some packages have a --hash and some have none"),
        ("a==1 \\\n  b\n", 1, "is not understood"),
    ],
)
def test_what_is_no_lock(text, line, message):
    ((found_line, found),) = lock_problems(text)
    assert (found_line, message in found) == (line, True), found


def test_a_package_may_be_locked_once_per_platform():
    text = 'a==1 ; sys_platform == "linux"\na==2 ; sys_platform != "linux"\n'
    assert lock_problems(text) == []


@pytest.fixture
def with_runtime(unsigned):
    unsigned.write("agent/agent.py", "class Agent: ...\n")
    unsigned.write("agent.lock", "toml==0.10.2\n")
    unsigned.edit(
        "case.yaml",
        (
            "agent: {name: oracle}",
            "agent:\n    bundle: {path: agent}\n    entry: 'agent:Agent'\n    runtime:\n      python: '3.12'\n"
            "      requirements: {path: agent.lock}",
        ),
    )
    unsigned.sign()
    return unsigned


def keys(project) -> dict[str, str]:
    variants = resolve_variants(load_experiment(project.folder))
    return {variant.variant_id: variant.trial_keys["alpha"] for variant in variants}


def test_the_lock_is_pinned_and_checked(with_runtime):
    assert with_runtime.read("case.yaml").count("sha256") == 7
    with_runtime.write("agent.lock", "toml==0.10.1\n")
    with pytest.raises(PinError, match=r"requirements\.sha256: agent\.lock has changed"):
        load_experiment(with_runtime.folder)
    # An analysis never looks at it.
    (with_runtime.folder / "agent.lock").unlink()
    load_experiment(with_runtime.folder, level="analysis")
    with pytest.raises(ConfigError, match=r"requirements lock agent\.lock does not exist"):
        load_experiment(with_runtime.folder)


def test_what_is_wrong_in_a_lock_is_said_with_its_line(with_runtime):
    with_runtime.write("agent.lock", "toml==0.10.1\nrequests\n")
    with pytest.raises(ConfigError, match=r"exp/agent\.lock:2: 'requests' is no exact version"):
        load_experiment(with_runtime.folder)


def test_a_runtime_is_part_of_the_keys_of_all_who_run_in_it(with_runtime):
    first = keys(with_runtime)
    with_runtime.write("agent.lock", "toml==0.10.1\n")
    with_runtime.sign()
    second = keys(with_runtime)
    assert {name for name in first if first[name] != second[name]} == {"baseline", "control-1", "short"}
    with_runtime.edit("case.yaml", ("python: '3.12'", "python: '3.12.1'"))
    with_runtime.sign()
    assert {name for name in first if keys(with_runtime)[name] != second[name]} == {"baseline", "control-1", "short"}
    found = {v.variant_id: v.runtime for v in resolve_variants(load_experiment(with_runtime.folder))}
    assert found["short"] == found["baseline"] is not None
    assert found["idle"] is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("'3.12'", "'3.11'", "found '3.11'; expected '3.12' or later"),
        ("'3.12'", "3.12", "python: found 3.12; expected a text"),
        ("'3.12'", "'3'", "runtime.python: found '3'"),
        ("bundle: {path: agent}\n    entry: 'agent:Agent'", "name: oracle", "only a `bundle` has a `runtime`"),
    ],
)
def test_a_runtime_that_makes_no_sense(with_runtime, old, new, message):
    text = with_runtime.read("case.yaml")
    text = re.sub(r"bundle: \{path: agent, sha256: \w+\}", "bundle: {path: agent}", text)
    assert old in text
    with_runtime.write("case.yaml", text.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        load_experiment(with_runtime.folder, verify=False)
    assert message in str(refused.value)
