# SPDX-License-Identifier: Apache-2.0
"""Kills runs of a small experiment and checks what the next run makes of what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger
from metric_benchmark.pins import sign_experiment
from metric_benchmark.records.base import comparable

HERE = Path(__file__).parent
#: How long processes of a killed run may take to end, in seconds.
PATIENCE_S = 20.0
TASKS = ("one", "two")
VARIANTS = ("baseline", "idle")


@dataclass(frozen=True)
class Ended:
    """How a program ended: its status (negative: the signal), how long it ran, what it printed."""

    status: int
    seconds: float
    was_killed: bool
    log: str


@dataclass(frozen=True)
class Kill:
    """How a run is killed: at a named point, or after a time, alone or with all it started.

    Attributes:
        at: `name:pass` of a kill point.
        after_s: seconds after its start.
        whole_tree: whether everything it started is killed at the same instant, as when a machine loses its power.
        number: the signal.
    """

    at: str | None = None
    after_s: float | None = None
    whole_tree: bool = False
    number: int = signal.SIGKILL

    def __str__(self) -> str:
        if self.at is not None:
            return f"at {self.at}"
        what = "the whole tree" if self.whole_tree else "the parent"
        return f"{what} after {self.after_s:.3f} s"


class Zygote:
    """Runs programs as children of a process that has everything imported; use as a context manager.

    Args:
        folder: where logs go.
        modules: what is imported.
        private_mounts: whether they do not see what others mount from now on, so that `mounts` is about them alone.
    """

    def __init__(self, folder: Path, *modules: str, private_mounts: bool = True) -> None:
        self._folder = folder
        self._number = 0
        with (folder / "zygote.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "zygote.py"), *modules, *(["--private-mounts"] if private_mounts else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        assert self._answer() == {"ready": True}

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def call(
        self,
        function: str,
        *arguments: Any,
        kill: Kill | None = None,
        trace: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Calls `module:function` in a process of its own; what it returns is the exit status."""
        self._number += 1
        log = self._folder / f"run-{self._number}.log"
        request: dict[str, Any] = {
            "op": "run", "call": function, "arguments": arguments, "log": str(log), "env": dict(env or {}),
            "trace": None if trace is None else str(trace),
        }  # fmt: skip
        if kill is not None and kill.at is not None:
            request["env"]["METRIC_BENCHMARK_KILL_AT"] = kill.at
        elif kill is not None:
            request |= {"kill_after": kill.after_s, "signal": kill.number, "whole_tree": kill.whole_tree}
        answer = self._ask(request)
        return Ended(log=log.read_text(errors="replace"), **answer)

    def command(self, *words: object, kill: Kill | None = None, trace: Path | None = None) -> Ended:
        """Runs a command line of metric-benchmark."""
        return self.call("metric_benchmark.cli:main", [str(word) for word in words], kill=kill, trace=trace)

    def left(self) -> list[str]:
        """Waits until everything that was started has ended; returns what did not."""
        until = time.monotonic() + PATIENCE_S
        while (found := self._ask({"op": "left"})["left"]) and time.monotonic() < until:
            time.sleep(0.05)
        return [f"{pid} {name}" for pid, name in found]

    def mounts(self) -> list[str]:
        """What is mounted where the programs run."""
        return Path(f"/proc/{self._process.pid}/mounts").read_text().splitlines()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"the zygote died; see {self._folder / 'zygote.log'}"
        return json.loads(line)


def build_experiment(folder: Path, *, environment: object = "local", slow_s: float = 0.0, attempts: int = 1) -> Path:
    """Writes and signs the experiment: two tasks, a baseline that solves both, a mutant that solves none."""
    for task in TASKS:
        _write_task(folder / "tasks" / task, task, slow_s)
    _write(
        folder, "experiment", name="faults", cases="cases.yaml", execution="execution.yaml", analysis="analysis.yaml"
    )
    _write(folder, "cases", cases=[{"path": "case.yaml"}])
    _write(
        folder, "case", case_id="tiny", description={"path": "description.yaml"}, subsets={"path": "subsets.yaml"},
        tasks=[{"id": task, "path": f"tasks/{task}"} for task in TASKS], baseline={"agent": {"name": "oracle"}},
        mutants=[{"id": "idle", "operator": "external/does-nothing", "agent": {"name": "nop"}}],
    )  # fmt: skip
    _write(folder, "description", title="Tiny")
    subsets = [{"id": "a", "tasks": ["one"]}, {"id": "b", "tasks": ["two"]}, {"id": "c", "tasks": ["one", "two"]}]
    _write(folder, "subsets", subsets=subsets)
    _write(
        folder, "execution", roles={"baseline": {"attempts": attempts}, "mutant": {"attempts": attempts}},
        environment=environment, reward_key="reward",
    )  # fmt: skip
    _write(
        folder, "analysis", scoring={"kill_rule": {"name": "deterministic"}, "min_pass_share": 0.0},
        coverage=[{"name": "suite_size"}], correlation={"replicates": 100, "seed": 1},
    )  # fmt: skip
    sign_experiment(folder / "experiment.yaml")
    return folder / "experiment.yaml"


