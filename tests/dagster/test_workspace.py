# SPDX-License-Identifier: Apache-2.0
"""Several experiments in one workspace: a code location each, and no collision of assets, schedules or sensors."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_graphql.schema import create_schema

from metric_benchmark.errors import ConfigError
from metric_benchmark.webserver import WebServer
from metric_benchmark_dagster.home import prepare_home, read_nightly
from metric_benchmark_dagster.nightly import Nightly
from metric_benchmark_dagster.workspace import Served, check_served, write_workspace

_QUERY = """
{ workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError {
    ... on PythonError { message }
    ... on RepositoryLocation { repositories {
      assetNodes { assetKey { path } dependencyKeys { path } tags { key value } }
      schedules { name } sensors { name } } } } } } } }
"""


class InProcess(WebServer):
    """Asks a schema as the launch command asks a web server."""

    def __init__(self, process: WorkspaceProcessContext) -> None:
        super().__init__()
        self._process = process

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        context = self._process.create_request_context()
        result = create_schema().execute(query, context_value=context, variables=variables)
        assert not result.errors, result.errors
        return result.data


def named(small: ModuleType, folder: Path, name: str) -> Served:
    path = small.build_experiment(folder / "experiment")
    path.write_text(path.read_text().replace("name: small", f"name: {name}"))
    return Served(path, folder / "out")


def test_two_experiments_are_served_side_by_side(small: ModuleType, tmp_path: Path) -> None:
    served = check_served([named(small, tmp_path / "a", "first"), named(small, tmp_path / "b", "second-one")])
    home = prepare_home(tmp_path / "a" / "out")
    workspace = write_workspace(home, served)
    with (
        dg.instance_for_test() as instance,
        WorkspaceProcessContext(instance, WorkspaceFileTarget([str(workspace)])) as process,
    ):
        result = create_schema().execute(_QUERY, context_value=process.create_request_context())
        server = InProcess(process)
        for one in served:
            server.check_evidence(server.find(one.name), one.output, one.name)
        with pytest.raises(ConfigError) as refused:
            server.check_evidence(server.find("first"), served[1].output, "mine")
    assert [str(problem).partition(", not ")[0] for problem in refused.value.problems] == [
        f"{server.url}: has this experiment's evidence in {served[0].output}",
        f"{server.url}: runs this experiment as 'first'",
    ]
    assert not result.errors, result.errors
    entries = {
        entry["name"]: entry["locationOrLoadError"] for entry in result.data["workspaceOrError"]["locationEntries"]
    }
    assert set(entries) == {"first", "second-one"}
    for name, prefix in (("first", "first"), ("second-one", "second_one")):
        (repository,) = entries[name]["repositories"]
        nodes = repository["assetNodes"]
        assert len(nodes) == 9
        # Every asset, and everything it depends on, is this experiment's own.
        assert {node["assetKey"]["path"][0] for node in nodes} == {prefix}
        assert {key["path"][0] for node in nodes for key in node["dependencyKeys"]} == {prefix}
        tags = {tag["value"] for node in nodes for tag in node["tags"] if tag["key"] == "metric_benchmark/experiment"}
        assert tags == {name}
        assert [schedule["name"] for schedule in repository["schedules"]] == ["scheduled_backfill"]
        assert {sensor["name"] for sensor in repository["sensors"]} == {"watch_inputs", "analysis_follows"}


def test_names_that_mean_something_else_in_yaml_stay_names(tmp_path: Path) -> None:
    served = [Served(tmp_path / name, tmp_path / name, name) for name in ("on", "1.5")]
    written = yaml.safe_load(write_workspace(tmp_path, served).read_text())
    assert [entry["python_file"]["location_name"] for entry in written["load_from"]] == ["on", "1.5"]


def test_one_name_or_one_evidence_root_twice_is_refused(small: ModuleType, tmp_path: Path) -> None:
    one, two = named(small, tmp_path / "a", "same-name"), named(small, tmp_path / "b", "same.name")
    with pytest.raises(ConfigError, match="more than one experiment is called same_name"):
        check_served([one, two])
    other = named(small, tmp_path / "c", "other")
    with pytest.raises(ConfigError, match="more than one evidence root is"):
        check_served([one, Served(other.experiment, one.output)])


def test_the_settings_of_the_schedule_come_from_the_environment() -> None:
    assert read_nightly({}) == Nightly()
    given = {
        "CRON": "0 4 * * 1",
        "TIMEZONE": "Europe/Berlin",
        "MAX_RUNS": "7",
        "MAX_COST_USD": "2.5",
        "MAX_RUNTIME_S": "60",
    }
    environment = {f"METRIC_BENCHMARK_{name}": value for name, value in given.items()}
    assert read_nightly(environment) == Nightly("0 4 * * 1", "Europe/Berlin", 7, 2.5, 60)
    with pytest.raises(ConfigError) as caught:
        read_nightly({"METRIC_BENCHMARK_MAX_RUNS": "many", "METRIC_BENCHMARK_MAX_COST_USD": "-1"})
    places = {problem.place for problem in caught.value.problems}
    assert places == {"METRIC_BENCHMARK_MAX_RUNS", "METRIC_BENCHMARK_MAX_COST_USD"}
