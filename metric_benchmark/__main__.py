# SPDX-License-Identifier: Apache-2.0
"""Lets `python -m metric_benchmark` stand for the console script."""

import sys

from metric_benchmark.cli import main

if __name__ == "__main__":
    sys.exit(main())
