# SPDX-License-Identifier: Apache-2.0
"""Records around the analysis: the frozen inputs of a case, the guard, and the seal of a whole experiment."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from metric_benchmark.records.base import Record, Shape
from metric_benchmark.records.correlation import Conclusion, PooledEstimate
from metric_benchmark.records.validation import SecretState


class Selection(Record):
    """`selection.json`: what of a case is analysed, and how stages 2 and 4 are set."""

    SCHEMA: ClassVar[str] = "metric-benchmark/selection/v1"

    case: str
    tasks: tuple[str, ...]
    variants: dict[str, str]
    scoring: dict[str, Any]
    correlation: dict[str, Any]


class FrozenSubsets(Record):
    """`subsets.json`: the subsets as they were analysed."""

    SCHEMA: ClassVar[str] = "metric-benchmark/frozen-subsets/v1"

    case: str
    chosen_using: Literal["none", "coverage", "kills", "both"]
    generator: dict[str, Any] | None
    subsets: dict[str, tuple[str, ...]]


class CoverageConfig(Record):
    """`coverage-config.json`: the metrics as they were configured."""

    SCHEMA: ClassVar[str] = "metric-benchmark/coverage-config/v1"

    case: str
    metrics: tuple[dict[str, Any], ...]


class CaseDescription(Record):
    """`case-description.json`: what metrics were told about the case."""

    SCHEMA: ClassVar[str] = "metric-benchmark/case-description/v1"

    case: str
    description: dict[str, Any]


class ExperimentInputs(Record):
    """`experiment-inputs.json`: guards the analysis; written only after execution and manifest were checked.

    `gates` is what `check` demands, kept here so that `check DIR` needs nothing but the evidence.
    """

    SCHEMA: ClassVar[str] = "metric-benchmark/experiment-inputs/v1"

    run_id: str
    name: str
    cases_sha256: str
    gates: dict[str, Any] = {}


class ExecutionSource(Record):
    """`execution-from.json`: which other evidence root's execution is analysed here.

    `path` is relative to the folder of this file, so that both can be moved together.
    """

    SCHEMA: ClassVar[str] = "metric-benchmark/execution-source/v1"

    run_id: str
    path: str


class CaseSeal(Shape):
    """A case's final verdicts, by metric, in the seal of the experiment."""

    conclusions: dict[str, Conclusion] = {}


class ExperimentSeal(Record):
    """`experiment.json`: written last, after everything was re-checked; its presence means complete.

    `native_validation` says whether the native folders were compared with the records of this very manifest, at
    `validated_at`: `failed` means that they were, and differ. `secrets` says of each variable the experiment refers to
    whether its value was searched in the evidence before the seal. `cases` has the final verdicts, adjusted over all
    cases, `pooled` each metric's association over them.
    """

    SCHEMA: ClassVar[str] = "metric-benchmark/experiment-result/v1"

    run_id: str
    name: str
    cases_sha256: str
    cases: dict[str, CaseSeal]
    pooled: dict[str, PooledEstimate] = {}
    native_validation: Literal["done", "not_done", "failed"]
    validated_at: str | None = None
    secrets: dict[str, SecretState] = {}
    sealed_at: str
    n_trials: int
    n_without_verdict: int
    environments: list[str]
