# SPDX-License-Identifier: Apache-2.0
"""Record of a native validation: what was compared with what, and every deviation."""

from __future__ import annotations

from typing import ClassVar, Literal

from metric_benchmark.records.base import Record, Shape

#: `public`: the experiment's files say that it is no secret.
type SecretState = Literal["searched", "not_set", "too_short", "public"]


class Deviation(Shape):
    """One thing in which native files differ from the records or from what was planned."""

    place: str
    message: str


class ValidationReport(Record):
    """`validation.json`: the native folders were compared with everything that was recorded of them.

    It holds for the manifest whose digest is in `evidence` and says nothing of any other. `tasks` says of each task
    (`case/task`) what its digests were compared with: its `folder`, or the `records` alone where that is gone.
    `secrets` says of each variable the experiment refers to whether its value was searched in the evidence.
    `n_other_runs` counts runs that no current result rests on: they were paid for under other settings.
    """

    SCHEMA: ClassVar[str] = "metric-benchmark/validation/v1"

    run_id: str
    passed: bool
    validated_at: str
    n_variants: int
    n_trials: int
    n_files: int
    n_other_runs: int = 0
    tasks: dict[str, Literal["folder", "records"]]
    secrets: dict[str, SecretState] = {}
    deviations: tuple[Deviation, ...] = ()
