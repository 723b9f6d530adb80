# SPDX-License-Identifier: Apache-2.0
"""One finished run with real trials and trajectories; every test gets a copy it may damage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_index, read_raw_results
from metric_benchmark.evidence.stamps import stamped
from metric_benchmark.hashing import digest_file
from metric_benchmark.pins import sign_experiment
from metric_benchmark.records.execution import RawResults

#: The value of the variable the agents are given; long enough to be searched for, with what escaping changes.
TOKEN_VARIABLE, TOKEN = "MB_TEST_TOKEN", 'tk-09/af+"Zq8='
#: A variable that is said to be no secret.
URL_VARIABLE, URL = "MB_TEST_URL", "http://10.0.0.7:8080/v1"

AGENT = '''
import json
import re

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities


class Writer(BaseAgent):
    """Writes the word it is asked for, and a trajectory; `leak` makes it careless with what it was given."""

    capabilities = AgentCapabilities(atif=True)

    def __init__(self, logs_dir, extra_env=None, leak=False, **kwargs):
        super().__init__(logs_dir, **kwargs)
        self.note = (extra_env or {}).get("SOME_TOKEN", "") if leak else "done"

    @staticmethod
    def name():
        return "writer"

    def version(self):
        return "1"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        word = re.search(r"the word (\\S+) to", instruction).group(1)
        shown = ""
        try:
            shown = (await environment.exec(f"mkdir -p /app && echo {word} > /app/out.txt && cat /app/out.txt")).stdout
        finally:
            self.write(instruction, word, shown)

    def write(self, instruction, word, shown):
        call = {"tool_call_id": "c1", "function_name": "write", "arguments": {"word": word}}
        steps = [
            {"step_id": 1, "source": "user", "message": instruction},
            {
                "step_id": 2, "source": "agent", "message": self.note, "tool_calls": [call],
                "observation": {"results": [{"source_call_id": "c1", "content": shown}]},
            },
        ]
        agent = {"name": "writer", "version": "1"}
        found = {"schema_version": "ATIF-v1.2", "session_id": "s", "agent": agent, "steps": steps}
        (self.logs_dir / "trajectory.json").write_text(json.dumps(found))
'''
TASK = {
    "task.toml": 'version = "1.0"\n[agent]\ntimeout_sec = 300.0\n[verifier]\ntimeout_sec = 300.0\n'
    '[environment]\ndocker_image = "debian:bookworm-slim"\n',
    "instruction.md": "Write the word WORD to /app/out.txt.\n",
    "solution/solve.sh": "#!/bin/bash\nmkdir -p /app\necho WORD > /app/out.txt\n",
    "tests/test.sh": '#!/bin/bash\n[ "$(cat /app/out.txt 2>/dev/null)" = WORD ] && r=1 || r=0\n'
    "echo $r > /logs/verifier/reward.txt\n",
}
FILES: dict[str, Any] = {
    "experiment.yaml": {
        "schema": "metric-benchmark/experiment/v1", "name": "words", "cases": "cases.yaml",
        "execution": "execution.yaml", "analysis": "analysis.yaml",
    },
    "cases.yaml": {"schema": "metric-benchmark/cases/v1", "cases": [{"path": "case.yaml"}]},
    "case.yaml": {
        "schema": "metric-benchmark/case/v1", "case_id": "words",
        "description": {"path": "description.yaml"}, "subsets": {"path": "subsets.yaml"},
        "tasks": [{"id": task, "path": f"tasks/{task}"} for task in ("one", "two")],
        "baseline": {
            "agent": {
                "bundle": {"path": "agent"}, "entry": "writer:Writer",
                "env": {"SOME_TOKEN": f"${{{TOKEN_VARIABLE}}}", "SOME_URL": f"${{{URL_VARIABLE}}}"},
            }
        },
        "mutants": [
            {"id": "cut", "operator": {"name": "action_budget", "params": {"max_actions": 0}}, "agent": "inherit"},
            {"id": "idle", "operator": "external/does-nothing", "agent": {"name": "nop"}},
        ],
    },
    "description.yaml": {"schema": "metric-benchmark/description/v1", "title": "Words"},
    "subsets.yaml": {
        "schema": "metric-benchmark/subsets/v1",
        "subsets": [{"id": "first", "tasks": ["one"]}, {"id": "both", "tasks": ["one", "two"]}],
    },
    "execution.yaml": {
        "schema": "metric-benchmark/execution/v1", "environment": "local", "reward_key": "reward",
        "public_variables": [URL_VARIABLE],
        "roles": {"baseline": {"attempts": 1}, "control": {"count": 1, "attempts": 1}, "mutant": {"attempts": 1}},
    },
    "analysis.yaml": {
        "schema": "metric-benchmark/analysis/v1", "scoring": {"kill_rule": {"name": "deterministic"}},
        "coverage": [{"name": "tool_calls"}, {"name": "suite_size"}], "correlation": {"replicates": 200, "seed": 3},
    },
}  # fmt: skip


def write_experiment(folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> Path:
    """Writes and signs the experiment; `change` may edit its files' values before."""
    files = json.loads(json.dumps(FILES))
    change(files)
    texts = {name: yaml.safe_dump(value, sort_keys=False) for name, value in files.items()}
    texts["agent/writer.py"] = AGENT
    for task in ("one", "two"):
        texts |= {f"tasks/{task}/{name}": text.replace("WORD", task) for name, text in TASK.items()}
        texts[f"tasks/{task}/environment/.gitkeep"] = ""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sign_experiment(folder)
    return folder


