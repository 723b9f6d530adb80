# SPDX-License-Identifier: Apache-2.0
"""What all JSON records share: frozen models, schema names, undefined numbers, provenance, `comparable()`."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Shape(BaseModel):
    """A frozen part of a record; unknown fields of newer versions are kept out, not refused."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Defined(Shape):
    """A number that exists."""

    status: Literal["ok"] = "ok"
    value: float


class Undefined(Shape):
    """A number that does not exist, and why, e.g. `constant_mutation_score`."""

    status: Literal["undefined"] = "undefined"
    reason: str


Number = Annotated[Defined | Undefined, Field(discriminator="status")]


def number(value: float, reason: str = "not_finite") -> Defined | Undefined:
    """Wraps a float; one that is not finite becomes undefined for `reason`."""
    return Defined(value=value) if math.isfinite(value) else Undefined(reason=reason)


class Implementation(Shape):
    """Which code wrote a record."""

    version: str
    stage_sha256: str
    harbor: str
    pydantic: str


class Record(Shape):
    """A JSON file of the evidence root.

    `inputs` holds digests of configuration and pinned inputs; `evidence` holds digests of the records and native files
    it was computed from, which differ between two runs of one experiment.
    """

    SCHEMA: ClassVar[str]

    schema_name: str = Field(alias="schema", default="")
    implementation: Implementation | None = None
    inputs: dict[str, str] = {}
    evidence: dict[str, str] = {}

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _fill_schema(cls, data: Any) -> Any:
        if isinstance(data, dict) and "schema" not in data and "schema_name" not in data:
            return {**data, "schema": cls.SCHEMA}  # pyright: ignore[reportUnknownVariableType]
        return data  # pyright: ignore[reportUnknownVariableType]

    def same_substance(self, other: Record) -> bool:
        """Whether two records say the same, whichever version of the code wrote them."""
        return self.model_copy(update={"implementation": None}) == other.model_copy(update={"implementation": None})

    def to_json(self) -> dict[str, Any]:
        """Returns the record as plain JSON values."""
        return self.model_dump(mode="json", by_alias=True)


#: Fields that differ between two undisturbed runs of one experiment: times, names drawn at random, and digests of files
#: that hold either.
VOLATILE_FIELDS = frozenset(
    {
        "started_at", "finished_at", "duration_s", "created_at", "sealed_at", "trial", "run", "folder", "jobs",
        "result_sha256", "trajectory_sha256", "files_sha256", "raw_results_sha256", "index_sha256", "request_sha256",
        "evidence", "implementation", "record_sha256", "validated_at", "archived",
    }
)  # fmt: skip


def comparable(record: Any) -> Any:
    """Strips times, trial names and digests of native files from a record.

    Two records of one experiment are equal in it, or they differ in substance.

    Args:
        record: a `Record`, or the JSON value of one.
    """
    if isinstance(record, BaseModel):
        record = record.model_dump(mode="json", by_alias=True)
    if isinstance(record, dict):
        items: dict[str, Any] = record  # pyright: ignore[reportUnknownVariableType]
        return {key: comparable(value) for key, value in items.items() if key not in VOLATILE_FIELDS}
    if isinstance(record, list):
        return [comparable(value) for value in record]  # pyright: ignore[reportUnknownVariableType]
    return record
