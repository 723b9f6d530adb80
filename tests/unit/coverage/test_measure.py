# SPDX-License-Identifier: Apache-2.0
"""One case end to end: traces in, record out, answers cached by what they depend on."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from metric_benchmark.coverage import measure as measure_module
from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.protocol import CoverMatrix
from metric_benchmark.coverage.registry import MetricSpec, resolve_metrics
from metric_benchmark.errors import ConfigError, EvidenceError, MetricError
from metric_benchmark.records.base import Undefined, comparable
from metric_benchmark.records.coverage import CoverageRecord

SUBSETS = {"s1": ["a"], "s2": ["b", "a"], "s3": ["c", "a"]}


@pytest.fixture
def run(trial):
    """Measures three tasks: a calls list and read, b calls read, c has no trace."""
    baseline = [
        trial("a", trial.atif(trial.step("list", "read"))),
        trial("b", trial.atif(trial.step("read"))),
        trial("c"),
    ]

    def measure(*specs: MetricSpec, **more) -> CoverageRecord:
        given = {
            "tasks": ["b", "a", "c"],
            "baseline": baseline,
            "subsets": SUBSETS,
            "description": {"title": "desk"},
            "metrics": specs or (MetricSpec("tool_calls", settings={"tools": ["write", "search"]}),),
        }
        return measure_coverage("desk", **{**given, **more})

    measure.baseline = baseline
    return measure


def test_the_record_of_a_cover_matrix(run):
    found = run().metrics["tool_calls"]
    assert (found.kind, found.items) == ("items", ["list", "read", "search", "write"])
    assert found.tasks == {"a": ["list", "read"], "b": ["read"]}
    assert found.subsets["s1"].coverage == 0.5
    assert found.subsets["s2"].covered == ["list", "read"]
    assert found.subsets["s3"].coverage == Undefined(reason="unmeasured_tasks")
    assert found.unmeasured_tasks == ["c"]
    assert found.unmeasured_reasons == {"c": "the agent wrote no trajectory"}
    assert found.settings == {"attempts": "union", "tools": ["write", "search"]}


def test_metrics_that_need_no_traces_measure_every_task(run):
    record = run(MetricSpec("suite_size"), MetricSpec("fake", "synthetic", {"seed": 4}))
    assert record.metrics["suite_size"].subsets["s3"].coverage == pytest.approx(2 / 3)
    assert record.metrics["suite_size"].unmeasured_tasks == []
    assert (record.metrics["fake"].label, record.metrics["fake"].metric) == ("wiring test", "synthetic")


def test_the_record_as_json_has_the_promised_shape(run):
    value = run().to_json()
    assert value["schema"] == "metric-benchmark/coverage/v1"
    metric = value["metrics"]["tool_calls"]
    assert metric["subsets"]["s1"] == {"coverage": 0.5, "covered": ["list", "read"]}
    assert metric["subsets"]["s3"]["coverage"] == {"status": "undefined", "reason": "unmeasured_tasks"}
    assert CoverageRecord.model_validate(json.loads(json.dumps(value))).to_json() == value


def test_two_runs_of_one_experiment_are_equal_in_comparable(run, trial):
    again = [
        trial("a", trial.atif(trial.step("list", "read"), notes="later"), attempt=7),
        trial("b", trial.atif(trial.step("read"), notes="later"), attempt=7),
        trial("c", attempt=7),
    ]
    again = [dataclasses.replace(t, attempt=1) for t in again]
    first, second = run(), run(baseline=again)
    assert first.metrics["tool_calls"].request_sha256 != second.metrics["tool_calls"].request_sha256
    assert comparable(first) == comparable(second)


def test_an_answer_is_kept_and_not_asked_for_again(run, tmp_path: Path, monkeypatch):
    cache = tmp_path / "cache"
    first = run(cache=cache)
    digest = first.metrics["tool_calls"].request_sha256
    assert [p.relative_to(cache).as_posix() for p in cache.rglob("*.json")] == [f"tool_calls/{digest}.json"]
    replace_metrics(monkeypatch, implementation=_Never())
    assert run(cache=cache).to_json() == first.to_json()


class _Never:
    def measure(self, request):
        raise AssertionError("asked again")


def replace_metrics(monkeypatch, **changes):
    """Makes every metric that is found differ in `changes`."""
    monkeypatch.setattr(
        measure_module,
        "resolve_metrics",
        lambda specs, base, describe: [
            dataclasses.replace(found, **changes) for found in resolve_metrics(specs, base, describe)
        ],
    )


@pytest.mark.parametrize("damage", ["cut", "edited", "other request"])
def test_a_damaged_cached_answer_is_not_believed(run, tmp_path: Path, damage):
    cache = tmp_path / "cache"
    first = run(cache=cache)
    path = next(cache.rglob("*.json"))
    entry = json.loads(path.read_text())
    if damage == "edited":
        entry["answer"]["tasks"]["b"] = ["read", "write"]
    elif damage == "other request":
        entry["request_sha256"] = "0" * 64
    path.write_text("{" if damage == "cut" else json.dumps(entry))
    assert run(cache=cache).to_json() == first.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"subsets": {"s1": ["b"]}},
        {"description": {"title": "other"}},
        {"metrics": [MetricSpec("tool_calls", settings={"tools": ["write"]})]},
    ],
)
def test_whatever_a_metric_is_given_is_part_of_its_request(run, change):
    before = run().metrics["tool_calls"].request_sha256
    assert run(**change).metrics["tool_calls"].request_sha256 != before


def test_the_order_of_tasks_trials_and_subsets_is_no_part_of_a_request(run):
    subsets = {key: list(reversed(SUBSETS[key])) for key in reversed(SUBSETS)}
    again = run(subsets=subsets, tasks=["c", "b", "a"], baseline=list(reversed(run.baseline)))
    assert again.to_json() == run().to_json()


def test_replay_refuses_to_launch_before_anything_is_asked(run, tmp_path: Path, monkeypatch):
    replace_metrics(monkeypatch, implementation=_Never(), is_external=True)
    with pytest.raises(MetricError, match=r"metric tool_calls: replay was asked for, but no answer"):
        run(cache=tmp_path, replay=True)


def test_replay_on_a_copied_folder_gives_the_same_numbers(run, tmp_path: Path, monkeypatch):
    first = run(cache=tmp_path / "cache")
    shutil.copytree(tmp_path / "cache", tmp_path / "copy")
    shutil.copytree(tmp_path / "jobs", tmp_path / "moved")
    shutil.rmtree(tmp_path / "jobs")
    moved = [dataclasses.replace(t, folder=tmp_path / "moved" / t.folder.name) for t in run.baseline]
    replace_metrics(monkeypatch, implementation=_Never(), is_external=True)
    assert run(cache=tmp_path / "copy", baseline=moved, replay=True).to_json() == first.to_json()


def test_a_metric_that_crashes_is_a_metric_error(run, monkeypatch):
    class Broken:
        def measure(self, request):
            raise KeyError("oops")

    replace_metrics(monkeypatch, implementation=Broken())
    with pytest.raises(MetricError, match="metric tool_calls: failed with KeyError: 'oops'"):
        run()


def test_a_wrong_answer_is_not_cached(run, tmp_path: Path, monkeypatch):
    class Wrong:
        def measure(self, request):
            return CoverMatrix((), {})

    replace_metrics(monkeypatch, implementation=Wrong())
    with pytest.raises(MetricError, match="no answer for task a, b, c"):
        run(cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_wrong_metrics_and_unknown_tasks_are_config_errors(run):
    with pytest.raises(ConfigError, match="did you mean tool_calls"):
        run(MetricSpec("tool_call"))
    with pytest.raises(ConfigError, match="subsets name unknown tasks zz"):
        run(subsets={"s": ["zz"]})


def test_damaged_evidence_is_not_measured(run):
    (run.baseline[0].folder / "agent" / "trajectory.json").write_text("{}")
    with pytest.raises(EvidenceError, match="changed after its job ended"):
        run()
