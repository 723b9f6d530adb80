# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: help, usage, exit statuses, streams, start-up time."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from metric_benchmark import errors
from metric_benchmark.cli import app as module

COMMANDS = [
    ["init"], ["sign"], ["verify"], ["plan"], ["mutants"], ["run-evals"], ["run-experiment"], ["score"], ["cover"],
    ["correlate"], ["status"], ["report"], ["doctor"], ["subsets", "generate"], ["check"], ["compare"],
    ["analyze-matrix"],
]  # fmt: skip


def test_help_names_every_command(run):
    ended = run("--help")
    assert ended.status == 0
    assert ended.err == ""
    for words in COMMANDS:
        assert re.search(rf"^  {words[0]} ", ended.out, re.MULTILINE)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_that_its_own_parser_takes(run, words):
    ended = run(*words, "--help")
    assert ended.status == 0
    text = " ".join(ended.out.split())
    examples = re.findall(r": metric-benchmark ((?:(?!: metric-benchmark).)+)", text)
    assert examples, "no example"
    for example in examples:
        assert example.startswith(" ".join(words))
        for option in re.findall(r"--[a-z-]+", example):
            assert re.search(rf"{option}\b", text.partition("Options:")[2]), option


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_that_prints_a_result_has_json(run, words):
    assert "--json" in run(*words, "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Usage: metric-benchmark"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["plan"], "Missing argument 'EXPERIMENT'"),
        (["plan", "x", "--nonsense"], "No such option: --nonsense"),
        (["run-evals", "x"], "Missing option '--output'"),
        (["subsets", "generate", "nowhere"], "does not exist"),
        (["run-experiment", "x"], "name the evidence root, or saved evidence by --results"),
        (["run-experiment", "x", "--results", "y", "--accept-changes"], "goes with running trials"),
    ],
)
def test_wrong_usage_is_status_2_and_says_what_is_wrong(run, words, message):
    ended = run(*words)
    assert ended.status == 2
    assert message in " ".join((ended.err + ended.out).split())
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("words", [["report"], ["check"], ["compare", "nowhere"]])
def test_evidence_that_is_not_there_is_status_3(run, words):
    ended = run(*words, "nowhere")
    assert (ended.status, ended.out) == (3, "")
    assert ended.errors == [
        "nowhere: no such folder; expected one that `metric-benchmark run-experiment --output` wrote to"
    ]


STATUSES = {
    errors.ConfigError: 2,
    errors.PinError: 2,
    errors.EvidenceError: 3,
    errors.ExecutionError: 4,
    errors.LockedError: 5,
    errors.MetricError: 6,
    errors.StorageError: 7,
    errors.SecretError: 8,
}


@pytest.mark.parametrize(("kind", "status"), STATUSES.items(), ids=lambda value: getattr(value, "__name__", value))
def test_every_error_has_its_exit_status_and_one_line_per_problem(run, monkeypatch, kind, status):
    def fails():
        raise kind([errors.Problem("a.yaml:3", "first"), "second"])

    monkeypatch.setattr("metric_benchmark.doctor.examine", fails)
    ended = run("doctor")
    assert ended.status == status
    assert ended.err == "error: a.yaml:3: first\nerror: second\n"
    assert ended.out == ""


def test_a_fault_of_ours_is_one_line_and_a_traceback_only_when_asked_for(run, monkeypatch):
    monkeypatch.setattr("metric_benchmark.doctor.examine", lambda: {}["no\nsuch"])
    ended = run("doctor")
    assert ended.status == 70
    assert ended.err == ("error: a fault of metric-benchmark itself: KeyError: 'no\\nsuch'; --debug shows where\n")
    for words in (["--debug", "doctor"], ["doctor", "--debug"]):
        ended = run(*words)
        assert ended.status == 70
        assert "Traceback" in ended.err
        assert ended.err.endswith("--debug shows where\n")


def test_a_traceback_is_shown_for_a_users_mistake_only_when_asked_for(run):
    assert "Traceback" not in run("plan", "nowhere").err
    ended = run("plan", "nowhere", "--debug")
    assert ended.status == 2
    assert "Traceback" in ended.err


def test_a_disk_that_is_full_somewhere_else_is_no_fault_of_ours(run, monkeypatch):
    def fails():
        raise OSError(errno.ENOSPC, "No space left on device", "/x/y")

    monkeypatch.setattr("metric_benchmark.doctor.examine", fails)
    ended = run("doctor")
    assert ended.status == 7
    assert ended.err.startswith("error: /x/y: cannot be written: No space left on device")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_stop_in_order_with_status_130(run, monkeypatch, number):
    cleaned = []

    def interrupted():
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        finally:
            cleaned.append(True)

    monkeypatch.setattr("metric_benchmark.doctor.examine", interrupted)
    before = signal.getsignal(number)
    ended = run("doctor")
    assert (ended.status, cleaned) == (130, [True])
    assert ended.err == f"{number.name}: stopping; trials that have a verdict are kept\n"
    assert signal.getsignal(number) == before


def test_ignored_signals_stay_ignored(run, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr("metric_benchmark.doctor.examine", lambda: os.kill(os.getpid(), signal.SIGHUP) or ())
        monkeypatch.setattr("metric_benchmark.doctor.can_run_trials", lambda _: True)
        assert run("doctor", "--json").status == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_version(run):
    from importlib.metadata import version

    assert run("--version").out == f"metric-benchmark {version('metric-benchmark')}\n"


def test_results_go_to_standard_output_alone_and_are_json_when_asked_for(run):
    ended = run("mutants", "--json")
    assert ended.err == ""
    names = [operator["name"] for operator in json.loads(ended.out)["operators"]]
    assert "action_budget" in names
    assert all(name in run("mutants").out for name in names)


def test_the_module_can_be_run_and_starts_fast():
    """Nothing heavy is imported before it is needed: help must not take half a second on an idle machine."""
    script = (
        "import sys; from metric_benchmark.cli import main; main(['--help']); "
        "print([m for m in ('harbor', 'scipy', 'numpy', 'pandas', 'pydantic', 'yaml', 'rich', 'jinja2') if m in "
        "sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == "[]\n"
    done = subprocess.run([sys.executable, "-m", "metric_benchmark", "frobnicate"], capture_output=True, text=True)
    assert done.returncode == 2


def test_a_shell_completes_commands_and_options(tmp_path):
    """What `--install-completion` has bash ask; the process's name decides which variable it asks by."""

    def complete(line: str) -> list[str]:
        asked = {
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - 1),
            "_METRIC_BENCHMARK_COMPLETE": "complete_bash",
        }
        command = [sys.executable, "-m", "metric_benchmark"]
        return subprocess.run(
            command, env=os.environ | asked, capture_output=True, text=True, check=True
        ).stdout.split()

    assert complete("metric-benchmark ver") == ["verify"]
    assert complete("metric-benchmark verify --de") == ["--deep"]


def test_no_colour_codes_outside_a_terminal(run, project):
    for words in (["--help"], ["plan", "exp"], ["mutants"], ["plan", "nowhere"], ["doctor"]):
        ended = run(*words)
        assert "\x1b" not in ended.out + ended.err


def test_statuses_of_the_design_are_those_of_the_module():
    assert (module.OWN_FAULT, module.INTERRUPTED) == (70, 130)
