# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Dagster tests: a small real experiment, and one that has been materialised to the end."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from metric_benchmark.pins import sign_experiment
from metric_benchmark_dagster.definitions import build_defs

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Dagster 1.13 warns about itself; warnings of everything else stay errors."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:.*OpDefinition.version.*:DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::dagster.SupersessionWarning"))


def _load(name: str) -> ModuleType:
    """Loads a module of this folder, which is no package."""
    full = f"mb_tests_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, HERE / f"{name}.py")
        assert spec
        assert spec.loader
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


@pytest.fixture(scope="session")
def small() -> ModuleType:
    """The module that builds small experiments."""
    return _load("small_experiment")


@pytest.fixture(scope="session")
def processes() -> ModuleType:
    """The module that finds processes."""
    return _load("processes")


@pytest.fixture
def experiment(small: ModuleType, tmp_path: Path) -> Path:
    """A small experiment of one case: `tiny` with mutants `lazy` and `same`."""
    return small.build_experiment(tmp_path / "experiment")


@dataclass
class Shell:
    """An experiment in Dagster: materialises assets in this process and remembers their metadata."""

    experiment: Path
    output: Path
    instance: dg.DagsterInstance
    overrides: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.definitions = build_defs(experiment=self.experiment, output=self.output, retry_delay_s=0, **self.overrides)

    def run(self, *assets: str, key: str | None = None) -> dg.ExecuteInProcessResult:
        """Materialises (or observes) assets; the result says whether they succeeded."""
        return self.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            asset_selection=[dg.AssetKey(asset) for asset in assets],
            partition_key=key,
            instance=self.instance,
            raise_on_error=False,
        )

    def metadata(self, asset: str, key: str | None = None) -> dict[str, Any]:
        """The metadata of the latest materialisation of an asset."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[key] if key else None), limit=1
        ).records
        assert records, f"{asset} of {key} is not materialised"
        materialization = records[0].asset_materialization
        assert materialization
        return dict(materialization.metadata)

    def edit(self, file: str, old: str, new: str, *, sign: bool = True) -> None:
        """Changes a file of the experiment, which must have the text once."""
        path = self.experiment.parent / file
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
        if sign:
            sign_experiment(self.experiment)

    @staticmethod
    def failure(result: dg.ExecuteInProcessResult) -> Any:
        """The user failure of the one step that failed: its description and metadata."""
        (event,) = result.get_step_failure_events()
        data: Any = event.event_specific_data
        return data.user_failure_data


@pytest.fixture
def make_shell(tmp_path: Path) -> Iterator[Callable[..., Shell]]:
    """Puts an experiment into Dagster, on an instance of its own."""
    with dg.instance_for_test() as instance:
        yield lambda path, **overrides: Shell(path, tmp_path / "out", instance, overrides)


@pytest.fixture
def shell(experiment: Path, make_shell: Callable[..., Shell]) -> Shell:
    """A small experiment nothing of which has been run."""
    return make_shell(experiment)


@pytest.fixture(scope="session")
def finished(small: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A small experiment that was materialised to the end; tests only read it."""
    folder = tmp_path_factory.mktemp("finished")
    path = small.build_experiment(folder / "experiment", cases=small.TWO_CASES)
    with dg.instance_for_test() as instance:
        shell = Shell(path, folder / "out", instance)
        for asset in ("variant_inputs", "case_inputs"):
            assert shell.run(asset).success
        for key in small.VARIANTS:
            assert shell.run("raw_results", key=key).success
        for key in small.SCORED:
            assert shell.run("mutant_scores", key=key).success
        for case in small.TWO_CASES:
            assert shell.run("subset_scores", "coverage", "correlation", key=case).success
        assert shell.run("execution_manifest", "report").success
        yield shell


@pytest.fixture
def copied(finished: Shell, make_shell: Callable[..., Shell], tmp_path: Path) -> Shell:
    """The finished experiment, copied so that it can be changed; Dagster knows nothing of it."""
    shutil.copytree(finished.experiment.parent, tmp_path / "experiment")
    shutil.copytree(finished.output, tmp_path / "out", symlinks=True)
    return make_shell(tmp_path / "experiment" / "experiment.yaml")
