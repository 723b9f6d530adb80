# SPDX-License-Identifier: Apache-2.0
"""Flips single bytes of finished evidence, one at a time, and asks whether anybody notices and names the file.

    python benchmarks/evidence/flips.py [--flips 1000] [--seed 1]

It runs a small experiment in the local sandbox (or takes `--experiment` and `--results`), then flips a random byte of a
random file of every kind in turn. Each flip must end in an `EvidenceError` (exit 3) that names the file: by a reader,
or by `validate-results`. It exits 1 if one was missed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline.validation import current_validation, require_valid, validate_results
from metric_benchmark.reporting.data import load_report

#: What of an evidence root is covered, as patterns below it.
KINDS = {
    "manifest": "execution.json",
    "run id": "execution-inputs.json",
    "case index": "execution/*/results.json",
    "raw results": "execution/*/*/*/raw-results.json",
    "plan": "execution/*/*/*/run-*.plan.json",
    "job config": "execution/*/*/*/jobs/*/config.json",
    "job lock": "execution/*/*/*/jobs/*/lock.json",
    "job result": "execution/*/*/*/jobs/*/result.json",
    "trial config": "execution/*/*/*/jobs/*/*/config.json",
    "trial lock": "execution/*/*/*/jobs/*/*/lock.json",
    "trial result": "execution/*/*/*/jobs/*/*/result.json",
    "reward": "execution/*/*/*/jobs/*/*/verifier/reward.*",
    "trajectory": "execution/*/*/*/jobs/*/*/agent/trajectory.json",
    "ledger": "ledger.jsonl",
    "validation": "validation.json",
    "guard": "experiment-inputs.json",
    "experiment": "experiment.json",
    "frozen inputs": "analysis/*/*s.json",
    "kills": "analysis/*/mutants/*.json",
    "coverage": "analysis/*/coverage.json",
    "correlation": "analysis/*/correlation.json",
}


@dataclass(frozen=True)
class Flip:
    """One flipped byte and who noticed it."""

    kind: str
    path: Path
    offset: int
    old: int
    new: int
    noticed_by: str | None
    is_named: bool


def flip_bytes(experiment: Path, root: EvidenceRoot, n_flips: int, rng: random.Random) -> Iterator[Flip]:
    """Yields what came of each flip; the evidence is put back after each."""
    files = {kind: sorted(path for path in root.path.glob(pattern)) for kind, pattern in KINDS.items()}
    files = {kind: paths for kind, paths in files.items() if paths}
    kinds = list(files)
    for number in range(n_flips):
        kind = kinds[number % len(kinds)]
        path = rng.choice(files[kind])
        data = path.read_bytes()
        offset = rng.randrange(len(data))
        new = data[offset] ^ rng.randrange(1, 256)
        path.write_bytes(data[:offset] + bytes([new]) + data[offset + 1 :])
        kept = root.validation.read_bytes()
        try:
            noticed, message = _who_notices(experiment, root)
        finally:
            root.validation.write_bytes(kept)
            path.write_bytes(data)
        is_named = path.relative_to(root.path).as_posix() in message
        yield Flip(kind, path, offset, data[offset], new, noticed, is_named)


def _who_notices(experiment: Path, root: EvidenceRoot) -> tuple[str | None, str]:
    try:
        run = open_run(experiment, None, results=root.path, level="analysis")
        load_report(run.root)
        current_validation(run.root)
    except EvidenceError as error:
        return "reader", str(error)
    try:
        require_valid(run.root, validate_results(run).report)
    except EvidenceError as error:
        return "validate-results", str(error)
    return None, ""


def _run_example(folder: Path) -> tuple[Path, Path]:
    """Runs what `init` writes, with two tasks and two mutants."""
    from metric_benchmark.cli.app import main
    from metric_benchmark.pins import sign_experiment

    experiment = folder / "experiment"
    assert main(["init", str(experiment)]) == 0
    sign_experiment(experiment)
    assert main(["run-experiment", str(experiment), "--output", str(folder / "out")]) == 0
    return experiment, folder / "out"


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--experiment", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mb-flips-") as name:
        folder = Path(name)
        if options.results is None:
            experiment, results = _run_example(folder)
        else:
            experiment, results = options.experiment, folder / "copy"
            shutil.copytree(options.results, results, symlinks=True)
        started = time.monotonic()
        flips = list(flip_bytes(experiment, EvidenceRoot(results), options.flips, random.Random(options.seed)))
        seconds = time.monotonic() - started
    by_kind = Counter((flip.kind, flip.noticed_by or "NOBODY") for flip in flips)
    for (kind, who), number in sorted(by_kind.items()):
        print(f"{kind:15} {number:5} noticed by {who}")
    missed = [flip for flip in flips if flip.noticed_by is None or not flip.is_named]
    for flip in missed:
        print(f"MISSED {flip}")
    print(f"{len(flips)} flips, {len(missed)} missed, {seconds:.0f} s")
    if options.json:
        numbers = {"flips": len(flips), "missed": len(missed), "seconds": round(seconds, 1)}
        options.json.write_text(json.dumps({**numbers, "by_kind": {f"{k}: {w}": n for (k, w), n in by_kind.items()}}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
