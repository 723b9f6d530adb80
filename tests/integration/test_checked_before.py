# SPDX-License-Identifier: Apache-2.0
"""What cannot run is found in all variants before the first trial, each reason once, and nothing is written."""

from __future__ import annotations

import subprocess
import sys

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.errors import ConfigError
from metric_benchmark.execution.checking import check_variants
from metric_benchmark.variants import resolve_variants

pytestmark = pytest.mark.harbor

AGENT = """
from harbor.agents.nop import NopAgent

class Good(NopAgent):
    pass

class NeedsMore(Good):
    def __init__(self, *args, **kwargs):
        raise ValueError("what it needs is not here")
"""


def bundle(files, entry, code=AGENT, name="agent", **more):
    folder = files.folder / name
    folder.mkdir(exist_ok=True)
    (folder / "agent.py").write_text(code)
    return {"bundle": {"path": name}, "entry": f"agent:{entry}", **more}


def add_mutant(files, name, agent):
    mutant = {"id": name, "operator": f"external/{name}", "agent": agent}
    files.edit("case.yaml", lambda case: case["mutants"].append(mutant))


def refused(files, output):
    events = []
    with pytest.raises(ConfigError) as error:
        coordinator.run_evals(coordinator.open_run(files.path, output), on_progress=events.append)
    assert events == []
    assert not output.exists()
    return [str(problem) for problem in error.value.problems]


def test_all_that_is_wrong_with_any_variant_is_said_before_the_first_trial(tiny, tmp_path):
    add_mutant(tiny, "fine", bundle(tiny, "Good"))
    add_mutant(tiny, "needy", bundle(tiny, "NeedsMore"))
    add_mutant(tiny, "quits", bundle(tiny, "Any", "raise SystemExit(3)\n", "quits"))
    add_mutant(tiny, "poor", {"name": "nop", "env": {"TOKEN": "${MB_TEST_UNSET}"}})
    add_mutant(tiny, "typo", bundle(tiny, "Nope"))
    (tiny.folder / "tasks" / "two" / "task.toml").write_text("[environment]\nbuild_timeout_sec = 'soon'\n")
    tiny.sign()
    found = refused(tiny, tmp_path / "out")
    text = (tiny.folder / "case.yaml").read_text().splitlines()
    assert len(found) == 5
    for name, index, reason in (
        ("needy", 3, "what it needs is not here"),
        ("quits", 4, "its code ends the process (SystemExit 3)"),
        ("poor", 5, "environment variable MB_TEST_UNSET is not set"),
        ("typo", 6, "Nope"),
    ):
        (message,) = [line for line in found if f"variant {name}: " in line]
        start = text.index(f"- id: {name}")
        line = next(n for n in range(start, len(text)) if text[n].strip() == "agent:") + 1
        assert f"case.yaml:{line}: mutants[{index}].agent: variant {name}: " in message
        assert reason in message
    (message,) = [line for line in found if "task two: " in line]
    assert ": tasks[1]: task two: " in message


def test_what_the_baseline_hands_down_is_said_once(tiny, tmp_path):
    tiny.edit("case.yaml", lambda c: c["baseline"].update(agent=bundle(tiny, "NeedsMore")))
    tiny.sign()
    (message,) = refused(tiny, tmp_path / "out")
    assert ": baseline.agent: variant baseline: the agent cannot be made: " in message


def test_an_agent_that_kills_the_process_does_not_hide_another(tiny, tmp_path):
    add_mutant(tiny, "killer", bundle(tiny, "Any", "import os\nos._exit(9)\n", "killer"))
    add_mutant(tiny, "typo", bundle(tiny, "Nope"))
    tiny.sign()
    killer, typo = refused(tiny, tmp_path / "out")
    assert "variant killer: the process ends while the agent is made" in killer
    assert "variant typo: " in typo


def test_what_was_found_sound_is_not_looked_at_again(tiny, tmp_path, monkeypatch):
    run = coordinator.open_run(tiny.path, tmp_path / "out")
    variants = resolve_variants(run.experiment)
    assert check_variants(variants, run.experiment.execution) == []

    def none(*_, **__):
        raise AssertionError("a child was started")

    monkeypatch.setattr("metric_benchmark.execution.checking.HarborChild", none)
    assert check_variants(variants, run.experiment.execution) == []


def test_verify_makes_every_agent_and_a_deep_one_before_any_trial(tiny, tmp_path):
    def verify(*words):
        command = [sys.executable, "-m", "metric_benchmark", "verify", str(tiny.folder), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert "nothing is wrong" in verify().stdout
    add_mutant(tiny, "typo", bundle(tiny, "Nope"))
    tiny.sign()
    done = verify()
    assert done.returncode == 2
    assert "mutants[2].agent: variant typo: the agent cannot be made: " in done.stderr
    deep = verify("--deep", "--output", tmp_path / "out")
    assert (deep.returncode, deep.stderr) == (2, done.stderr)
    assert not (tmp_path / "out").exists()
