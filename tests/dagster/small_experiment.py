# SPDX-License-Identifier: Apache-2.0
"""Builds the cheapest real experiment: Harbor's own oracle is the baseline, nop the mutant that fails everything."""

from __future__ import annotations

from pathlib import Path

from metric_benchmark.pins import sign_experiment

TASKS = ("greet", "count")
#: Mutants (id -> Harbor agent) of the one case there is by default.
AGENTS = {"lazy": "nop", "same": "oracle"}
#: Two cases whose mutants differ, and the keys of what they ask for.
TWO_CASES = {"tiny": AGENTS, "other": {"idle": "nop"}}
VARIANTS = (
    "tiny|baseline", "tiny|screening", "tiny|control-1", "tiny|lazy", "tiny|same",
    "other|baseline", "other|screening", "other|control-1", "other|idle",
)  # fmt: skip
SCORED = ("tiny|control-1", "tiny|lazy", "tiny|same", "other|control-1", "other|idle")

_TASK = """
schema_version = "1.4"
[agent]
timeout_sec = 30.0
[verifier]
timeout_sec = 30.0
[environment]
docker_image = "debian:bookworm-slim"
workdir = "/app"
network_mode = "no-network"
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.lstrip())
    return path


def write_task(folder: Path, word: str, *, sleep_s: float = 0) -> None:
    """A task that wants `word` in answer.txt; its solution can be made slow."""
    write(folder / "task.toml", _TASK)
    write(folder / "instruction.md", f"Write the word {word} into answer.txt.\n")
    write(folder / "environment" / "readme.txt", "nothing to see\n")
    write(folder / "solution" / "solve.sh", f"#!/bin/bash\nsleep {sleep_s}\necho {word} > /app/answer.txt\n")
    write(
        folder / "tests" / "test.sh",
        f"#!/bin/bash\nif grep -qx {word} /app/answer.txt 2>/dev/null; then echo 1; else echo 0; fi "
        "> /logs/verifier/reward.txt\n",
    )
    for script in ("solution/solve.sh", "tests/test.sh"):
        (folder / script).chmod(0o755)


def write_case(folder: Path, case_id: str, mutants: dict[str, str], *, sleep_s: float = 0) -> None:
    """A case with two tasks, three subsets, and one mutant per entry: id -> Harbor agent."""
    for task in TASKS:
        write_task(folder / "tasks" / task, task, sleep_s=sleep_s)
    write(
        folder / "description.yaml",
        f"schema: metric-benchmark/description/v1\ntitle: {case_id}\ntext: two tasks that want a word in a file\n",
    )
    write(
        folder / "subsets.yaml",
        "schema: metric-benchmark/subsets/v1\nchosen_using: none\nsubsets:\n"
        "  - {id: s1, tasks: [greet]}\n  - {id: s2, tasks: [count]}\n  - {id: s3, tasks: [greet, count]}\n",
    )
    lines = [
        "schema: metric-benchmark/case/v1", f"case_id: {case_id}",
        "description: {path: description.yaml}", "subsets: {path: subsets.yaml}", "tasks:",
        *(f"  - {{id: {task}, path: tasks/{task}}}" for task in TASKS),
        "baseline: {agent: {name: oracle}}", "mutants:",
        *(
            f"  - {{id: {mutant}, operator: external/{agent}, agent: {{name: {agent}}}}}"
            for mutant, agent in mutants.items()
        ),
    ]  # fmt: skip
    write(folder / "case.yaml", "\n".join(lines) + "\n")


def build_experiment(
    folder: Path,
    *,
    cases: dict[str, dict[str, str]] | None = None,
    sleep_s: float = 0,
    execution: str = "",
    sign: bool = True,
) -> Path:
    """Writes and signs an experiment; returns its `experiment.yaml`.

    Args:
        folder: where.
        cases: mutants (id -> Harbor agent) by case id; by default one case `tiny` with `AGENTS`.
        sleep_s: how long the oracle's solution of every task takes.
        execution: more lines for execution.yaml.
        sign: whether pins are written.
    """
    cases = cases or {"tiny": AGENTS}
    for case_id, mutants in cases.items():
        write_case(folder / case_id, case_id, mutants, sleep_s=sleep_s)
    write(
        folder / "cases.yaml",
        "schema: metric-benchmark/cases/v1\ncases:\n" + "".join(f"  - {{path: {c}/case.yaml}}\n" for c in cases),
    )
    write(
        folder / "execution.yaml",
        "schema: metric-benchmark/execution/v1\n"
        "roles: {baseline: {attempts: 1}, screening: {attempts: 1}, control: {count: 1, attempts: 1}, "
        "mutant: {attempts: 1}}\n"
        f"environment: auto\nreward_key: reward\n{execution}",
    )
    write(
        folder / "analysis.yaml",
        "schema: metric-benchmark/analysis/v1\nscoring: {kill_rule: {name: deterministic}}\n"
        "coverage:\n  - name: suite_size\n  - name: synthetic\ncorrelation: {replicates: 100, seed: 1}\n",
    )
    path = write(
        folder / "experiment.yaml",
        "schema: metric-benchmark/experiment/v1\nname: small\ncases: cases.yaml\nexecution: execution.yaml\n"
        "analysis: analysis.yaml\n",
    )
    if sign:
        sign_experiment(path)
    return path
