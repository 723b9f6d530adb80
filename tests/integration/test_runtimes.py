# SPDX-License-Identifier: Apache-2.0
"""Bundles with an environment of their own: a Python, a lock, a process apart; in real trials, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from metric_benchmark.errors import ConfigError, ExecutionError, PinError
from metric_benchmark.evidence.reader import read_raw_results
from metric_benchmark.execution.interpreters import find_interpreter
from metric_benchmark.execution.runtimes import Runtime, ensure_runtime
from metric_benchmark.experiment import open_run, run_evals
from metric_benchmark.hashing import digest_file

AGENT = '''
"""Writes the word its library finds in the instruction, with one command."""
import json

from greeting import word_of
from harbor.agents.base import BaseAgent


class Greeter(BaseAgent):
    @staticmethod
    def name():
        return "greeter"

    def version(self):
        return "1"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        command = f"mkdir -p /app && echo {word_of(instruction)} > /app/out.txt"
        await environment.exec(command)
        call = {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": command}}
        steps = [{"step_id": 1, "source": "agent", "message": "", "tool_calls": [call]}]
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        (self.logs_dir / "trajectory.json").write_text(json.dumps(
            {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "greeter", "version": "1"},
             "steps": steps}))
'''


def wheel(folder: Path, name: str, version: str, code: str, *needs: str) -> None:
    """Writes a wheel: a zip file with code and a few lines about it."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that stands for the index; environments are made in a cache of the test's own."""
    folder = tmp_path / "wheels"
    wheel(folder, "greeting", "1.0", "def word_of(text):\n    return text.split()[3]\n")
    wheel(folder, "greeting", "2.0", "def word_of(text):\n    return text.split()[2]\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


OURS = ".".join(map(str, sys.version_info[:2]))


def agent(number: int, python: str = OURS) -> dict:
    runtime = {"python": python, "requirements": {"path": f"lock-{number}.txt"}}
    return {"bundle": {"path": "agent"}, "entry": "agent:Greeter", "runtime": runtime}


@pytest.fixture
def greeter(tiny, wheels):
    """The tiny experiment whose agent needs a library that is not here, and a mutant with another version of it."""
    (tiny.folder / "agent").mkdir()
    (tiny.folder / "agent" / "agent.py").write_text(AGENT)
    for number in (1, 2):
        (tiny.folder / f"lock-{number}.txt").write_text(f"# the library\ngreeting=={number}.0\n")
    tiny.edit("execution.yaml", lambda e: e["roles"].pop("screening"))
    tiny.edit("execution.yaml", lambda e: e["roles"].pop("control"))
    tiny.edit("case.yaml", lambda c: c["baseline"].update(agent=agent(1)))
    tiny.edit("case.yaml", lambda c: c["mutants"][0].update(id="upgraded", operator="external/upgrade", agent=agent(2)))
    tiny.sign()
    return tiny


def rewards(run, variant: str) -> dict[str, list[float]]:
    return read_raw_results(run.root, run.index("tiny"), variant).rewards()


@pytest.mark.harbor
def test_each_bundle_runs_with_its_own_packages(greeter, tmp_path):
    run = open_run(greeter.path, tmp_path / "out")
    done = run_evals(run, on_progress=lambda _: None)
    assert done.n_run == 6
    assert rewards(run, "baseline") == {"one": [1.0], "two": [1.0]}
    # The library's next version finds another word; that is this mutant's fault.
    assert rewards(run, "upgraded") == {"one": [0.0], "two": [0.0]}
    # A mutant of the inherited agent runs in the inherited environment.
    assert rewards(run, "no-actions") == {"one": [0.0], "two": [0.0]}
    made = [path for path in (tmp_path / "cache/metric-benchmark/runtimes").iterdir() if path.is_dir()]
    assert len(made) == 2

    # Another lock is another agent: its trials run again, and no others.
    (greeter.folder / "lock-2.txt").write_text("greeting==1.0\n")
    greeter.sign()
    run = open_run(greeter.path, tmp_path / "out")
    again = run_evals(run, on_progress=lambda _: None, accept_changes=True)
    assert (again.n_run, again.n_kept) == (2, 4)
    assert rewards(run, "upgraded") == {"one": [1.0], "two": [1.0]}


OTHERS = [version for version in ("3.12", "3.13", "3.14") if version != OURS and find_interpreter(version)]


@pytest.mark.harbor
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.skipif(not OTHERS, reason=f"there is no Python from 3.12 on here besides {OURS}")
def test_a_bundle_runs_under_another_python_next_to_one_under_ours(greeter, tmp_path, monkeypatch):
    # Harbor itself is installed for that Python, which takes an index; the library still comes from the folder.
    monkeypatch.delenv("PIP_NO_INDEX")
    ask = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(tmp_path), "idna"]
    if subprocess.run(ask, check=False).returncode:
        pytest.skip("no package index answers")
    told = AGENT.replace("import json\n", "import json\nimport sys\n")
    told = told.replace('return "1"', 'return ".".join(map(str, sys.version_info[:2]))')
    (greeter.folder / "agent" / "agent.py").write_text(told)
    greeter.edit("case.yaml", lambda c: c["mutants"][0].update(agent=agent(1, OTHERS[-1])))
    greeter.sign()
    run = open_run(greeter.path, tmp_path / "out")
    run_evals(run, on_progress=lambda _: None)
    assert rewards(run, "baseline") == rewards(run, "upgraded") == {"one": [1.0], "two": [1.0]}
    versions = {
        variant: {
            json.loads(path.read_text())["agent_info"]["version"]
            for path in (run.root.path / "execution/tiny" / variant).glob("*/jobs/run-1/*/result.json")
        }
        for variant in ("baseline", "upgraded")
    }
    assert versions == {"baseline": {OURS}, "upgraded": {OTHERS[-1]}}


