# SPDX-License-Identifier: Apache-2.0
"""`check`, `compare`, `analyze-matrix`, `plan --power`: status, streams, files; the numbers are tested elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path

import pytest

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.pipeline import planning

GATES = "gates: {accept: [inconclusive, not_tested], metrics: [suite_size], min_suite_score: 0.5}\n"


@pytest.fixture
def finished(run, execute, project):
    """A finished experiment whose gates are met."""
    project.write("analysis.yaml", project.read("analysis.yaml") + GATES)
    execute("out")
    assert run("run-experiment", "exp", "--results", "out").status == 0
    return project


def test_a_gate_that_is_met(run, finished):
    ended = run("check", "out", "--junit", "j.xml", "--markdown", "s.md", "--badge", "b.svg")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == "2 of 2 checks passed"
    suites = ET.parse("j.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("2", "0")
    assert "all 2 checks passed" in Path("s.md").read_text()
    assert ET.parse("b.svg").getroot().tag.endswith("svg")


def test_a_gate_that_is_missed_is_status_1_and_says_which(run, finished):
    finished.edit("analysis.yaml", ("[inconclusive, not_tested]", "[supported]"))
    run("run-experiment", "exp", "--results", "out")
    ended = run("check", "out", "--junit", "j.xml")
    assert ended.status == 1
    assert "FAILED  desk: verdict of suite_size: found" in ended.out
    assert ET.parse("j.xml").getroot().get("failures") == "1"
    ended = run("check", "out", "--json")
    assert ended.status == 1
    assert not ended.json["passed"]


def test_what_is_not_finished_cannot_be_checked(run, execute, project):
    execute("out")
    ended = run("check", "out")
    assert ended.status == 3
    assert "cannot be checked" in ended.errors[0]


def test_nothing_to_check_is_a_wrong_request(run, execute, project):
    execute("out")
    run("run-experiment", "exp", "--results", "out")
    ended = run("check", "out")
    assert ended.status == 2
    assert "nothing to check" in ended.errors[0]


def test_gates_about_hypotheses_fail_where_there_are_none(run, execute, project):
    execute("out")
    project.write("analysis.yaml", project.read("analysis.yaml") + "gates: {min_suite_score: 0.5}\n")
    run("run-experiment", "exp", "--results", "out")
    assert run("check", "out").status == 0
    project.edit("analysis.yaml", ("gates: {", "gates: {accept: [supported], "))
    run("run-experiment", "exp", "--results", "out")
    ended = run("check", "out")
    assert ended.status == 1
    assert ended.out.startswith("FAILED  small: hypotheses: found none; wanted at least one")


def test_an_experiment_compared_with_itself_does_not_differ(run, finished):
    ended = run("compare", "out", "out", "--markdown", "c.md", "--json")
    assert ended.status == 0
    rows = {row["what"]: row for row in ended.json["rows"]}
    assert rows["mutant score of the whole suite"]["estimate"] == 0.0
    assert "small" in Path("c.md").read_text()
    assert "B - A" in run("compare", "out", "out").out


@pytest.mark.parametrize(("pair", "status"), [("suite_size", 2), ("=x", 2), ("nothing=suite_size", 2)])
def test_metrics_to_compare_must_be_there(run, finished, pair, status):
    ended = run("compare", "out", "out", "--metric", pair)
    assert ended.status == status
    assert "Traceback" not in ended.err


@pytest.fixture
def matrices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks = [f"t{n}" for n in range(8)]
    Path("k.csv").write_text("task,m1,m2\n" + "".join(f"{t},{n % 2},{int(n > 5)}\n" for n, t in enumerate(tasks)))
    Path("c.csv").write_text("task,a,b\n" + "".join(f"{t},{n % 2},{int(n > 4)}\n" for n, t in enumerate(tasks)))
    lines = [",".join("1" if (n + k) % 3 else "0" for n in range(8)) for k in range(3)]
    lines.append("1,1,0,0,0,0,0,0")
    Path("s.csv").write_text(f"subset,{','.join(tasks)}\n" + "".join(f"s{k},{line}\n" for k, line in enumerate(lines)))
    return ["analyze-matrix", "--kills", "k.csv", "--coverage", "c.csv", "--subsets", "s.csv", "--output", "out"]


def test_matrices_of_another_tool_get_a_verdict_and_a_report(run, matrices):
    ended = run(*matrices, "--json")
    assert ended.status == 0
    (row,) = ended.json["rows"]
    assert (row["case"], row["metric"], row["n_tasks"], row["n_mutants"], row["n_subsets"]) == (
        "matrix",
        "coverage",
        8,
        2,
        4,
    )
    assert row["verdict"] == "inconclusive"
    for name in ("mutant-scores", "coverage", "correlation"):
        assert Path(f"out/analysis/matrix/{name}.json").exists()
    assert Path("out/report.html").exists()
    assert run("report", "out").status == 0
    assert "matrix" in run(*matrices).out


def test_wrong_matrices_are_told_at_once_and_nothing_is_written(run, matrices):
    Path("k.csv").write_text("task,m1\nt0,2\nt0,1\n")
    Path("c.csv").write_text("")
    ended = run(*matrices)
    assert ended.status == 2
    assert len(ended.errors) >= 3
    assert not Path("out").exists()


def test_evidence_of_trials_is_not_written_over(run, execute, project, matrices):
    execute("out")
    ended = run(*matrices)
    assert ended.status == 3
    assert ended.errors == [f"{Path('out').absolute()}: holds evidence of an experiment; give another --output"]


@pytest.fixture
def quick(monkeypatch):
    """Simulates few experiments."""
    monkeypatch.setattr(planning, "N_SIMULATIONS", 4)


def test_a_plan_with_power_says_what_the_design_can_show(run, project, quick):
    ended = run("plan", "exp", "--power", "--json")
    assert ended.status == 0
    assert ended.json["power"]["desk"]["curve"]
    assert any("below 20 every verdict is inconclusive" in text for text in ended.json["power"]["desk"]["notes"])
    text = run("plan", "exp", "--power", "--plot", "power.svg").out
    assert "case desk: power at alpha = 0.05, simulated" in text
    picture = ET.parse("power.svg").getroot()
    assert picture.tag.endswith("svg")
    assert "desk: 3 tasks, 2 mutants, 2 subsets, 1 + 1 attempts" in "".join(picture.itertext())
    run("plan", "exp", "--plot", "power.png")
    assert Path("power.png").read_bytes().startswith(b"\x89PNG")
    assert not (project.folder.parent / "out").exists()


def test_a_plan_kept_beside_the_evidence_is_in_the_report_and_not_simulated_again(run, execute, project, quick):
    assert "simulating case desk" in run("plan", "exp", "--power", "--output", "out").err
    assert "simulating" not in run("plan", "exp", "--power", "--output", "out").err
    execute("out")
    run("run-experiment", "exp", "--results", "out")
    assert "<h3>Power" in Path("out/report.html").read_text()
    # Of another design it would be wrong; and nothing is claimed that a larger design could settle.
    project.edit("analysis.yaml", ("{name: deterministic}", "{name: threshold, drop: 0.5}"))
    run("run-experiment", "exp", "--results", "out")
    assert "<h3>Power" not in Path("out/report.html").read_text()


def test_a_plan_beside_evidence_somebody_works_on_is_shown_and_not_kept(run, project, quick):
    root = EvidenceRoot(Path("out").absolute())
    with lock_root(root, "exclusive"):
        ended = run("plan", "exp", "--power", "--output", "out", "--json")
    assert (ended.status, list(ended.json["power"])) == (0, ["desk"])
    assert "warning: this plan is not kept beside the evidence" in ended.err
    assert f"the evidence in {root.path} is in use by another run: pid {os.getpid()}" in ended.err
    assert not root.power.exists()
    with lock_root(root, "shared"):
        run("plan", "exp", "--power", "--output", "out")
    assert root.power.exists()


@pytest.mark.parametrize(("name", "found"), [("power.pdf", "it ends in '.pdf'"), ("power", "it has no ending")])
def test_a_plot_of_a_format_there_is_not_is_refused_before_anything_is_read(run, project, name, found):
    project.experiment.write_text("broken")
    ended = run("plan", "exp", "--plot", name)
    assert ended.status == 2
    assert f"{name}: {found}; expected .svg or .png" in " ".join(ended.err.split())


@pytest.fixture
def wider(project, execute, fails):
    """Makes the evidence of nine tasks, of which mutants fail some; all subsets have three tasks."""
    tasks = ["alpha", "beta", "gamma", *(f"t{n}" for n in range(6))]
    for task in tasks[3:]:
        shutil.copytree(project.folder / "tasks/alpha", project.folder / "tasks" / task)
    listed = "".join(f"  - {{id: {task}, path: tasks/{task}}}\n" for task in tasks[3:])
    project.edit("case.yaml", ("baseline:\n", f"{listed}baseline:\n"))
    chosen = [tasks[n] for n in (0, 3, 6)], [tasks[n] for n in (1, 4, 7)], [tasks[n] for n in (2, 5, 8)], tasks[3:6]
    subsets = "".join(f"  - {{id: s{n}, tasks: [{', '.join(names)}]}}\n" for n, names in enumerate(chosen))
    project.write("subsets.yaml", f"schema: metric-benchmark/subsets/v1\nsubsets:\n{subsets}")
    project.sign()
    fails("short", "alpha", "t0")
    fails("idle", "beta", "t4")

    def claim(metric):
        claim = f"correlation:\n  seed: 4\n  hypotheses:\n    - {{metric: {metric}, minimum_effect: 0.3}}\n"
        project.edit("analysis.yaml", ("  - {name: suite_size}\n", f"  - {{name: {metric}}}\n{claim}"))
        execute("out")

    return claim


def settle(run):
    """Analyses the evidence; returns its row, what would settle the claim as kept, and the report as plain text."""
    ended = run("run-experiment", "exp", "--results", "out", "--json")
    (row,) = ended.json["rows"]
    power = json.loads(Path("out/power.json").read_text()) if Path("out/power.json").exists() else None
    return row, power, unescape(Path("out/report.html").read_text()), ended.err


def test_a_claim_that_stays_open_for_want_of_data_is_told_what_would_settle_it(run, wider, quick, monkeypatch):
    wider("synthetic")
    row, power, report, _ = settle(run)
    assert (row["verdict"], "fewer than 20 tasks" in row["reason"]) == ("inconclusive", True)
    settling = power["settling"]["desk"]["synthetic"]
    assert (settling["effect"], settling["minimum_effect"]) == (row["calibrated"], 0.3)
    # Of nine tasks there are only 84 subsets of three, so that 200 go with more tasks.
    assert [option["change"] for option in settling["options"]][2:] == [
        "40 tasks + 20 mutants", "40 tasks + 20 mutants + 200 subsets"
    ]  # fmt: skip
    said = f"the {row['calibrated']:+.2f} estimated here, {settling['share']:.0%} of experiments of this size either "
    assert f"{said}support or refute that it is at least 0.3" in settling["advice"]
    assert f"Simulated: {settling['advice']}." in report
    assert "9 tasks: below 20 every verdict is inconclusive" in report
    # What was simulated is kept.
    monkeypatch.setattr(planning, "plan_settling", None)
    monkeypatch.setattr(planning, "plan_power", None)
    assert settle(run)[1] == power


def test_a_claim_that_no_data_could_settle_is_told_so_and_nothing_is_simulated(run, wider, quick):
    wider("suite_size")
    row, power, report, _ = settle(run)
    assert (row["verdict"], row["reason"]) == ("inconclusive", "constant_coverage")
    assert power is None
    assert "Use smaller subsets, or a metric with more items." in report
    assert "Simulated:" not in report


def test_a_damaged_plan_counts_as_none_and_is_told_once(run, wider, quick):
    wider("synthetic")
    row, power, _, _ = settle(run)
    path = Path("out/power.json")
    path.write_text(path.read_text().replace('"seed":4', '"seed":5'))
    ended = run("report", "out")
    assert (ended.status, ended.err.count("warning: no power plan is shown: ")) == (0, 1)
    assert f"{path.absolute()}: damaged" in ended.err
    assert "no power plan is shown" in Path("out/report.html").read_text()
    path.write_bytes(b"\xff{")
    again, simulated, report, err = settle(run)
    assert (again, simulated, err.count("no power plan is shown")) == (row, power, 1)
    assert "no power plan is shown" not in report


def test_a_plan_of_other_code_or_of_fewer_simulations_is_not_taken(run, project, quick, monkeypatch):
    def plan():
        return "simulating" in run("plan", "exp", "--power", "--output", "out").err

    assert [plan(), plan()] == [True, False]
    monkeypatch.setattr(planning, "N_SIMULATIONS", 5)
    assert [plan(), plan()] == [True, False]
    other = planning.implementation("planning").model_copy(update={"stage_sha256": "0" * 64})
    monkeypatch.setattr(planning, "implementation", lambda _stage: other)
    assert [plan(), plan()] == [True, False]
    Path("out/power.json").write_text("[]")
    ended = run("plan", "exp", "--power", "--output", "out")
    assert (ended.status, ended.err.count("warning: no power plan is shown")) == (0, 1)
    assert not plan()


def test_a_plan_is_of_the_strictest_claim_in_its_family(run, project, quick):
    claims = "correlation:\n  hypotheses:\n    - {metric: suite_size, minimum_effect: 0.2, alpha: 0.1}\n"
    claims += "    - {metric: synthetic, minimum_effect: 0.3, alpha: 0.02}\n"
    project.edit(
        "analysis.yaml", ("  - {name: suite_size}\n", f"  - {{name: suite_size}}\n  - {{name: synthetic}}\n{claims}")
    )
    power = run("plan", "exp", "--power", "--json").json["power"]["desk"]
    assert (power["alpha"], power["minimum_effect"], power["n_family"]) == (0.02, 0.3, 2)
    assert "power at alpha = 0.02, minimum effect 0.3, one of 2 claims, simulated" in run("plan", "exp", "--power").out
