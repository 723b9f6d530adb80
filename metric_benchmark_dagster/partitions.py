# SPDX-License-Identifier: Apache-2.0
"""Partition keys of an experiment and how those of one asset map to those of the next.

Keys are static, `case|variant` or `case`, and every edge between partitioned assets has a `StaticPartitionMapping`: it
is the one mapping that hosts outside the code location can rebuild. A two-dimensional definition would have cells that
mean nothing, since mutants differ by case.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import dagster as dg

from metric_benchmark.config import Experiment
from metric_benchmark.records.execution import Role
from metric_benchmark.variants import variant_roles

SEPARATOR = "|"


def split_key(key: str) -> tuple[str, str]:
    """Splits `case|variant`."""
    case_id, _, variant_id = key.partition(SEPARATOR)
    return case_id, variant_id


@dataclass(frozen=True)
class PartitionKeys:
    """All partition keys of an experiment.

    Attributes:
        roles: the role of every variant by its key `case|variant`, in the order they run.
    """

    roles: Mapping[str, Role]

    @classmethod
    def of(cls, experiment: Experiment) -> "PartitionKeys":
        """Reads the keys off an experiment's case files."""
        return cls(
            {
                f"{case.case_id}{SEPARATOR}{variant}": role
                for case in experiment.cases
                for variant, role in variant_roles(case.config, experiment.execution.roles).items()
            }
        )

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """Case ids, each once."""
        return tuple(dict.fromkeys(split_key(key)[0] for key in self.roles))

    @cached_property
    def scored(self) -> tuple[str, ...]:
        """Keys of what gets a kill column: mutants and controls."""
        return tuple(key for key, role in self.roles.items() if role in ("mutant", "control"))

    @cached_property
    def variant_partitions(self) -> dg.StaticPartitionsDefinition:
        """One partition per variant of every case."""
        return dg.StaticPartitionsDefinition(list(self.roles))

    @cached_property
    def scored_partitions(self) -> dg.StaticPartitionsDefinition:
        """One partition per mutant and control of every case."""
        return dg.StaticPartitionsDefinition(list(self.scored))

    @cached_property
    def case_partitions(self) -> dg.StaticPartitionsDefinition:
        """One partition per case."""
        return dg.StaticPartitionsDefinition(list(self.cases))

    def same_variant(self) -> dg.StaticPartitionMapping:
        """A variant's inputs lead to its own results."""
        return _same(self.roles)

    def same_case(self) -> dg.StaticPartitionMapping:
        """What belongs to a case leads to what belongs to it."""
        return _same(self.cases)

    def results_to_kills(self) -> dg.StaticPartitionMapping:
        """A mutant's results lead to its kills; those of baseline and screening lead to all kills of their case."""
        by_case: dict[str, list[str]] = {case_id: [] for case_id in self.cases}
        for key in self.scored:
            by_case[split_key(key)[0]].append(key)
        scored = set(self.scored)
        return dg.StaticPartitionMapping(
            {key: [key] if key in scored else by_case[split_key(key)[0]] for key in self.roles}
        )

    def kills_to_case(self) -> dg.StaticPartitionMapping:
        """The kills of all mutants and controls lead to their case's scores."""
        return dg.StaticPartitionMapping({key: split_key(key)[0] for key in self.scored})

    def baseline_to_case(self) -> dg.StaticPartitionMapping:
        """Coverage comes from the baseline's traces; no other variant leads to it."""
        return dg.StaticPartitionMapping(
            {key: split_key(key)[0] for key, role in self.roles.items() if role == "baseline"}
        )


def _same(keys: Iterable[str]) -> dg.StaticPartitionMapping:
    return dg.StaticPartitionMapping({key: key for key in keys})
