# SPDX-License-Identifier: Apache-2.0
"""Speed of stage 4's replicates, side by side with plain loops on the same case in the same run.

    .venv/bin/python benchmarks/inference/run.py [--quick]

Our side runs all replicates in one process; the loops are timed on a few replicates and extrapolated, and the tables
say so. Seconds are CPU seconds of one process, so that a busy machine does not blur the comparison. Aim: 100 times
faster than pandas with SciPy, below 400 MB. Then a large case, and how the cost grows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

# One thread: the loops cannot use more, and neither do we.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@dataclass(frozen=True)
class Case:
    """K subsets, T tasks, M mutants, I items, B replicates; kill and cover density."""

    n_subsets: int = 1000
    n_tasks: int = 100
    n_mutants: int = 200
    n_items: int = 200
    n_replicates: int = 2000
    killed: float = 0.05
    covered: float = 0.03

    def draw(self):
        import numpy as np

        rng = np.random.default_rng(1)
        kills = rng.random((self.n_tasks, self.n_mutants)) < self.killed
        cover = rng.random((self.n_tasks, self.n_items)) < self.covered
        sizes = rng.integers(max(1, self.n_tasks // 20), max(2, 6 * self.n_tasks // 10), self.n_subsets)
        order = rng.random((self.n_subsets, self.n_tasks)).argsort(axis=1).argsort(axis=1)
        return order < sizes[:, None], kills, cover

    @property
    def label(self) -> str:
        return (
            f"K={self.n_subsets} T={self.n_tasks} M={self.n_mutants} I={self.n_items} B={self.n_replicates} "
            f"kills {self.killed:g} cover {self.covered:g}"
        )


def ours(case: Case) -> dict[str, float]:
    """Times both procedures in this process. Peak memory is of the whole process, libraries included."""
    import resource

    from metric_benchmark.correlation import task_permutation_test, two_way_bootstrap

    matrices = case.draw()
    task_permutation_test(*matrices, seed=1, n_replicates=50)
    start = time.process_time()
    test = task_permutation_test(*matrices, seed=1, n_replicates=case.n_replicates)
    middle = time.process_time()
    boot = two_way_bootstrap(*matrices, seed=1, n_replicates=case.n_replicates)
    end = time.process_time()
    return {
        "permutation": middle - start,
        "bootstrap": end - middle,
        "observed": test.observed,
        "null_mean": test.null_mean,
        "stderr_z": boot.stderr_z,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def ours_apart(case: Case) -> dict[str, float]:
    """Runs `ours` in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, __file__, "--child", json.dumps(asdict(case))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def pandas_replicates(case: Case) -> dict[str, Callable[[], float]]:
    """One replicate of each procedure the way an analyst writes it with pandas and SciPy."""
    import numpy as np
    import pandas as pd
    from scipy.stats import spearmanr

    membership, kills, cover = case.draw()
    rng = np.random.default_rng(2)
    tasks = [f"t{i}" for i in range(case.n_tasks)]
    kills, cover = pd.DataFrame(kills, index=tasks), pd.DataFrame(cover, index=tasks)
    members = [[tasks[i] for i in np.flatnonzero(row)] for row in membership]
    size = pd.Series([len(names) for names in members])
    score = pd.Series([kills.loc[names].any().mean() for names in members])

    def partial(coverage: pd.Series, score: pd.Series) -> float:
        xy, xz, yz = (spearmanr(a, b).statistic for a, b in ((coverage, score), (coverage, size), (score, size)))
        return (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))

    def permutation() -> float:
        moved = cover.set_axis(rng.permutation(tasks))
        return partial(pd.Series([moved.loc[names].any().mean() for names in members]), score)

    def bootstrap() -> float:
        drawn = rng.integers(0, case.n_tasks, case.n_tasks)
        weight = rng.multinomial(case.n_mutants, np.full(case.n_mutants, 1 / case.n_mutants))
        one, two = kills.iloc[drawn].set_axis(tasks), cover.iloc[drawn].set_axis(tasks)
        scores = pd.Series([np.average(one.loc[names].any(), weights=weight) for names in members])
        return partial(pd.Series([two.loc[names].any().mean() for names in members]), scores)

    return {"permutation": permutation, "bootstrap": bootstrap}


