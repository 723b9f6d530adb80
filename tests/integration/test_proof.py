# SPDX-License-Identifier: Apache-2.0
"""`verify --deep` on real trials: what is sound, what is not, and that nothing is paid for twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from metric_benchmark.cli import main

pytestmark = pytest.mark.harbor


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words) -> tuple[int, dict]:
        capsys.readouterr()
        status = main([*map(str, words), "--json"])
        return status, json.loads(capsys.readouterr().out)

    return run


def found(answer: dict, state: str) -> list[tuple[str, str]]:
    return [(f["check"], f["subject"]) for f in answer["findings"] if f["state"] == state]


def test_a_sound_case_and_what_its_proof_leaves_for_the_experiment(tiny, tmp_path, call):
    out = tmp_path / "out"
    status, answer = call("verify", tiny.path, "--deep", "--output", out)
    assert (status, answer["is_sound"]) == (0, True)
    # Oracle, nop, baseline, screening and one control on two tasks.
    assert (answer["n_run"], answer["n_kept"]) == (10, 0)
    assert {f["check"] for f in answer["findings"]} == {
        "oracle", "nop", "reliable", "controls", "operators", "inert", "metrics", "subsets",
    }  # fmt: skip
    assert found(answer, "skipped") == [("inert", "")]

    _, again = call("verify", tiny.path, "--deep", "--output", out)
    assert (again["n_run"], again["n_kept"]) == (0, 10)

    # The experiment runs its mutants only, and the proof's probes are none of its variants.
    _, evals = call("run-evals", tiny.path, "--output", out)
    assert (evals["n_run"], evals["n_kept"]) == (4, 6)
    index = json.loads((out / "execution/tiny/results.json").read_text())
    assert sorted(index["variants"]) == ["baseline", "control-1", "idle", "no-actions", "screening"]

    before = (out / "execution/tiny/results.json").read_bytes()
    _, after = call("verify", tiny.path, "--deep", "--output", out)
    assert found(after, "skipped") == []
    assert [f["found"] for f in after["findings"] if f["check"] == "inert"] == [
        "2 of 2 mutants that ran behave unlike the baseline"
    ]
    assert (out / "execution/tiny/results.json").read_bytes() == before

    # A changed task would have its trials run again: not without being told to.
    (tiny.folder / "tasks/one/instruction.md").write_text("Write one.\n")
    tiny.sign()
    assert main(["verify", str(tiny.path), "--deep", "--output", str(out)]) == 2
    _, accepted = call("verify", tiny.path, "--deep", "--output", out, "--accept-changes")
    assert (accepted["n_run"], accepted["n_kept"]) == (5, 5)


def test_everything_that_is_wrong_with_a_case_is_found_in_one_go(tiny, tmp_path, call, capsys):
    one, two = tiny.folder / "tasks/one", tiny.folder / "tasks/two"
    (one / "tests/test.sh").write_text("#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n")
    (two / "solution/solve.sh").write_text("#!/bin/bash\ntrue\n")
    (tiny.folder / "flat.py").write_text(
        "from metric_benchmark.coverage.protocol import OpaqueCoverage\n"
        "class Flat:\n    needs_traces = False\n"
        "    def measure(self, request):\n"
        "        return OpaqueCoverage(subsets=dict.fromkeys(request.subsets, 0.5))\n"
        "class Broken(Flat):\n"
        "    def measure(self, request):\n        raise ValueError('no such thing')\n"
    )
    metrics = [{"name": "flat", "metric": "flat:Flat"}, {"name": "broken", "metric": "flat:Broken"}]
    tiny.edit("analysis.yaml", lambda a: a.update(coverage=metrics))
    subsets = [{"id": "first", "tasks": ["one"]}, {"id": "second", "tasks": ["two"]}]
    tiny.edit("subsets.yaml", lambda s: s.update(subsets=subsets))
    tiny.sign()
    status, answer = call("verify", tiny.path, "--deep")
    assert (status, answer["is_sound"]) == (2, False)
    assert found(answer, "failed") == [("oracle", "two"), ("nop", "one"), ("metrics", "flat"), ("metrics", "broken")]
    # The baseline is the oracle here.
    assert found(answer, "warning") == [("reliable", "two"), ("subsets", "")]
    # Without --output its trials are kept in the user's cache.
    assert answer["evidence"].startswith(str(tmp_path / "cache/metric-benchmark/verify/tiny-"))
    assert main(["verify", str(tiny.path), "--deep"]) == 2
    text = capsys.readouterr().out
    assert "10 kept" in text
    assert "  nop: have its tests check what the agent must bring about" in text
    assert "experiment tiny: not sound (4 failed, 2 warning" in text


def test_an_agent_that_fails_is_shown_with_the_place_of_its_traceback(tiny, call, tmp_path):
    (tiny.folder / "agent").mkdir()
    (tiny.folder / "agent/agent.py").write_text(
        "from harbor.agents.nop import NopAgent\n"
        "class Agent(NopAgent):\n"
        "    async def run(self, instruction, environment, context):\n        raise KeyError('typo')\n"
    )
    tiny.edit("case.yaml", lambda c: c["baseline"].update(agent={"bundle": {"path": "agent"}, "entry": "agent:Agent"}))
    tiny.edit("case.yaml", lambda c: c["mutants"].pop())
    tiny.sign()
    status, answer = call("verify", tiny.path, "--deep", "--output", tmp_path / "out")
    (shown,) = [f for f in answer["findings"] if f["check"] == "reliable" and f["state"] == "warning"]
    assert status == 2
    assert shown["found"] == "6 of 6 trials of the baseline's agent ended in KeyError: 'typo'"
    text = Path(shown["remedy"].removeprefix("correct the agent; for the traceback see ")).read_text()
    assert "raise KeyError('typo')" in text


def test_a_trial_without_a_verdict_leaves_the_proof_open(tiny, call):
    (tiny.folder / "tasks/one/tests/test.sh").write_text("#!/bin/bash\ntrue\n")
    tiny.edit("execution.yaml", lambda e: e.update(infrastructure_retries=0))
    tiny.sign()
    status, answer = call("verify", tiny.path, "--deep")
    assert status == 4
    assert found(answer, "unknown") == [("oracle", "one"), ("nop", "one"), ("reliable", "one")]
    assert found(answer, "failed") == []
    told = [f for f in answer["findings"] if f["state"] == "unknown"]
    assert {f["found"] for f in told} == {"tests/test.sh wrote no /logs/verifier/reward.txt (or reward.json)"}
    for finding in told:
        remedy, _, places = finding["remedy"].partition(" What it printed: ")
        assert remedy == (
            "have tests/test.sh of task one write a reward whatever happens (`echo 0`), and sign; to run the same "
            "again is no remedy."
        )
        printed, _, error = places.partition("; the error: ")
        assert Path(printed).is_file()
        assert "RewardFileNotFoundError" in Path(error).read_text()


def test_one_case_is_proved_alone(tiny, call, capsys):
    """The second case has a solution that fails, which the first has nothing to do with."""
    (tiny.folder / "tasks/bad").mkdir()
    shutil.copytree(tiny.folder / "tasks/two", tiny.folder / "tasks/bad", dirs_exist_ok=True)
    (tiny.folder / "tasks/bad/solution/solve.sh").write_text("#!/bin/bash\ntrue\n")
    other = tiny.read("case.yaml") | {"case_id": "other", "tasks": [{"id": "bad", "path": "tasks/bad"}]}
    other["subsets"] = {"path": "other.yaml"}
    tiny.write("other-case.yaml", other)
    tiny.write("other.yaml", tiny.read("subsets.yaml") | {"subsets": [{"id": "all", "tasks": ["bad"]}]})
    tiny.edit("cases.yaml", lambda c: c["cases"].append({"path": "other-case.yaml"}))
    tiny.sign()
    status, answer = call("verify", tiny.path, "--deep", "--case", "tiny")
    assert (status, answer["is_sound"], answer["n_run"]) == (0, True, 10)
    assert {f["case"] for f in answer["findings"]} == {"tiny"}
    status, answer = call("verify", tiny.path, "--deep", "--case", "other")
    assert (status, found(answer, "failed")[0]) == (2, ("oracle", "bad"))
    assert main(["verify", str(tiny.path), "--deep", "--case", "othr"]) == 2
    assert "othr" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--output", "out"], ["--case", "tiny"], ["--accept-changes"]])
def test_what_goes_with_deep_is_refused_without_it(tiny, words):
    assert main(["verify", str(tiny.path), *words]) == 2
