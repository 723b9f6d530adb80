# SPDX-License-Identifier: Apache-2.0
"""The worked examples of docs/mutants.md in real trials: a scripted model stands for the model."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from metric_benchmark.cli import main
from metric_benchmark.evidence.reader import read_raw_results
from metric_benchmark.experiment import open_run, run_evals
from metric_benchmark.pipeline import score_variant

PAGE = (Path(__file__).parents[2] / "docs" / "mutants.md").read_text()
FILES = dict(re.findall(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
INSTRUCTION = "Write the word {word} to /app/out.txt. Then write done to /app/log.txt.\n"


def test_the_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "my-experiment"]) == 0
    (block,) = re.findall(r"^```sh\n(metric-benchmark mutate.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    assert [shlex.split(line)[1] for line in lines] == ["mutate", "mutate", "mutate", "verify"]
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, line
    case = yaml.safe_load((tmp_path / "my-experiment" / "case.yaml").read_text())
    added = ["no-cat", "action-budget-1", "action-budget-4", "misreads", "error-blindness"]
    assert [m["id"] for m in case["mutants"]][-5:] == added


@pytest.fixture
def two_steps(tiny):
    """One task in two sentences, no screening and no control: five trials are enough to see the examples work."""
    tiny.edit("case.yaml", lambda c: c.update(tasks=c["tasks"][:1]))
    tiny.edit("subsets.yaml", lambda s: s.update(subsets=[{"id": "all", "tasks": ["one"]}]))
    tiny.edit("execution.yaml", lambda e: (e["roles"].pop("screening"), e["roles"].pop("control")))
    task = tiny.folder / "tasks/one"
    (task / "instruction.md").write_text(INSTRUCTION.format(word="one"))
    (task / "tests/test.sh").write_text(
        '#!/bin/bash\nif [ "$(cat /app/out.txt)$(cat /app/log.txt)" = "onedone" ]; then echo 1; else echo 0; fi '
        "> /logs/verifier/reward.txt\n"
    )
    for name, text in FILES.items():
        if name != "terminus.yaml":
            (tiny.folder / name).parent.mkdir(exist_ok=True)
            (tiny.folder / name).write_text(text)
    return tiny


@pytest.fixture
def packages(tmp_path, monkeypatch) -> None:
    """The locked package as an index would have it: a wheel made of what is installed here."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    found = metadata.distribution("toml")
    with zipfile.ZipFile(folder / f"toml-{found.version}-py3-none-any.whl", "w") as archive:
        for file in found.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.write(str(found.locate_file(file)), str(file))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def example(name: str) -> dict[str, Any]:
    mutants = yaml.safe_load(FILES["terminus.yaml"])["mutants"]
    return next(mutant for mutant in mutants if mutant["id"] == name)


def rewards(run, variant: str) -> list[float]:
    return read_raw_results(run.root, run.index("tiny"), variant).rewards()["one"]


@pytest.mark.harbor
def test_the_bundle_with_its_own_runtime(two_steps, packages, tmp_path):
    assert FILES["rewrite.lock"] == f"toml=={metadata.version('toml')}\n"
    solve = two_steps.folder / "tasks/one/solution/solve.sh"
    solve.write_text("#!/bin/bash\nmkdir -p /app\necho one > /app/out.txt\necho done > /app/log.txt\n")
    two_steps.edit("case.yaml", lambda c: c.update(mutants=[example("rewrite")]))
    two_steps.sign()
    run = open_run(two_steps.path, tmp_path / "out")
    run_evals(run, on_progress=lambda _: None)
    assert (rewards(run, "baseline"), rewards(run, "rewrite")) == ([1.0], [0.0])
    (trial,) = read_raw_results(run.root, run.index("tiny"), "rewrite").trials
    folder = run.root.trial("tiny", "rewrite", trial.folder, trial.run, trial.trial)
    steps = json.loads((folder / "agent/trajectory.json").read_text())["steps"]
    assert [step["tool_calls"][0]["arguments"]["command"] for step in steps[1:]] == [
        "mkdir -p $(dirname /app/out.txt) && echo one > /app/out.txt"
    ]


class Model:
    """A model that obeys: one command per sentence of the task, one per turn; a smaller one forgets the second."""

    def __init__(self) -> None:
        self.models: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.models.append(request["model"])
                message = {"role": "assistant", "content": json.dumps(outer.answer(request))}
                body = json.dumps(
                    {
                        "id": "x", "object": "chat.completion", "created": 0, "model": request["model"],
                        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                    }
                ).encode()  # fmt: skip
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @staticmethod
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        prompt = str(request["messages"][0]["content"])
        asked = re.findall(r"rite (?:the word )?(\w+) to (/\S+)\.", prompt)
        if "smaller" in request["model"] or "after your first command" in prompt:
            asked = asked[:1]
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if turn < len(asked):
            word, path = asked[turn]
            keys = f"mkdir -p $(dirname {path}) && echo {word} > {path}\n"
            return {"analysis": "", "plan": "", "commands": [{"keystrokes": keys, "duration": 0.5}]}
        return {"analysis": "", "plan": "done", "commands": [], "task_complete": True}


@pytest.fixture
def model(monkeypatch) -> Iterator[Model]:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    scripted = Model()
    thread = threading.Thread(target=scripted.server.serve_forever)
    thread.start()
    yield scripted
    scripted.server.shutdown()
    thread.join()
    scripted.server.server_close()


@pytest.mark.harbor
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    shutil.which("tmux") is None, reason="terminus-2 needs tmux, which the sandbox takes from this machine"
)
def test_mutants_of_terminus_2(two_steps, model, tmp_path):
    asked = yaml.safe_load(FILES["terminus.yaml"])
    asked["mutants"] = [mutant for mutant in asked["mutants"] if mutant["id"] != "rewrite"]
    for agent in (asked["baseline"]["agent"], *(m["agent"] for m in asked["mutants"] if m["agent"] != "inherit")):
        agent["kwargs"]["api_base"] = model.url
    # Two turns would do for a task of two commands.
    asked["mutants"][0]["agent"]["kwargs"]["max_turns"] = 1
    two_steps.edit("case.yaml", lambda c: c.update(asked))
    two_steps.edit("execution.yaml", lambda e: e.update(timeouts={"agent_multiplier": 8}))
    two_steps.sign()
    run = open_run(two_steps.path, tmp_path / "out")
    run_evals(run, on_progress=lambda _: None)
    assert {name: rewards(run, name) for name in run.index("tiny").variants} == {
        "baseline": [1.0],
        "few-turns": [0.0],
        "smaller-model": [0.0],
        "overlooks-last-sentence": [0.0],
        "hasty": [0.0],
    }
    assert set(model.models) == {"my-model", "my-smaller-model"}
    found = score_variant(run, "tiny", "overlooks-last-sentence")
    assert (found.status, found.is_inert) == ("killed", False)
