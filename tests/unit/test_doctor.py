# SPDX-License-Identifier: Apache-2.0
"""The doctor says what works and what to do about what does not; never the value of a secret."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from metric_benchmark import doctor
from metric_benchmark.doctor import DOCKER, SANDBOX, Finding, can_run_trials, examine


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine where everything works; tests break parts of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "check_sandbox", lambda: [])
    monkeypatch.setattr(doctor, "running_sandboxes", lambda: [])
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    answers = {("docker", "version"): (0, "27.1\n", ""), ("docker", "compose"): (0, "2.29.0\n", "")}

    def run(command, **_):
        status, out, err = answers[tuple(command[:2])]
        return subprocess.CompletedProcess(command, status, out, err)

    monkeypatch.setattr(subprocess, "run", run)
    for name in doctor._CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    return answers


def by_name() -> dict[str, Finding]:
    return {finding.name: finding for finding in examine()}


def test_a_machine_where_everything_works(machine):
    found = by_name()
    assert {f.name for f in found.values() if f.state != "works"} == {"credentials"}
    assert (found[DOCKER].found, found["Docker Compose"].found) == ("27.1", "2.29.0")
    assert can_run_trials(found.values())


def test_an_engine_that_does_not_answer(machine):
    machine["docker", "version"] = (1, "\n", "Cannot connect to the Docker daemon\n")
    found = by_name()[DOCKER]
    assert (found.state, found.found) == ("broken", "Cannot connect to the Docker daemon")
    assert found.remedy


def test_an_engine_that_hangs(machine, monkeypatch):
    def hangs(command, **_):
        raise subprocess.TimeoutExpired(command, 10)

    monkeypatch.setattr(subprocess, "run", hangs)
    assert by_name()[DOCKER].found == "no answer within 10 s"


def test_neither_sandbox_nor_engine(machine, monkeypatch):
    monkeypatch.setattr(doctor, "check_sandbox", lambda: ["user namespaces are off", "no bash"])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = by_name()
    assert (found[SANDBOX].state, found[SANDBOX].found) == ("absent", "user namespaces are off; no bash")
    assert (found[DOCKER].state, found["Docker Compose"].state) == ("absent", "absent")
    assert not can_run_trials(found.values())


def test_the_names_of_credentials_are_shown_and_their_values_are_not(machine, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    found = by_name()
    assert found["credentials"].found == "set: OPENAI_API_KEY"
    assert "very-secret" not in repr(found)


def test_dagster_of_two_releases(machine, monkeypatch):
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name == "dagster-webserver" else real(name))
    found = by_name()["Dagster"]
    assert found.state == "broken"
    assert found.found.endswith("but dagster-webserver 1.0")


def test_a_folder_without_working_locks(machine, monkeypatch):
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    found = by_name()["file locks"]
    assert found.state == "broken"
    assert "no working locks" in found.found


def test_nothing_is_left_in_the_folder_that_was_tried(machine, tmp_path):
    examine()
    assert list(tmp_path.iterdir()) == []
