# SPDX-License-Identifier: Apache-2.0
"""Loading an evidence root: finished, partly finished, superseded, out of date, damaged, empty."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.reporting.data import load_report, trajectory_paths
from metric_benchmark.reporting.provenance import describe_case, describe_provenance


def test_a_finished_root_is_complete(finished):
    data = load_report(finished)
    assert [case.case_id for case in data.cases] == ["desk", "files"]
    assert data.name == "drawn-experiment"
    assert data.is_sealed
    assert data.completeness.startswith("Complete: sealed 2026-03-04")
    desk = data.cases[0]
    assert desk.title == "A clerk at a desk"
    assert len(desk.tasks) == 20
    assert desk.metric_names == ("tool_calls", "suite_size", "synthetic")
    assert desk.label("suite_size") == "null metric"
    assert desk.label("tool_calls") == ""
    assert set(desk.results) == {"baseline", "screening", "control-1", "control-2", *desk.scores.mutants}


@pytest.mark.parametrize("stage", ["execution", "scores", "coverage"])
def test_a_partly_finished_root_says_what_is_open(world, tmp_path, stage):
    root = world.write_world(tmp_path, {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8)}, stop_after=stage)
    data = load_report(root)
    assert not data.is_sealed
    assert "no correlation yet for desk" in data.completeness
    assert (data.cases[0].scores is None) == (stage == "execution")
    assert (data.cases[0].coverage is None) == (stage != "coverage")


def test_a_superseded_analysis_is_not_a_case(world, tmp_path):
    root = world.write_world(tmp_path, {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8)})
    root.analysis("desk").rename(tmp_path / "analysis" / "desk.superseded-1")
    data = load_report(root)
    assert [case.case_id for case in data.cases] == ["desk"]
    assert data.cases[0].correlation is None


def test_a_record_made_from_older_evidence_is_named(world, tmp_path):
    root = world.write_world(tmp_path, {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8)})
    path = root.coverage("desk")
    record = read_record(path, CoverageRecord)
    write_record(path, record.model_copy(update={"evidence": {**record.evidence, "baseline": "a" * 64}}))
    data = load_report(root)
    assert data.seal is not None
    assert not data.is_sealed
    assert "desk: correlation computed before coverage changed" in data.completeness


def test_a_damaged_record_is_refused(world, tmp_path):
    root = world.write_world(tmp_path, {"desk": world.World(n_tasks=6, n_mutants=3, n_subsets=8)})
    root.correlation("desk").write_text('{"schema": "metric-benchmark/correlation/v1", "pairs": 3}')
    with pytest.raises(EvidenceError, match=r"correlation\.json: damaged at"):
        load_report(root)


def test_an_empty_folder_and_an_unknown_case_are_refused(finished, tmp_path):
    with pytest.raises(EvidenceError, match="holds no evidence to report"):
        load_report(tmp_path)
    with pytest.raises(EvidenceError, match="has no case nosuch; it has: desk, files"):
        load_report(finished, cases=("nosuch",))


def test_trajectories_are_named_below_the_root(finished):
    desk, files = load_report(finished).cases
    results = desk.results["blind-1"]
    (path,) = trajectory_paths(finished, results, results.trials[0])
    assert path.startswith("execution/desk/blind-1/")
    assert (finished.path / path).is_file()
    assert trajectory_paths(finished, files.results["blind-1"], files.results["blind-1"].trials[0]) == ()
    steps = {"steps/b/agent/trajectory.json": "2" * 64, "steps/a/agent/trajectory.json": "1" * 64, "lock.json": "0"}
    trial = results.trials[0].model_copy(update={"files_sha256": steps})
    assert [p.rsplit("steps/")[1][0] for p in trajectory_paths(finished, results, trial)] == ["a", "b"]


def test_a_root_may_be_given_as_a_path(finished):
    assert load_report(finished.path).root == EvidenceRoot(finished.path)


def test_only_what_the_ledger_holds_is_shown_as_registered(finished):
    entry = {"kind": "hypotheses", "case": "desk", "at": "2026-01-02T03:04:05+00:00", "hypotheses": [{}]}
    data = replace(load_report(finished), ledger=({**entry, "sha256": "aa"}, {**entry, "sha256": "bb"}))
    assert [line for line in describe_provenance(data) if line[0].startswith("Registered")] == [
        ("Registered of desk, amended later", "2026-01-02 03:04:05: 1 hypothesis and how they are judged; SHA-256 aa"),
        ("Registered of desk", "2026-01-02 03:04:05: 1 hypothesis and how they are judged; SHA-256 bb"),
    ]
    assert "SHA-256" not in dict(describe_case(data.cases[0]))["Hypotheses"]
