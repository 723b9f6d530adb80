# SPDX-License-Identifier: Apache-2.0
"""What `init` writes is signed, small, honest about itself, and never written over something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import ConfigError
from metric_benchmark.experiment import check_designs, open_run
from metric_benchmark.scaffold import write_experiment
from metric_benchmark.variants import resolve_variants


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_experiment(Path("mine"))


def test_it_is_signed_and_every_part_of_it_resolves(written):
    experiment = load_experiment("mine")
    variants = resolve_variants(experiment)
    assert written.experiment == Path("mine/experiment.yaml")
    assert written.n_trials == sum(variant.n_trials for variant in variants) == 54
    assert written.n_trials <= 60
    assert check_designs(open_run("mine", "out")) == []
    assert written.n_files == sum(path.is_file() for path in Path("mine").rglob("*"))


def test_subsets_have_several_sizes_and_mutants_several_operators(written):
    case = load_experiment("mine").cases[0]
    assert {len(subset.tasks) for subset in case.subsets.subsets} == {1, 2, 3, 4}
    assert len({mutant.operator.name for mutant in case.config.mutants}) == 5
    assert case.description.tools == ("read_file", "search", "run", "write_file")


def test_two_of_them_are_the_same(written):
    write_experiment(Path("again"))
    for path in Path("mine").rglob("*"):
        if path.is_file():
            assert (Path("again") / path.relative_to("mine")).read_bytes() == path.read_bytes()


def test_the_agent_knows_no_task(written):
    agent = Path("mine/agent/agent.py").read_text()
    for task in load_experiment("mine").cases[0].config.tasks:
        assert task.id not in agent


def test_an_empty_folder_is_used_where_it_is(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert write_experiment(Path()).experiment == Path("experiment.yaml")
    assert (here / "experiment.yaml").exists()


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    for name in ("d", "a", "c", "b"):
        (tmp_path / "mine" / name).write_text("x")
    with pytest.raises(ConfigError) as refused:
        write_experiment(tmp_path / "mine")
    assert str(refused.value) == (
        f"{tmp_path / 'mine'}: is not empty (it holds a, b, c ...); give a new or empty folder"
    )
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["a", "b", "c", "d"]


def test_a_file_is_refused(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ConfigError, match="mine: is a file; give a new or empty folder"):
        write_experiment(tmp_path / "mine")


def test_no_file_of_it_names_a_machine_or_holds_a_pin_beforehand():
    from metric_benchmark import scaffold

    for path in (Path(scaffold.__file__).parent / "files").rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert "sha256:" not in text
            assert "/root" not in text
