# SPDX-License-Identifier: Apache-2.0
"""Kills 300 runs of a small experiment, at named points and random times, and says what the next run made of it.

Usage: `python benchmarks/faults/run.py [--kills 300] [--dagster 60] [--seed 1] [--keep DIR]`. Exit status 0 when every
next run ended as an undisturbed one does, with no trial paid for twice and nothing left running.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import Ended, Kill, Zygote, build_experiment, kill_points, problems_of, read_records

type Run = Callable[..., Ended]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300, help="how many in all")
    parser.add_argument("--dagster", type=int, default=60, help="how many of them inside Dagster runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where evidence that is not as it should be is kept")
    options = parser.parse_args()
    started = time.monotonic()
    failures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mb-faults-") as scratch:
        parts: tuple[tuple[str, int, tuple[str, ...], Callable[[Zygote], Run]], ...] = (
            ("command line", options.kills - options.dagster, ("metric_benchmark.cli.checks",), _command_line),
            ("Dagster", options.dagster, ("metric_benchmark_dagster.definitions",), _dagster),
        )
        for name, number, modules, runner in parts:
            folder = Path(scratch) / name.replace(" ", "-")
            folder.mkdir()
            with Zygote(folder, *modules) as zygote:
                failures += _kill_many(name, number, folder, zygote, runner(zygote), options)
    summary = {
        "kills": options.kills,
        "of_them_in_dagster": options.dagster,
        "seed": options.seed,
        "failures": failures,
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(summary, indent=2))
    return 1 if failures else 0


def _kill_many(
    name: str, number: int, folder: Path, zygote: Zygote, run: Run, options: argparse.Namespace
) -> list[dict[str, Any]]:
    if number <= 0:
        return []
    rng = random.Random(options.seed)
    experiment = build_experiment(folder / "experiment")
    done = run(experiment, folder / "reference", trace=folder / "trace")
    assert done.status == 0, done.log
    records, before = read_records(folder / "reference"), zygote.mounts()
    failures: list[dict[str, Any]] = []
    for count, kill in enumerate(_kills(kill_points(folder / "trace"), number, done.seconds, rng), start=1):
        output = folder / "out"
        killed = run(experiment, output, kill=kill)
        again = run(experiment, output)
        found = problems_of(output, records) if again.status == 0 else [again.log]
        found += [f"still running: {left}" for left in zygote.left()]
        found += [f"still mounted: {mount}" for mount in zygote.mounts() if mount not in before]
        if found:
            failures.append({"in": name, "kill": str(kill), "status": again.status, "problems": found})
            if options.keep is not None:
                shutil.copytree(output, options.keep / f"{name}-{count}", symlinks=True)
        state = "not as undisturbed" if found else "as undisturbed"
        print(f"[{name} {count}/{number}] {kill}: status {killed.status}, then {again.status}, {state}", flush=True)
        shutil.rmtree(output)
    return failures


def _kills(points: list[str], number: int, seconds: float, rng: random.Random) -> Iterator[Kill]:
    """Every named point once, then random times; the parent alone and everything it started in turn."""
    named = list(dict.fromkeys(point for point in points if not point.startswith("worker.")))
    named += ["worker.trial_start:1", "worker.trial_start:2", "worker.trial_end:1", "worker.trial_end:2"]
    if len(named) > number * 2 // 3:
        named = rng.sample(named, number * 2 // 3)
    for point in named:
        yield Kill(at=point)
    for index in range(number - len(named)):
        yield Kill(after_s=rng.uniform(0.0, 0.95 * seconds), whole_tree=index % 2 == 1)


def _command_line(zygote: Zygote) -> Run:
    return lambda experiment, output, **how: zygote.command("run-experiment", experiment, "--output", output, **how)


def _dagster(zygote: Zygote) -> Run:
    return lambda experiment, output, **how: zygote.call("dagster_run:materialise", str(experiment), str(output), **how)


if __name__ == "__main__":
    raise SystemExit(main())
