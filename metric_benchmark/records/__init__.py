# SPDX-License-Identifier: Apache-2.0
"""Models of every JSON record on disk; the stages meet here and nowhere else."""

from metric_benchmark.records.base import Defined, Implementation, Number, Record, Undefined, comparable

__all__ = ["Defined", "Implementation", "Number", "Record", "Undefined", "comparable"]