def set_replicates(case: Case) -> dict[str, Callable[[], float]]:
    """One replicate of each procedure with Python sets, the fastest plain way."""
    import numpy as np
    from scipy.stats import spearmanr

    membership, kills, cover = case.draw()
    rng = np.random.default_rng(2)
    killed, covered = ([frozenset(np.flatnonzero(row).tolist()) for row in matrix] for matrix in (kills, cover))
    members = [np.flatnonzero(row).tolist() for row in membership]
    size = [len(names) for names in members]
    score = [len(set().union(*(killed[t] for t in names))) for names in members]

    def partial(coverage: list[int], score: list[int]) -> float:
        xy, xz, yz = (spearmanr(a, b).statistic for a, b in ((coverage, score), (coverage, size), (score, size)))
        return (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))

    def permutation() -> float:
        moved = [covered[i] for i in rng.permutation(case.n_tasks)]
        return partial([len(set().union(*(moved[t] for t in names))) for names in members], score)

    def bootstrap() -> float:
        drawn = rng.integers(0, case.n_tasks, case.n_tasks)
        weight = rng.multinomial(case.n_mutants, np.full(case.n_mutants, 1 / case.n_mutants)).tolist()
        one, two = [killed[i] for i in drawn], [covered[i] for i in drawn]
        scores = [sum(weight[m] for m in set().union(*(one[t] for t in names))) for names in members]
        return partial([len(set().union(*(two[t] for t in names))) for names in members], scores)

    return {"permutation": permutation, "bootstrap": bootstrap}


def extrapolate(replicate: Callable[[], float], n_replicates: int, n_timed: int) -> float:
    """Times a few replicates and returns the seconds all of them would take."""
    start = time.process_time()
    for _ in range(n_timed):
        replicate()
    return (time.process_time() - start) / n_timed * n_replicates


def compare(case: Case, n_timed: int) -> None:
    found = ours_apart(case)
    mine = found["permutation"] + found["bootstrap"]
    print(f"\n{case.label}\n")
    print("| CPU seconds | permutation | bootstrap | together | times ours |")
    print("|---|---|---|---|---|")
    print(f"| ours, one process | {found['permutation']:.2f} | {found['bootstrap']:.2f} | {mine:.2f} | 1 |")
    for name, make in (("pandas and SciPy", pandas_replicates), ("Python sets and SciPy", set_replicates)):
        replicates = make(case)
        times = {key: extrapolate(replicates[key], case.n_replicates, n_timed) for key in replicates}
        both = sum(times.values())
        print(
            f"| {name}, extrapolated from {n_timed} replicates each | {times['permutation']:.0f} | "
            f"{times['bootstrap']:.0f} | {both:.0f} | {both / mine:.0f} |"
        )
    print(f"\npeak memory of our process: {found['peak_mb']:.0f} MB")


def growth(base: Case) -> Iterator[tuple[str, Case]]:
    yield "base", base
    for name in ("n_subsets", "n_tasks", "n_mutants", "n_items", "n_replicates"):
        value = getattr(base, name)
        for factor in (2, 4):
            yield f"{name} x {factor}", replace(base, **{name: value * factor})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer replicates in the large case and the growth table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(ours(Case(**json.loads(arguments.child)))))
        return
    print("## Against plain loops")
    for densities in ({}, {"killed": 0.3, "covered": 0.2}):
        compare(Case(**densities), n_timed=2 if arguments.quick else 5)
    print("\n## A large case\n")
    large = Case(10_000, 500, 200, 500, 200 if arguments.quick else 2000, 0.02, 0.02)
    found = ours_apart(large)
    print(
        f"{large.label}: permutation {found['permutation']:.1f} s, bootstrap {found['bootstrap']:.1f} s, "
        f"peak memory {found['peak_mb']:.0f} MB"
    )
    print("\n## Growth of cost\n\n| CPU seconds | permutation | bootstrap |\n|---|---|---|")
    base = Case(n_subsets=500, n_tasks=50, n_mutants=100, n_items=100, n_replicates=500 if arguments.quick else 2000)
    for name, case in growth(base):
        found = ours_apart(case)
        label = base.label if name == "base" else name.replace("n_", "")
        print(f"| {label} | {found['permutation']:.2f} | {found['bootstrap']:.2f} |")


if __name__ == "__main__":
    main()
