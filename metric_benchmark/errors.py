# SPDX-License-Identifier: Apache-2.0
"""The exception tree: every failure a user can cause or meet, with its exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it is, what was found, what was expected, what to do."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class MetricBenchmarkError(Exception):
    """Base of all errors this product raises on purpose.

    Args:
        problems: one message, or all problems found in one go.
    """

    exit_status = 70

    def __init__(self, problems: str | Problem | Iterable[Problem | str]) -> None:
        if isinstance(problems, str | Problem):
            problems = [problems]
        self.problems = tuple(p if isinstance(p, Problem) else Problem("", p) for p in problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class ConfigError(MetricBenchmarkError):
    """The request is wrong: usage, a configuration file, an unusable setting (exit 2)."""

    exit_status = 2


class PinError(ConfigError):
    """An input file or folder is not pinned or differs from its pin (exit 2)."""


class EvidenceError(MetricBenchmarkError):
    """Evidence is missing, damaged or belongs to another run (exit 3)."""

    exit_status = 3


class ExecutionError(MetricBenchmarkError):
    """Execution is incomplete: trials without a verdict, or the budget is reached (exit 4)."""

    exit_status = 4


class LockedError(MetricBenchmarkError):
    """Another run holds the lock (exit 5)."""

    exit_status = 5


class MetricError(MetricBenchmarkError):
    """A coverage metric failed (exit 6)."""

    exit_status = 6


class StorageError(MetricBenchmarkError):
    """The disk is full or not writable (exit 7)."""

    exit_status = 7


class SecretError(MetricBenchmarkError):
    """The value of a secret was found in evidence (exit 8)."""

    exit_status = 8
