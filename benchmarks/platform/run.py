# SPDX-License-Identifier: Apache-2.0
"""The platform at 10, 1 000 and 10 000 partitions, each in a process of its own; then a backfill of 200.

    python benchmarks/platform/run.py [--partitions 10 1000 10000] [--backfill 200] [--json FILE]

No trial is run: the records of stage 1 are written as a run leaves them, in cases of 50 variants. Measured are

- load: building the definitions and their repository, as a code server does when it starts or reloads;
- open: reading and checking the experiment's files; status: what is missing, failed, stale or fresh, of all stages,
  which is twice as many partitions as there are variants (a variant has raw results and kills);
- step: one partition of the cheap asset `mutant_scores` against an asset of bare Dagster with the same partitions, in
  turns in one process on one instance: `own` is the difference of the medians, what our code adds to Dagster's;
- backfill: of `mutant_scores` through a real `dagster dev`, each partition a run in a process of its own, with the time
  per partition in its first and last quarter, so that growth shows.

Times are of the CPU where a process is measured (on an idle machine that is the time it takes), and wall time for the
backfill. The bounds it fails on (exit 1) are stated in `BOUNDS`.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import world

ROOT = Path(__file__).parents[2]
N_STEPS = 15
#: Seconds of CPU at most: what our code adds to a step of bare Dagster, at any size; and open and status together,
#: at 10 000 variants.
BOUNDS = {"own_s": 0.2, "status_s": 3.0}


def clocked[T](work: Callable[[], T]) -> tuple[float, T]:
    """Runs something; returns its seconds of CPU and what it returned."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def measure(experiment: Path, output: Path) -> dict[str, float]:
    """Measures one size, in this process; `main` starts one for each."""
    import dagster as dg

    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.status import experiment_status
    from metric_benchmark_dagster.build import build_defs

    numbers: dict[str, float] = {}
    numbers["load_s"], definitions = clocked(lambda: _loaded(build_defs(experiment=experiment, output=output)))
    numbers["open_s"], run = clocked(lambda: open_run(experiment, output, level="analysis"))
    # What is imported lazily is imported once, whatever the size.
    experiment_status(run)
    numbers["status_s"], status = clocked(lambda: experiment_status(run))
    states = {found.state for found in status}
    assert states == {"fresh"}, states
    keys = [found.key for found in status if found.stage == "mutant_scores"]
    numbers["partitions"] = sum(found.stage == "raw_results" for found in status)

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(keys))
    def bare() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(metadata={"n": 1})

    jobs = {
        "ours": (definitions.resolve_implicit_global_asset_job_def(), "mutant_scores"),
        "bare": (
            dg.Definitions(assets=[bare], executor=dg.in_process_executor).resolve_implicit_global_asset_job_def(),
            "bare",
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    with tempfile.TemporaryDirectory(prefix="mb-instance-") as home, dg.DagsterInstance.local_temp(home) as instance:
        for number in range(N_STEPS + 1):
            key = keys[number * (len(keys) - 1) // N_STEPS]
            for name, (job, asset) in jobs.items():
                seconds, done = clocked(
                    lambda job=job, asset=asset, key=key: job.execute_in_process(
                        instance=instance, partition_key=key, asset_selection=[dg.AssetKey(asset)]
                    )
                )
                assert done.success
                if number:  # The first of each imports and makes tables.
                    times[name].append(seconds)
    numbers |= {f"{name}_s": statistics.median(found) for name, found in times.items()}
    numbers["own_s"] = numbers["ours_s"] - numbers["bare_s"]
    return numbers


def _loaded(definitions: Any) -> Any:
    definitions.get_repository_def()
    return definitions


def in_a_process(stage: str, experiment: Path, output: Path) -> Any:
    """Runs a stage in a process of its own and returns what it printed."""
    command = [sys.executable, __file__, "--stage", stage, "--experiment", str(experiment), "--output", str(output)]
    # Dagster logs every event of every run.
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log)
        if done.returncode:
            log.seek(0)
            sys.exit(log.read().decode()[-5000:])
    return json.loads(done.stdout)


def prepare(experiment: Path, output: Path) -> None:
    """Records all stages of all partitions."""
    world.record_execution(experiment, output)
    world.record_analysis(experiment, output)


def backfill(n_partitions: int, folder: Path) -> dict[str, float]:
    """Runs a backfill of so many partitions of `mutant_scores` through a real host."""
    sys.path += [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "dagster")]
    import host as hosts
    import processes

    # Of the 50 variants of a case, 48 have kills.
    n_variants = n_partitions + 2 * -(-n_partitions // (world.PER_CASE - 2))
    experiment = world.write_experiment(folder / "experiment", n_variants)
    world.record_execution(experiment, folder / "out")
    with hosts.Host(experiment, folder / "out", folder / "dev.log", processes) as host:
        # Only the backfill is to run.
        host.switch_sensor("analysis_follows", on=False)
        started = time.monotonic()
        status = host.follow_backfill(host.launch_backfill(["mutant_scores"]), within_s=7200)
        seconds = time.monotonic() - started
        n_done = len(host.materialised()["mutant_scores"])
        assert (status, n_done) == ("COMPLETED_SUCCESS", n_partitions), (status, n_done)
        runs = host.ask(
            "query($n: Int!) { runsOrError(limit: $n, filter: {statuses: [SUCCESS]}) { ... on Runs { results {"
            " startTime endTime assetSelection { path } } } } }",
            n=2 * n_partitions,
        )["runsOrError"]["results"]
    ends = sorted(run["endTime"] for run in runs if {"path": ["mutant_scores"]} in (run["assetSelection"] or []))
    quarter = max(1, len(ends) // 4)
    return {
        "backfill_partitions": n_partitions,
        "backfill_s": seconds,
        "backfill_first_quarter_s": (ends[quarter] - ends[0]) / quarter,
        "backfill_last_quarter_s": (ends[-1] - ends[-1 - quarter]) / quarter,
    }


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="*", default=[10, 1000, 10_000])
    parser.add_argument("--backfill", type=int, default=200, help="partitions; 0 leaves it out")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--stage", choices=["prepare", "measure"], help=argparse.SUPPRESS)
    parser.add_argument("--experiment", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        found = {"prepare": prepare, "measure": measure}[options.stage](options.experiment, options.output)
        print(json.dumps(found))
        return 0
    rows: list[dict[str, float]] = []
    failed: list[str] = []
    print("  variants    load    open  status | a step: ours    bare     own   (seconds of CPU)")
    for size in options.partitions:
        with tempfile.TemporaryDirectory(prefix="mb-platform-") as name:
            experiment = world.write_experiment(Path(name) / "experiment", size)
            in_a_process("prepare", experiment, Path(name) / "out")
            row = in_a_process("measure", experiment, Path(name) / "out")
        rows.append(row)
        print(
            f"{size:10} {row['load_s']:7.2f} {row['open_s']:7.2f} {row['status_s']:7.2f} | {row['ours_s']:12.3f} "
            f"{row['bare_s']:7.3f} {row['own_s']:7.3f}",
            flush=True,
        )
        if row["own_s"] > BOUNDS["own_s"]:
            failed.append(f"own_s at {size}")
        if row["open_s"] + row["status_s"] > BOUNDS["status_s"] * max(1.0, size / 10_000):
            failed.append(f"status_s at {size}")
    for before, after in itertools.pairwise(rows):
        growth = after["partitions"] / before["partitions"]
        grown = {key: after[key] / before[key] for key in ("load_s", "open_s", "status_s", "ours_s", "bare_s")}
        print(
            f"growth from {before['partitions']:.0f} to {after['partitions']:.0f} partitions ({growth:.0f}x): "
            + ", ".join(f"{key.removesuffix('_s')} {factor:.1f}x" for key, factor in grown.items())
        )
    numbers: dict[str, Any] = {"sizes": rows}
    if options.backfill:
        with tempfile.TemporaryDirectory(prefix="mb-platform-") as name:
            found = backfill(options.backfill, Path(name))
        numbers |= found
        print(
            f"backfill of {options.backfill}: {found['backfill_s']:.0f} s, "
            f"{found['backfill_s'] / options.backfill:.2f} s a partition; first quarter "
            f"{found['backfill_first_quarter_s']:.2f} s, last quarter {found['backfill_last_quarter_s']:.2f} s"
        )
    print(f"bounds: {BOUNDS}; {'FAILED: ' + ', '.join(failed) if failed else 'all met'}")
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