def _write(folder: Path, kind: str, **values: object) -> None:
    schema = {"schema": f"metric-benchmark/{kind}/v1"}
    (folder / f"{kind}.yaml").write_text(yaml.safe_dump({**schema, **values}, sort_keys=False))


def _write_task(folder: Path, word: str, slow_s: float) -> None:
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(
        'version = "1.0"\n[agent]\ntimeout_sec = 300.0\n[verifier]\ntimeout_sec = 300.0\n'
        '[environment]\ndocker_image = "debian:bookworm-slim"\n'
    )
    (folder / "instruction.md").write_text(f"Write the word {word} to /app/out.txt.\n")
    (folder / "solution" / "solve.sh").write_text(
        f"#!/bin/bash\nsleep {slow_s}\nmkdir -p /app\necho {word} > /app/out.txt\n"
    )
    (folder / "tests" / "test.sh").write_text(
        f'#!/bin/bash\n[ "$(cat /app/out.txt 2>/dev/null)" = {word} ] && r=1 || r=0\n'
        "echo $r > /logs/verifier/reward.txt\n"
    )


def read_records(output: Path) -> dict[str, Any]:
    """Returns what two runs of one experiment must agree in: every current record, without times and drawn names."""
    root = EvidenceRoot(output)
    paths = [
        root.execution_inputs,
        root.manifest,
        root.experiment_inputs,
        root.experiment,
        *root.path.glob("execution/*/results.json"),
    ]
    for index in root.path.glob("execution/*/results.json"):
        for entry in json.loads(index.read_bytes())["variants"].values():
            paths.append(root.path / entry["raw_results"])
    paths += [path for path in root.path.glob("analysis/*/**/*.json") if "superseded" not in str(path)]
    return {
        path.relative_to(output).as_posix(): comparable(json.loads(path.read_bytes()))
        for path in paths
        if path.exists()
    }


def problems_of(output: Path, expected: Mapping[str, Any], *, attempts: int = 1) -> list[str]:
    """Returns everything that is wrong with evidence that should be as that of an undisturbed run."""
    root = EvidenceRoot(output)
    found: list[str] = []
    records = read_records(output)
    for name in sorted({*records, *expected}):
        if records.get(name) != expected.get(name):
            found.append(f"{name} differs: {records.get(name)} instead of {expected.get(name)}")
    for variant in VARIANTS:
        for task, count in Counter(dict.fromkeys(TASKS, 0) | _counted(root, variant)).items():
            if count != attempts:
                found.append(f"{variant}: {count} trials of task {task} have a verdict; {attempts} were asked for")
    entries = read_ledger(root)
    runs = {kind: [_run_of(entry) for entry in entries if entry["kind"] == kind] for kind in ("reserve", "settle")}
    if Counter(runs["reserve"]) != Counter(runs["settle"]):
        found.append(f"the ledger's reservations are not all settled once: {runs}")
    n_started = sum(1 for _ in output.glob("execution/*/*/*/jobs/*/*/config.json"))
    n_settled = sum(entry["n_trials"] for entry in entries if entry["kind"] == "settle")
    if n_settled > n_started:
        found.append(f"the ledger has {n_settled} trials, but {n_started} were started")
    found += [f"{path} is left" for path in output.rglob(".*.tmp")]
    found += [f"{path} is left" for path in output.rglob("next-*")]
    return found


def _counted(root: EvidenceRoot, variant: str) -> dict[str, int]:
    """Counts finished trials with a reward, by task, over all runs of a variant."""
    counts: Counter[str] = Counter()
    for path in root.variant("tiny", variant).glob("*/jobs/*/*/result.json"):
        try:
            result = json.loads(path.read_bytes())
        except ValueError:
            continue
        rewards = (result.get("verifier_result") or {}).get("rewards") or {}
        if result.get("finished_at") and not result.get("exception_info") and "reward" in rewards:
            counts[Path(result["config"]["task"]["path"]).name] += 1
    return dict(counts)


def _run_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(entry[key] for key in ("case", "variant", "folder", "run"))


def kill_points(trace: Path) -> list[str]:
    """Returns every pass of every kill point of a traced run, as `name:pass`."""
    counts: Counter[str] = Counter()
    found: list[str] = []
    for name in trace.read_text().split():
        counts[name] += 1
        found.append(f"{name}:{counts[name]}")
    return found


def spread(items: Sequence[str], number: int) -> list[str]:
    """Returns that many of the items, evenly over their order."""
    if number >= len(items):
        return list(items)
    return [items[round(i * (len(items) - 1) / max(1, number - 1))] for i in range(number)]


def environment_of_docker() -> dict[str, str]:
    """What a child needs to find the engine."""
    return {key: value for key, value in os.environ.items() if key.startswith("DOCKER")}
