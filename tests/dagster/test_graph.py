# SPDX-License-Identifier: Apache-2.0
"""The asset graph as a Dagster host sees it: loaded by a code server of its own, serialised, asked for over GraphQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_graphql.schema import create_schema

from metric_benchmark_dagster.home import EXPERIMENT_VARIABLE, OUTPUT_VARIABLE

REPOSITORY = Path(__file__).parents[2]
STATIC = "StaticPartitionMapping"

_QUERY = """
{ assetNodes {
    assetKey { path } groupName kinds description isMaterializable isObservable isPartitioned pools
    owners { ... on TeamAssetOwner { team } }
    tags { key value }
    partitionKeys
    dependencies { asset { assetKey { path } } partitionMapping { className } }
    partitionKeysByDimension { partitionKeys }
} }
"""


@pytest.fixture(scope="module")
def nodes(small: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("graph")
    path = small.build_experiment(folder / "experiment", cases=small.TWO_CASES)
    patch = pytest.MonkeyPatch()
    patch.setenv(EXPERIMENT_VARIABLE, str(path))
    patch.setenv(OUTPUT_VARIABLE, str(folder / "out"))
    target = WorkspaceFileTarget([str(REPOSITORY / "workspace.yaml")])
    with dg.instance_for_test() as instance, WorkspaceProcessContext(instance, target) as process:
        result = create_schema().execute(_QUERY, context_value=process.create_request_context())
        assert not result.errors, result.errors
        yield {node["assetKey"]["path"][-1]: node for node in result.data["assetNodes"]}
    patch.undo()


def _edges(node: dict[str, Any]) -> dict[str, str | None]:
    return {
        dependency["asset"]["assetKey"]["path"][-1]: (dependency["partitionMapping"] or {}).get("className")
        for dependency in node["dependencies"]
    }


def test_the_graph_is_the_designed_one_with_mappings_that_survive_serialisation(nodes: dict[str, Any]) -> None:
    assert {name: _edges(node) for name, node in nodes.items()} == {
        "variant_inputs": {},
        "case_inputs": {},
        "raw_results": {"variant_inputs": STATIC},
        "mutant_scores": {"raw_results": STATIC},
        "subset_scores": {"mutant_scores": STATIC},
        "coverage": {"raw_results": STATIC, "case_inputs": STATIC},
        "correlation": {"subset_scores": STATIC, "coverage": STATIC, "case_inputs": STATIC},
        # To an asset without partitions Dagster maps all of them by itself.
        "execution_manifest": {"raw_results": None},
        "report": {"correlation": None, "execution_manifest": None},
    }


def test_partitions_are_the_variants_and_cases_that_exist(nodes: dict[str, Any], small: ModuleType) -> None:
    keys = {name: tuple(node["partitionKeys"]) for name, node in nodes.items()}
    assert keys["variant_inputs"] == keys["raw_results"] == small.VARIANTS
    assert keys["mutant_scores"] == small.SCORED
    for asset in ("case_inputs", "subset_scores", "coverage", "correlation"):
        assert keys[asset] == ("tiny", "other")
    assert keys["execution_manifest"] == keys["report"] == ()


def test_groups_are_the_stages(nodes: dict[str, Any]) -> None:
    assert {name: node["groupName"] for name, node in nodes.items()} == {
        "variant_inputs": "inputs",
        "case_inputs": "inputs",
        "raw_results": "raw_results",
        "execution_manifest": "report",
        "mutant_scores": "mutant_scores",
        "subset_scores": "mutant_scores",
        "coverage": "coverage",
        "correlation": "correlation",
        "report": "report",
    }


def test_every_asset_is_described_and_owned_and_only_raw_results_are_limited(nodes: dict[str, Any]) -> None:
    for name, node in nodes.items():
        assert len(node["description"]) > 60, name
        assert node["kinds"], name
        assert node["isObservable"] == name.endswith("_inputs")
        assert node["pools"] == (["harbor"] if name == "raw_results" else [])
        if node["isMaterializable"]:
            assert node["owners"] == [{"team": "metric-benchmark"}], name