def test_a_python_on_path_that_does_not_work_is_none(tmp_path, monkeypatch):
    (tmp_path / "python3.98").write_text("#!/bin/sh\necho 'pyenv: python3.98: command not found' >&2\nexit 127\n")
    (tmp_path / "python3.98").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_interpreter("3.98") is None
    installed = tmp_path / "pyenv/versions/3.98.1/bin/python3.98"
    installed.parent.mkdir(parents=True)
    installed.write_text("#!/bin/sh\necho 3 98 1\n")
    installed.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert find_interpreter("3.98") == find_interpreter("3.98.1") == installed
    assert find_interpreter("3.98.2") is None


def runtime(folder: Path, lock: str, python: str | None = None) -> Runtime:
    path = folder / "lock.txt"
    path.write_text(lock)
    return Runtime(python or OURS, path, digest_file(path))


def imported(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_an_environment_holds_the_lock_before_our_packages_and_is_made_once(wheels, tmp_path):
    wheel(wheels, "tomlkit", "99.0", "")
    first = ensure_runtime(runtime(tmp_path, "greeting==1.0\ntomlkit==99.0  # not the one that is here\n"))
    code = "import greeting, tomlkit, yaml, metric_benchmark; from importlib.metadata import version as v; "
    assert imported(first, code + "print(v('greeting'), v('tomlkit'), greeting.word_of('a b c d'))") == "1.0 99.0 d"
    made = first.stat().st_mtime_ns, (first.parent.parent / "complete.json").stat().st_mtime_ns
    assert ensure_runtime(runtime(tmp_path, "greeting==1.0\ntomlkit==99.0  # not the one that is here\n")) == first
    assert (first.stat().st_mtime_ns, (first.parent.parent / "complete.json").stat().st_mtime_ns) == made
    # One that was cut short while it was made is made again.
    (first.parent.parent / "complete.json").unlink()
    assert ensure_runtime(runtime(tmp_path, "greeting==1.0\ntomlkit==99.0  # not the one that is here\n")) == first
    assert (first.parent.parent / "complete.json").is_file()


def test_what_does_not_fit_together_is_refused_with_what_to_do(wheels, tmp_path):
    wheel(wheels, "needy", "1.0", "", "greeting>=2", "nowhere")
    wheel(wheels, "pydantic", "1.0", "raise ImportError('too old')\n")
    with pytest.raises(ConfigError) as refused:
        ensure_runtime(runtime(tmp_path, "needy==1.0\ngreeting==1.0\npydantic==1.0\n"))
    text = str(refused.value)
    assert "needy needs greeting>=2, but 1.0 is there; lock one that fits" in text
    assert "needy needs nowhere, which is neither locked nor there already; lock it as well" in text
    assert "Harbor does not work with these packages: ImportError: too old; lock versions it accepts" in text


def test_packages_that_cannot_be_had(wheels, tmp_path):
    with pytest.raises(ExecutionError, match=r"lock\.txt could not be installed; correct the lock, or run again"):
        ensure_runtime(runtime(tmp_path, "greeting==7.0\n"))


def test_a_lock_that_changed_since_it_was_pinned(wheels, tmp_path):
    asked = runtime(tmp_path, "greeting==1.0\n")
    asked.requirements.write_text("greeting==2.0\n")
    with pytest.raises(PinError, match="has changed since it was pinned"):
        ensure_runtime(asked)


def test_a_python_that_is_not_here(wheels, tmp_path):
    with pytest.raises(ConfigError, match=r"there is no Python 3\.99 here: this one is 3\.\d+\.\d+, and neither PATH"):
        ensure_runtime(runtime(tmp_path, "", "3.99"))
