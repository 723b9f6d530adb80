# SPDX-License-Identifier: Apache-2.0
"""The record of `coverage.json`: per metric its cover matrix or numbers, and each subset's coverage."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from metric_benchmark.records.base import Record, Shape, Undefined

#: A share in [0, 1], or why there is none.
Share = Annotated[float, Field(ge=0, le=1)] | Undefined


class SubsetCoverage(Shape):
    """Coverage of one subset.

    `covered` lists the items that at least one of its measured tasks covers; empty for an opaque metric.
    """

    coverage: Share
    covered: list[str] = Field(default_factory=list[str])


class MetricCoverage(Shape):
    """What one configured metric said about one case.

    Args:
        kind: `items` = a cover matrix; `opaque` = the metric gave numbers only.
        items: the universe; empty for an opaque metric.
        tasks: task -> the items its trace covers; measured tasks only.
        task_coverage: task -> coverage of that task alone, where an opaque metric gave it.
        unmeasured_tasks: tasks about which the metric can say nothing; a subset with one has no coverage.
        unmeasured_reasons: why, per unmeasured task.
        counts: numbers the metric wants to be seen next to its coverage, e.g. `unjudged`.
        notes: what could not be read or should be known before the numbers are believed.
        label: what kind of metric this is where a reader could be misled, e.g. `wiring test`.
        metric: the metric's name in the registry or its import path.
        files_sha256: digests of the files it read besides traces.
        request_sha256: digest of all the metric was given; the key of its cached answer.
    """

    kind: Literal["items", "opaque"]
    items: list[str] = Field(default_factory=list[str])
    tasks: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    subsets: dict[str, SubsetCoverage]
    task_coverage: dict[str, float] = Field(default_factory=dict[str, float])
    unmeasured_tasks: list[str] = Field(default_factory=list[str])
    unmeasured_reasons: dict[str, str] = Field(default_factory=dict[str, str])
    counts: dict[str, int] = Field(default_factory=dict[str, int])
    notes: list[str] = Field(default_factory=list[str])
    label: str | None = None
    metric: str
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    files_sha256: dict[str, str] = Field(default_factory=dict[str, str])
    code_sha256: str
    request_sha256: str


class CoverageRecord(Record):
    """`coverage.json` of one case."""

    SCHEMA: ClassVar[str] = "metric-benchmark/coverage/v1"

    case_id: str
    metrics: dict[str, MetricCoverage]
