# SPDX-License-Identifier: Apache-2.0
"""Calibration of our statistics in public: tables of error rates, interval coverage, verdicts, false kills and power.

    .venv/bin/python benchmarks/calibration/run.py [--scale 1] [--processes 2] [--only type_one ...] [--output FILE]

Every simulation has its own stream made from the seed, so the tables do not depend on the number of processes. At scale
1 a share near .05 is known to about .01 (400 cases), one near .95 to about .013 (300).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import false_kills
import intervals
import power_table
import type_one
import verdict_rates
from tables import Simulator

PARTS = {
    "type_one": ("Type-I error", type_one.report),
    "intervals": ("Interval coverage", intervals.report),
    "verdicts": ("Verdicts", verdict_rates.report),
    "false_kills": ("False kills", false_kills.report),
    "power": ("Power", power_table.report),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of simulated cases")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--output", type=Path, help="a folder: one Markdown file per part")
    arguments = parser.parse_args()
    simulator = Simulator(arguments.seed, arguments.processes)
    for key in arguments.only:
        title, report = PARTS[key]
        text = f"## {title}\n\n{report(simulator, arguments.scale)}\n"
        print(text, flush=True)
        if arguments.output:
            arguments.output.mkdir(parents=True, exist_ok=True)
            (arguments.output / f"{key}.md").write_text(text)
    simulator.close()


if __name__ == "__main__":
    sys.exit(main())
