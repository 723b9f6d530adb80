# SPDX-License-Identifier: Apache-2.0
"""The command line: one module per group of commands; `main` is the console script."""

from metric_benchmark.cli.app import main

__all__ = ["main"]
