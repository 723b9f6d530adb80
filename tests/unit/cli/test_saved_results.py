# SPDX-License-Identifier: Apache-2.0
"""Saved evidence is analysed without tasks and agents, in place or into another folder; mistakes write nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.experiment import open_run
from metric_benchmark.pipeline import run_raw_results
from metric_benchmark.pipeline.sealing import seal_execution
from metric_benchmark.records.base import comparable


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def saved(execute, project):
    """Evidence of a complete execution, whose tasks are gone."""
    execute("saved")
    shutil.rmtree(project.folder / "tasks")
    return Path("saved")


def test_in_place(run, saved):
    ended = run("run-experiment", "exp", "--results", saved)
    assert (ended.status, ended.errors) == (0, [])
    assert {"experiment.json", "experiment-inputs.json", "report.html", "analysis"} <= {p.name for p in saved.iterdir()}
    scores = json.loads((saved / "analysis/desk/mutant-scores.json").read_text())
    # `short` fails alpha and beta, `idle` everything; both subsets hold alpha.
    assert scores["mutants"]["short"]["killed_by"] == ["alpha", "beta"]
    assert scores["mutants"]["idle"]["is_trivial"]
    assert scores["controls"]["control-1"]["status"] == "survived"
    assert [scores["subsets"][name]["score"] for name in ("one", "two")] == [1.0, 1.0]


def test_naming_the_same_folder_twice_is_in_place_too(run, saved):
    assert run("run-experiment", "exp", "--results", saved, "--output", "./saved/../saved").status == 0
    assert not (saved / "execution-from.json").exists()


def test_paths_are_shown_as_a_reader_would_write_them(run, saved, tmp_path):
    assert run("status", "exp", "--output", "exp/../saved", "--json").json["evidence"] == str(tmp_path / "saved")
    # Not where `..` leads elsewhere: out of what a link points to.
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep/er")
    evidence = run("status", "exp", "--output", "link/../saved", "--json").json["evidence"]
    assert evidence == str(tmp_path / "link/../saved")


def test_into_another_folder_nothing_is_written_to_the_evidence(run, saved):
    before = tree(saved)
    ended = run("run-experiment", "exp", "--results", saved, "--output", "other", "--json")
    assert ended.status == 0
    assert tree(saved) == before
    assert ended.json["evidence"] == str(Path("other").absolute())
    assert ended.json["execution"] == str(saved.absolute())
    assert [row["metric"] for row in ended.json["rows"]] == ["suite_size"]
    assert not (Path("other") / "execution").exists()
    assert not (Path("other") / "execution.json").exists()


def test_no_trial_is_run_into_a_folder_that_is_not_its_own(run, execute, project, tmp_path):
    execute("saved")
    run("run-experiment", "exp", "--results", "saved", "--output", "other")
    before = tree(tmp_path)
    with pytest.raises(EvidenceError, match=r"other: holds an analysis of the evidence in .*saved; give another"):
        run_raw_results(open_run(project.folder, "other"), "desk", "short", lambda _: None)
    with pytest.raises(EvidenceError, match="other: holds an analysis of the evidence in"):
        seal_execution(open_run(project.folder, "other"))
    with pytest.raises(ConfigError, match="exp: is neither empty nor evidence"):
        run_raw_results(open_run(project.folder, "exp"), "desk", "short", lambda _: None)
    assert tree(tmp_path) == before


def test_both_ways_give_the_same_records(run, saved):
    run("run-experiment", "exp", "--results", saved, "--output", "other")
    run("run-experiment", "exp", "--results", saved)
    for name in ("mutant-scores", "coverage", "correlation"):
        here, there = (json.loads((Path(f) / f"analysis/desk/{name}.json").read_text()) for f in (saved, "other"))
        assert comparable(here) == comparable(there)
        assert here["evidence"] == there["evidence"]


def test_the_other_folder_knows_where_its_evidence_is_even_after_both_moved(run, saved):
    run("run-experiment", "exp", "--results", saved, "--output", "other")
    Path("archive").mkdir()
    for name in ("saved", "other"):
        Path(name).rename(f"archive/{name}")
    ended = run("status", "exp", "--output", "archive/other", "--json")
    assert ended.status == 0
    assert ended.json["is_sealed"]
    assert {found["state"] for found in ended.json["partitions"]} == {"fresh"}
    assert run("report", "archive/other").status == 0
    Path("archive/saved").rename("elsewhere")
    for words in (["report", "archive/other"], ["status", "exp", "--output", "archive/other"]):
        ended = run(*words)
        assert ended.status == 3
        assert ended.errors == [
            f"{Path('archive/other/execution-from.json').absolute()}: the evidence that was analysed here is no longer "
            f"in {Path('archive/saved').absolute()}; say where it is with --results"
        ]
    assert run("run-experiment", "exp", "--results", "elsewhere", "--output", "archive/other").status == 0
    assert run("report", "archive/other").status == 0


def test_again_changes_nothing_but_the_report(run, saved):
    run("run-experiment", "exp", "--results", saved)
    before = {name: data for name, data in tree(saved).items() if name != "report.html" and ".locks" not in name}
    assert run("run-experiment", "exp", "--results", saved).status == 0
    assert {n: d for n, d in tree(saved).items() if n != "report.html" and ".locks" not in n} == before


REFUSALS = {
    "another run id": (["--run-id", "othr"], 3, "holds evidence of run 'small'; expected 'othr'"),
    "a folder that is not there": (["--results", "svaed"], 3, "svaed: no such folder"),
    "a folder without evidence": (["--results", "exp"], 3, "execution.json: missing"),
}


@pytest.mark.parametrize(("words", "status", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_mistyped_request_leaves_the_output_folder_untouched(run, saved, words, status, message):
    ended = run("run-experiment", "exp", "--results", saved, "--output", "other", *words)
    assert ended.status == status
    assert message in ended.errors[0]
    assert not Path("other").exists()
    # The folder that was never spoilt is still good.
    assert run("run-experiment", "exp", "--results", saved, "--output", "other").status == 0


@pytest.mark.parametrize("command", ["score", "cover", "correlate"])
def test_stages_check_the_evidence_before_they_write(run, saved, command):
    before = tree(saved)
    ended = run(command, "exp", "--results", saved, "--output", "other", "--run-id", "othr")
    assert ended.status == 3
    ended = run(command, "exp", "--results", saved, "--output", "other", "--case", "dsk")
    assert ended.status == 2
    assert ended.errors == ["exp/experiment.yaml:3: cases: no case 'dsk'; the experiment has: desk"]
    assert tree(saved) == before
    assert not Path("other").exists()


def test_evidence_of_other_cases_is_refused_before_anything_is_written(run, saved, project):
    project.edit("cases.yaml", ("cases:\n", "# changed\ncases:\n"))
    ended = run("run-experiment", "exp", "--results", saved, "--output", "other")
    assert ended.status == 3
    assert "was made from another cases.yaml" in ended.errors[0]
    assert not Path("other").exists()


def test_a_damaged_record_is_refused_before_anything_is_written(run, saved):
    (path,) = (saved / "execution/desk/idle").glob("*/raw-results.json")
    path.write_bytes(path.read_bytes().replace(b'"reward":0.0', b'"reward":1.0', 1))
    ended = run("run-experiment", "exp", "--results", saved, "--output", "other")
    assert ended.status == 3
    assert str(path) in ended.errors[0]
    assert not Path("other").exists()


def test_an_output_with_an_execution_of_its_own_is_not_written_over(run, execute, project):
    execute("saved")
    execute("mine")
    before = tree(Path("mine"))
    ended = run("run-experiment", "exp", "--results", "saved", "--output", "mine")
    assert ended.status == 3
    assert ended.errors == [
        "mine: holds an execution of its own, so the analysis of saved cannot be written there; give another --output, "
        "or leave it out to write into --results"
    ]
    assert tree(Path("mine")) == before


def test_trials_are_not_run_into_a_folder_that_only_holds_an_analysis(run, execute, project):
    execute("saved")
    run("run-experiment", "exp", "--results", "saved", "--output", "other")
    before = tree(Path("other"))
    for command in ("run-evals", "run-experiment"):
        ended = run(command, "exp", "--output", "other")
        assert ended.status == 3
        assert "holds an analysis of the evidence in" in ended.errors[0]
    assert tree(Path("other")) == before


def test_an_incomplete_execution_says_which_command_goes_on(run, execute, project):
    execute("part", without=("idle",))
    ended = run("score", "exp", "--results", "part")
    assert ended.status == 3
    assert ended.errors[0].endswith(
        "missing (partial evidence is there); `metric-benchmark run-evals EXPERIMENT --output "
        f"{Path('part').absolute()}` goes on where it stopped and writes it"
    )


def test_stages_one_by_one_are_the_same_as_all_at_once(run, saved):
    for command in ("score", "cover", "correlate"):
        assert run(command, "exp", "--results", saved, "--output", "steps").status == 0
    run("run-experiment", "exp", "--results", saved, "--output", "whole")
    for name in ("mutant-scores", "coverage", "correlation"):
        steps, whole = (json.loads((Path(f) / f"analysis/desk/{name}.json").read_text()) for f in ("steps", "whole"))
        assert comparable(steps) == comparable(whole)


def test_correlating_before_scoring_says_what_is_missing(run, saved):
    ended = run("correlate", "exp", "--results", saved)
    assert ended.status == 3
    assert "mutant-scores.json: missing; run the stage that writes it" in ended.errors[0]


def test_what_the_stages_print(run, saved):
    out = run("score", "exp", "--results", saved).out
    assert "case desk: 2 mutants, 1 dominators" in out
    assert [line.split()[:3] for line in out.splitlines() if line.startswith(("short", "idle", "control"))] == [
        ["short", "killed", "2"],
        ["idle", "killed", "3"],
        ["control-1", "survived", "0"],
    ]
    out = run("cover", "exp", "--results", saved).out
    # One and two of three tasks.
    assert [line.split() for line in out.splitlines() if line.startswith("suite_size")] == [
        ["suite_size", "3", "2", "0.333", "0.667", "0", "null", "metric"]
    ]
    out = run("correlate", "exp", "--results", saved).out
    assert "undefined (" in out
    record = run("correlate", "exp", "--results", saved, "--json").json["cases"]["desk"]
    assert record["schema"] == "metric-benchmark/correlation/v1"
