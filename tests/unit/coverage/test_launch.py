# SPDX-License-Identifier: Apache-2.0
"""Foreign programs are bounded in time and output, leave nothing running, and cannot see hidden folders."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from metric_benchmark.coverage import launch as launch_module
from metric_benchmark.coverage.launch import can_isolate, launch, minimal_environment

needs_namespaces = pytest.mark.skipif(not can_isolate(), reason="no namespaces on this machine")


@pytest.fixture(params=[pytest.param(True, marks=needs_namespaces), False], ids=["isolated", "plain"])
def isolated(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(launch_module, "can_isolate", lambda: False)
    return request.param


def run(tmp_path: Path, script: str, **more):
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    given = {"timeout_s": 20, "max_stdout_bytes": 1000, "stdin": b"", **more}
    environment = minimal_environment(folder, given.pop("env", ()))
    return launch(["sh", "-c", script], cwd=folder, environment=environment, **given)


@pytest.mark.usefixtures("isolated")
def test_stdin_stdout_stderr_and_status_pass_through(tmp_path):
    found = run(tmp_path, "cat; echo oh >&2; exit 3", stdin=b"hello")
    assert (found.ended, found.returncode, found.stdout, found.stderr) == ("exit", 3, b"hello", b"oh\n")


@pytest.mark.usefixtures("isolated")
def test_a_program_that_is_killed_says_by_what(tmp_path):
    assert run(tmp_path, "kill -9 $$").returncode == -9


@pytest.mark.usefixtures("isolated")
def test_a_program_that_hangs_is_killed(tmp_path):
    begun = time.monotonic()
    found = run(tmp_path, "echo begun; sleep 60", timeout_s=0.5)
    assert (found.ended, found.stdout) == ("timeout", b"begun\n")
    assert time.monotonic() - begun < 10


@pytest.mark.usefixtures("isolated")
def test_what_a_program_started_is_killed_with_it(tmp_path):
    # The background process would touch the file after the program has ended, and holds its pipes open.
    begun = time.monotonic()
    found = run(tmp_path, "(sleep 1; touch late) & echo done")
    assert (found.ended, found.stdout) == ("exit", b"done\n")
    assert time.monotonic() - begun < 0.9
    time.sleep(1.3)
    assert not (tmp_path / "work" / "late").exists()


@pytest.mark.usefixtures("isolated")
def test_a_program_that_writes_too_much_is_killed(tmp_path):
    found = run(tmp_path, "yes")
    assert found.ended == "too_much_output"
    assert len(found.stdout) < 100_000


@pytest.mark.usefixtures("isolated")
def test_only_the_end_of_stderr_is_kept(tmp_path):
    found = run(tmp_path, "yes | head -c 1000000 >&2; echo last >&2")
    assert found.ended == "exit"
    assert len(found.stderr) <= 256 * 1024
    assert found.stderr.endswith(b"last\n")


@pytest.mark.usefixtures("isolated")
def test_a_program_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        launch(
            ["no-such-program"],
            cwd=tmp_path,
            stdin=b"",
            environment=minimal_environment(tmp_path),
            timeout_s=5,
            max_stdout_bytes=10,
        )


@pytest.mark.usefixtures("isolated")
def test_the_environment_holds_what_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("WANTED", "1")
    monkeypatch.setenv("SECRET_KEY", "hush")
    found = run(tmp_path, "env", env=["WANTED"])
    names = {line.partition("=")[0] for line in found.stdout.decode().splitlines()}
    assert "WANTED" in names
    assert "SECRET_KEY" not in names


@needs_namespaces
def test_hidden_folders_are_empty_and_stay_so(tmp_path):
    secret = tmp_path / "evidence" / "analysis"
    secret.mkdir(parents=True)
    (secret / "mutant-scores.json").write_text("{}")
    script = f"ls -A {tmp_path}/evidence; umount {tmp_path}/evidence 2>/dev/null && echo uncovered; ls {secret}"
    found = run(tmp_path, script, hide=[tmp_path / "evidence", secret])
    assert found.stdout == b""
    assert found.returncode != 0
    assert (secret / "mutant-scores.json").exists()


@needs_namespaces
def test_a_folder_the_program_works_in_cannot_be_hidden(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").write_text("x")
    assert run(tmp_path, "ls", hide=[tmp_path]).stdout == b"mine\n"


@needs_namespaces
def test_other_processes_and_the_network_are_out_of_sight(tmp_path):
    found = run(tmp_path, "ls -d /proc/[0-9]* | wc -l; tail -n +3 /proc/net/dev | grep -vc ' lo:'")
    processes, interfaces = map(int, found.stdout.split())
    assert processes < 10
    assert interfaces == 0
