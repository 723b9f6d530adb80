# SPDX-License-Identifier: Apache-2.0
"""Values of variables are searched in all evidence before a seal; what is found is named, never shown."""

from __future__ import annotations

import base64
import json
import urllib.parse

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.cli.app import main
from metric_benchmark.errors import SecretError
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.pipeline.sealing import seal_execution, seal_experiment
from metric_benchmark.records.analysis import ExperimentSeal

pytestmark = pytest.mark.harbor

ADVICE = (
    "nothing was sealed. Take the value for known to others and replace it at its provider; then blank it where it is "
    "in a log, or remove the folder of the variant (execution/<case>/<variant>), and run again. A variable that holds "
    "no secret may be listed under `public_variables` in the execution file"
)


def opened(finished):
    return coordinator.open_run(finished.experiment, finished.root.path)


def found(call, *arguments) -> list[str]:
    with pytest.raises(SecretError) as error:
        call(*arguments)
    assert error.value.exit_status == 8
    *hits, advice = [str(problem) for problem in error.value.problems]
    assert advice == ADVICE
    return hits


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (lambda v: v, ""),
        (lambda v: json.dumps({"note": v}), " (JSON-escaped)"),
        (lambda v: json.dumps(json.dumps({"note": v})), " (JSON-escaped twice)"),
        (lambda v: f"?token={urllib.parse.quote(v, safe='')}", " (URL-encoded)"),
        (lambda v: base64.b64encode(f"user:{v}".encode()).decode(), " (base64)"),
        (lambda v: v.encode().hex(), " (in hexadecimal)"),
        (lambda v: v.replace('"', "&quot;"), " (HTML-escaped)"),
    ],
    ids=["plain", "JSON", "JSON twice", "URL", "base64", "hexadecimal", "HTML"],
)
def test_a_value_in_a_log_fails_the_seal_in_any_form(finished, monkeypatch, form, said):
    token = 'tk-09/af+"Zq8='
    monkeypatch.setenv("MB_TEST_TOKEN", token)
    log = finished.trial() / "trial.log"
    log.write_text("x" * 5000 + form(token) + "\n")
    hits = found(seal_execution, opened(finished))
    assert hits == [f"{log}: holds the value of ${{MB_TEST_TOKEN}}{said}"]
    assert token not in str(hits)


@pytest.mark.parametrize("where", ["agent/new.txt", "artifacts/deep/x.bin", "verifier/test-stdout.txt", "../job.log"])
def test_every_file_of_a_job_is_searched(finished, where):
    path = (finished.trial("cut") / where).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xff\x00" * 700_000 + b'tk-09/af+"Zq8=')
    assert found(seal_execution, opened(finished)) == [f"{path}: holds the value of ${{MB_TEST_TOKEN}}"]


def test_names_of_files_are_searched_and_not_shown(finished, monkeypatch):
    monkeypatch.setenv("MB_TEST_TOKEN", "tk-09-af-Zq8")
    path = finished.trial() / "agent" / "tk-09-af-Zq8.txt"
    path.write_text("")
    assert found(seal_execution, opened(finished)) == [
        f"{path.with_name('***.txt')}: holds the value of ${{MB_TEST_TOKEN}} (in its name, plain)"
    ]


def test_the_analysis_is_searched_before_the_experiment_is_sealed(finished, capsys):
    path = finished.root.path / "coverage-cache/words/judge/answer.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"answer": 'tk-09/af+"Zq8='}))
    finished.root.experiment.unlink()
    assert found(seal_experiment, opened(finished)) == [f"{path}: holds the value of ${{MB_TEST_TOKEN}} (JSON-escaped)"]
    assert main(["run-experiment", str(finished.experiment), "--results", str(finished.root.path)]) == 8
    assert not finished.root.experiment.exists()
    printed = capsys.readouterr()
    assert f"error: {path}: holds the value of ${{MB_TEST_TOKEN}}" in printed.err
    assert "tk-09" not in printed.err + printed.out


def test_keys_agents_take_without_being_told_are_searched_too(finished, monkeypatch):
    """terminus-2 and LiteLLM read the provider's key from the environment; no file of the experiment names it."""
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "abcdefghijklmnop")
    log = finished.trial() / "trial.log"
    log.write_text("Authorization: Bearer abcdefghijklmnop\n")
    assert found(seal_execution, opened(finished)) == [f"{log}: holds the value of ${{SOME_PROVIDER_API_KEY}}"]


def test_what_is_not_searched_is_on_record(finished, monkeypatch):
    monkeypatch.setenv("MB_TEST_TOKEN", "ab12")
    (finished.trial() / "trial.log").write_text("ab12")
    seal_execution(opened(finished))
    assert seal_experiment(opened(finished)).secrets["MB_TEST_TOKEN"] == "too_short"
    monkeypatch.delenv("MB_TEST_TOKEN")
    assert seal_experiment(opened(finished)).secrets["MB_TEST_TOKEN"] == "not_set"


def test_a_variable_that_is_said_to_be_public_may_stand_in_the_evidence(finished):
    """Such as the address of a server: it differs from machine to machine, and agents log it."""
    (finished.trial() / "trial.log").write_text("POST http://10.0.0.7:8080/v1")
    seal_execution(opened(finished))
    assert seal_experiment(opened(finished)).secrets["MB_TEST_URL"] == "public"


def test_a_value_that_is_nowhere_is_on_record_as_searched(finished):
    found = read_record(finished.root.experiment, ExperimentSeal).secrets
    assert found == {"MB_TEST_TOKEN": "searched", "MB_TEST_URL": "public"}


def test_an_agent_that_leaks_its_token_is_caught_by_the_run_itself(words, tmp_path):
    """Nothing is planted here: the agent writes what it was given into its trajectory."""

    def careless(files):
        files["case.yaml"]["baseline"]["agent"]["kwargs"] = {"leak": True}
        files["case.yaml"]["tasks"] = files["case.yaml"]["tasks"][:1]
        files["case.yaml"]["mutants"] = files["case.yaml"]["mutants"][1:]
        files["subsets.yaml"]["subsets"] = files["subsets.yaml"]["subsets"][:1]
        del files["execution.yaml"]["roles"]["control"]

    experiment = words.write_experiment(tmp_path / "experiment", careless)
    done = words.call("run-experiment", experiment, "--output", tmp_path / "out", MB_TEST_TOKEN="tk-12345678")
    assert done.status == 8
    (path,) = (tmp_path / "out/execution/words/baseline").glob("*/jobs/run-1/one__*/agent/trajectory.json")
    assert done.errors == [f"{path}: holds the value of ${{MB_TEST_TOKEN}}", ADVICE]
    assert not (tmp_path / "out/execution.json").exists()
    ours = [p for p in (tmp_path / "out").rglob("*") if p.is_file() and p != path]
    assert [p for p in ours if b"tk-12345678" in p.read_bytes()] == []