@dataclass(frozen=True)
class Called:
    """What a command came to."""

    status: int
    out: str
    errors: list[str]


def call(*words: str | Path, **variables: str) -> Called:
    """Runs the command line in a process of its own."""
    command = [sys.executable, "-m", "metric_benchmark", *map(str, words)]
    env = os.environ | {URL_VARIABLE: URL} | variables
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=env, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    return Called(done.returncode, done.stdout, errors)


@dataclass(frozen=True)
class Finished:
    """An experiment and its evidence."""

    experiment: Path
    root: EvidenceRoot

    def results(self, variant: str) -> RawResults:
        return read_raw_results(self.root, read_index(self.root, "words"), variant)

    def trial(self, variant: str = "baseline", task: str = "one") -> Path:
        """Returns the native folder of a recorded trial."""
        (trial,) = [t for t in self.results(variant).trials if t.task == task]
        return self.root.trial("words", variant, trial.folder, trial.run, trial.trial)

    def rewrite(self, path: Path, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes a record and every digest above it, as somebody would who means to deceive the reader."""
        value = json.loads(path.read_bytes())
        change(value)
        path.write_bytes(stamped(value))
        if path.name == "raw-results.json":
            entry = {"raw_results_sha256": digest_file(path)}
            self.rewrite(self.root.index("words"), lambda v: v["variants"][path.parent.parent.name].update(entry))
        elif path.name == "results.json":
            digest = digest_file(path)
            self.rewrite(self.root.manifest, lambda v: v["cases"]["words"].update(index_sha256=digest))

    def snapshot(self) -> dict[str, str]:
        files = (path for path in sorted(self.root.path.rglob("*")) if path.is_file() and ".locks" not in path.parts)
        return {path.relative_to(self.root.path).as_posix(): digest_file(path) for path in files}


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Run once; nobody changes it."""
    folder = tmp_path_factory.mktemp("words")
    write_experiment(folder / "experiment")
    done = call("run-experiment", folder / "experiment", "--output", folder / "out", **{TOKEN_VARIABLE: TOKEN})
    assert done.status == 0, done.errors
    return Finished(folder / "experiment", EvidenceRoot(folder / "out"))


@pytest.fixture
def finished(ran: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finished:
    """A copy of the finished run, in another place than where it ran."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setenv(URL_VARIABLE, URL)
    shutil.copytree(ran.experiment, tmp_path / "experiment")
    shutil.copytree(ran.root.path, tmp_path / "out", symlinks=True)
    return Finished(tmp_path / "experiment", EvidenceRoot(tmp_path / "out"))


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(0o755)
        return
    for options in ("bind", "remount,bind,ro"):
        made = subprocess.run(["mount", "-o", options, folder, folder], capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"nothing can be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def read_only() -> Callable[[Path], AbstractContextManager[None]]:
    """Makes a folder one that cannot be written for a while."""
    return _read_only


JOB = """
import asyncio, sys
from harbor.job import Job
from harbor.models.job.config import JobConfig

async def main(jobs, *tasks):
    config = {
        "job_name": "elsewhere", "jobs_dir": jobs, "n_concurrent_trials": 2, "quiet": True,
        "environment": {"import_path": "metric_benchmark.execution.sandbox:LocalSandboxEnvironment"},
        "agents": [{"name": "nop"}, {"name": "oracle"}], "tasks": [{"path": task} for task in tasks],
    }
    job = await Job.create(JobConfig.model_validate(config))
    await job.run()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def foreign_job(ran: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job Harbor ran by itself, of two agents on both tasks; nobody changes it."""
    folder = tmp_path_factory.mktemp("jobs")
    tasks = [ran.experiment / "tasks" / task for task in ("one", "two")]
    subprocess.run([sys.executable, "-c", JOB, folder, *tasks], check=True, capture_output=True, timeout=240)
    return folder / "elsewhere"


@pytest.fixture
def job(foreign_job: Path, tmp_path: Path) -> Path:
    """A copy of that job."""
    return Path(shutil.copytree(foreign_job, tmp_path / "jobs" / "elsewhere"))


class Words:
    """Makes and runs other experiments of this kind."""

    write_experiment = staticmethod(write_experiment)
    call = staticmethod(call)


@pytest.fixture(scope="session")
def words() -> Words:
    """Makes and runs other experiments of this kind."""
    return Words()
