# SPDX-License-Identifier: Apache-2.0
"""Harbor's own LLM agent terminus-2, through LiteLLM, against a scripted model on loopback: what is recorded."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger, spent
from metric_benchmark.evidence.reader import read_index, read_raw_results
from metric_benchmark.records.execution import RawResults

pytestmark = [pytest.mark.harbor, pytest.mark.slow, pytest.mark.timeout(600)]

#: USD a token of this model costs by LiteLLM's own price list, which comes with it.
MODEL, INPUT_USD, OUTPUT_USD = "openai/gpt-4o-mini", 0.15e-6, 0.60e-6
SECRET = "sk-scripted-0123456789abcdef"


@pytest.fixture(scope="module")
def scripted() -> Any:
    path = Path(__file__).with_name("scripted_model.py")
    spec = importlib.util.spec_from_file_location("mb_scripted_model", path)
    assert spec
    assert spec.loader
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if shutil.which("tmux") is None:
        pytest.skip("terminus-2 works through tmux, which this machine (the sandbox's base) does not have")
    monkeypatch.setenv("MB_TEST_MODEL_KEY", SECRET)
    with scripted.serve() as serving:
        yield serving


def use_terminus(
    files: Any, url: str, *, llm_call_kwargs: dict[str, Any] | None = None, **mutants: dict[str, Any]
) -> None:
    """Makes terminus-2 the baseline and the mutants versions of it with other arguments."""

    def agent(**kwargs: Any) -> dict[str, Any]:
        return {
            "name": "terminus-2", "model_name": MODEL, "env": {"OPENAI_API_KEY": "${MB_TEST_MODEL_KEY}"},
            "kwargs": {"api_base": url, "record_terminal_session": False, "llm_call_kwargs": llm_call_kwargs, **kwargs},
        }  # fmt: skip

    def change(case: Any) -> None:
        case["baseline"]["agent"] = agent()
        case["mutants"] = [
            {"id": name, "operator": f"external/{name}", "agent": agent(**kwargs)} for name, kwargs in mutants.items()
        ]

    files.edit("case.yaml", change)


def raw(output: Path, variant: str) -> RawResults:
    root = EvidenceRoot(output)
    return read_raw_results(root, read_index(root, "tiny"), variant)


def test_tokens_cost_and_trajectory_arrive_and_a_knob_makes_a_mutant(tiny, model, scripted, tmp_path):
    use_terminus(tiny, model.url, **{"one-turn": {"max_turns": 1}})
    tiny.edit("execution.yaml", lambda e: e.update(roles={"baseline": {"attempts": 1}, "mutant": {"attempts": 1}}))
    tiny.edit("analysis.yaml", lambda a: a.update(coverage=[{"name": "tool_calls"}]))
    tiny.sign()
    # The client tries again by itself, and nobody need know.
    model.n_refusals = 1
    run = coordinator.open_run(tiny.path, tmp_path / "out")
    seal = coordinator.run_experiment(run, on_progress=lambda _: None)

    assert seal.n_trials == 4
    assert model.n_refused == 1
    assert model.keys == {SECRET}
    trials = raw(tmp_path / "out", "baseline").trials
    assert [(t.task, t.status, t.reward) for t in trials] == [("one", "valid", 1.0), ("two", "valid", 1.0)]
    for trial in trials:
        # Two turns of work, one to say that it is done, one to say so again.
        assert trial.n_input_tokens == 4 * scripted.PROMPT_TOKENS
        assert trial.n_output_tokens == 4 * scripted.COMPLETION_TOKENS
        assert trial.cost_usd == pytest.approx(4 * (1000 * INPUT_USD + 100 * OUTPUT_USD))
        folder = run.root.trial("tiny", "baseline", trial.folder, trial.run, trial.trial)
        steps = json.loads((folder / "agent" / "trajectory.json").read_bytes())["steps"]
        assert sum(step["source"] == "agent" for step in steps) == 4
        assert trial.trajectory_sha256 is not None

    mutant = raw(tmp_path / "out", "one-turn")
    assert mutant.rewards() == {"one": [0.0], "two": [0.0]}
    assert {t.n_output_tokens for t in mutant.trials} == {scripted.COMPLETION_TOKENS}
    scores = json.loads(run.root.mutant_scores("tiny").read_bytes())
    assert scores["mutants"]["one-turn"]["killed_by"] == ["one", "two"]
    coverage = json.loads(run.root.coverage("tiny").read_bytes())["metrics"]["tool_calls"]
    assert coverage["unmeasured_tasks"] == []
    assert coverage["items"]

    settled = [entry for entry in read_ledger(run.root) if entry["kind"] == "settle"]
    assert sum(entry["cost_usd"] for entry in settled) == pytest.approx(10 * (1000 * INPUT_USD + 100 * OUTPUT_USD))
    assert {entry["n_without_cost"] for entry in settled} == {0}
    found = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert found == []


def test_a_rate_limit_is_no_verdict_and_the_trial_is_run_again(tiny, model, tmp_path):
    """Agent and client try again by themselves; what is beyond that is run again by us, into a run of its own."""
    use_terminus(tiny, model.url, idle={"max_turns": 1}, llm_call_kwargs={"max_retries": 0})
    tiny.edit("case.yaml", lambda c: c["tasks"].pop())
    tiny.edit("subsets.yaml", lambda s: s.update(subsets=[{"id": "first", "tasks": ["one"]}]))
    tiny.edit(
        "execution.yaml",
        lambda e: e.update(
            roles={"baseline": {"attempts": 1}, "mutant": {"attempts": 1}},
            infrastructure_retries=1,
            # The waits between the calls must not make it a timeout of the agent's, which Harbor grades.
            timeouts={"agent_multiplier": 10},
            budget={"max_cost_usd": 1.0, "cost_bound_per_trial_usd": 0.01},
        ),
    )
    tiny.sign()
    # Harbor's client tries three times, its agent calls it three times: the first trial gets nothing but refusals.
    model.n_refusals = 9
    run = coordinator.open_run(tiny.path, tmp_path / "out")
    coordinator.run_evals(run, on_progress=lambda _: None)

    assert model.n_refused == 9
    results = raw(tmp_path / "out", "baseline")
    (trial,) = results.trials
    assert (trial.status, trial.reward, trial.run) == ("valid", 1.0, "run-2")
    (archived,) = results.archived
    assert (archived.status, archived.exception, archived.run) == ("infrastructure", "RateLimitError", "run-1")
    assert archived.reason is not None
    assert archived.reason.startswith("RateLimitError: ")
    assert "slow down" in archived.reason
    folder = run.root.trial("tiny", "baseline", archived.folder, archived.run, archived.trial)
    assert (folder / "result.json").is_file()
    # What a trial that was refused has cost nobody knows, so it counts at its bound.
    assert archived.cost_usd is None
    used = spent(run.root, run.experiment.execution.budget)
    assert used.n_trials == 3
    assert used.cost_usd == pytest.approx(5 * (1000 * INPUT_USD + 100 * OUTPUT_USD) + 0.01)
