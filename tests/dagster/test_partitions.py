# SPDX-License-Identifier: Apache-2.0
"""Partition keys and mappings of an experiment of two cases, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import dagster as dg
import pytest

from metric_benchmark.config import load_experiment
from metric_benchmark_dagster.partitions import PartitionKeys, split_key


@pytest.fixture
def keys(small: ModuleType, tmp_path: Path) -> PartitionKeys:
    path = small.build_experiment(tmp_path, cases=small.TWO_CASES, sign=False)
    return PartitionKeys.of(load_experiment(path, level="analysis", verify=False))


def _edges(mapping: dg.StaticPartitionMapping) -> dict[str, set[str]]:
    raw = mapping.downstream_partition_keys_by_upstream_partition_key
    return {up: {down} if isinstance(down, str) else set(down) for up, down in raw.items()}


def test_keys_are_the_variants_that_exist_and_no_others(keys: PartitionKeys, small: ModuleType) -> None:
    assert tuple(keys.roles) == small.VARIANTS
    assert keys.cases == ("tiny", "other")
    assert keys.scored == small.SCORED
    assert keys.roles["other|idle"] == "mutant"


def test_baseline_and_screening_lead_to_every_kill_of_their_case_and_a_mutant_only_to_its_own(
    keys: PartitionKeys,
) -> None:
    tiny = {"tiny|control-1", "tiny|lazy", "tiny|same"}
    assert _edges(keys.results_to_kills()) == {
        "tiny|baseline": tiny,
        "tiny|screening": tiny,
        "tiny|control-1": {"tiny|control-1"},
        "tiny|lazy": {"tiny|lazy"},
        "tiny|same": {"tiny|same"},
        "other|baseline": {"other|control-1", "other|idle"},
        "other|screening": {"other|control-1", "other|idle"},
        "other|control-1": {"other|control-1"},
        "other|idle": {"other|idle"},
    }


def test_coverage_depends_on_the_baseline_alone(keys: PartitionKeys) -> None:
    assert _edges(keys.baseline_to_case()) == {"tiny|baseline": {"tiny"}, "other|baseline": {"other"}}


def test_scores_of_a_case_depend_on_all_its_kills(keys: PartitionKeys) -> None:
    assert _edges(keys.kills_to_case()) == {
        "tiny|control-1": {"tiny"},
        "tiny|lazy": {"tiny"},
        "tiny|same": {"tiny"},
        "other|control-1": {"other"},
        "other|idle": {"other"},
    }


def test_a_case_without_screening_and_controls_has_no_such_keys(small: ModuleType, tmp_path: Path) -> None:
    path = small.build_experiment(tmp_path, sign=False)
    execution = tmp_path / "execution.yaml"
    lines = execution.read_text().splitlines()
    lines[1] = "roles: {baseline: {attempts: 1}, mutant: {attempts: 1}}"
    execution.write_text("\n".join(lines) + "\n")
    keys = PartitionKeys.of(load_experiment(path, level="analysis", verify=False))
    assert tuple(keys.roles) == ("tiny|baseline", "tiny|lazy", "tiny|same")


def test_keys_split_at_their_one_bar() -> None:
    assert split_key("desk|no-grep") == ("desk", "no-grep")
