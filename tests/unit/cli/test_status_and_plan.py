# SPDX-License-Identifier: Apache-2.0
"""`plan`, `status`, `verify` and `sign`: what they say before and after an execution, and that they write nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from metric_benchmark.cli.power import say_power
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger
from metric_benchmark.experiment import changed_inputs, note_removed_cases, open_run, run_evals
from metric_benchmark.pipeline import run_raw_results
from metric_benchmark.pipeline.registration import register_claims
from metric_benchmark.pipeline.saved import require_evidence_or_nothing
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark.records.correlation import PowerPlan, PowerPoint
from metric_benchmark.reporting.data import load_report
from metric_benchmark.variants import resolve_variants


def roles(ended) -> dict[str, tuple[int, int, int]]:
    return {row["role"]: (row["n_trials"], row["n_kept"], row["n_to_run"]) for row in ended.json["roles"]}


def test_a_plan_counts_trials_by_role(run, project):
    ended = run("plan", "exp", "--json")
    assert ended.status == 0
    assert roles(ended) == {"baseline": (3, 0, 3), "control": (3, 0, 3), "mutant": (6, 0, 6)}
    assert (ended.json["n_trials"], ended.json["n_to_run"], ended.json["environment"]) == (12, 12, "docker")
    assert ended.json["cost_bound_usd"] is None


def test_a_plan_says_the_digest_under_which_claims_are_registered(run, project):
    assert run("plan", "exp", "--json").json["claims_sha256"] == {}
    assert "SHA-256" not in run("plan", "exp").out
    claim = "correlation:\n  hypotheses:\n    - {metric: suite_size, minimum_effect: 0.2}\n"
    project.write("analysis.yaml", project.read("analysis.yaml") + claim)
    digest = run("plan", "exp", "--json").json["claims_sha256"]["desk"]
    assert f"claims of case desk (1 hypothesis and how they are judged): SHA-256 {digest}" in run("plan", "exp").out
    Path("out").mkdir()
    opened = open_run(project.folder, "out", level="analysis")
    register_claims(opened, "desk")
    (entry,) = read_ledger(opened.root)
    assert entry["sha256"] == digest
    project.edit("execution.yaml", ("mutant: {attempts: 1}", "mutant: {attempts: 2}"))
    assert run("plan", "exp", "--json").json["claims_sha256"]["desk"] != digest


def test_a_plan_bounds_the_cost_and_holds_it_against_the_budget(run, project):
    project.edit(
        "execution.yaml",
        (
            "reward_key: reward",
            "reward_key: reward\nbudget: {max_trials: 10, max_cost_usd: 0.5, cost_bound_per_trial_usd: 0.05}",
        ),
    )
    ended = run("plan", "exp", "--json")
    assert ended.json["cost_bound_usd"] == pytest.approx(0.6)
    assert ended.json["warnings"] == [
        "budget.max_trials is 10, but 12 trials are needed (0 used already): the run will stop half-way",
        "budget.max_cost_usd is 0.5, but 0.6 USD may be needed: the run may stop half-way",
    ]
    text = run("plan", "exp")
    assert "cost: at most 0.60 USD (12 x 0.05 USD; infrastructure retries come on top)" in text.out
    assert text.err.count("warning:") == 2


def test_a_plan_warns_of_a_design_that_hardly_sees_anything(run, project):
    project.edit("analysis.yaml", ("{name: deterministic}", "{name: exact, alpha: 0.05}"))
    project.edit("execution.yaml", ("baseline: {attempts: 1}", "baseline: {attempts: 3}"))
    project.edit("execution.yaml", ("mutant: {attempts: 1}", "mutant: {attempts: 2}"))
    ended = run("plan", "exp")
    assert ended.status == 0
    assert "warning: desk: boschloo: with 3 baseline and 2 mutant attempts the smallest p is" in ended.err


def test_a_curve_of_power_rises_and_names_no_association_twice(capsys):
    def found(effect, power):
        return PowerPoint(link=0.5, effect=effect, power=power, stderr=0.02, n_simulations=50, n_trials=9)

    curve = [found(0.1, 0.4), found(-0.0001, 0.1), found(None, 0.0), found(0.0002, 0.3), found(0.3, 0.6)]
    shape = {"seed": 1, "target_power": 0.8, "alpha": 0.05, "planned_link": 1.0, "smallest_effect": None}
    say_power("desk", PowerPlan(**shape, curve=curve, options=[], advice="none"))
    assert [line.split() for line in capsys.readouterr().out.splitlines()[3:7]] == [
        ["0.000", "20%", "(+-2%)"], ["0.100", "40%", "(+-2%)"], ["0.300", "60%", "(+-2%)"], ["-", "0%", "(+-2%)"],
    ]  # fmt: skip


def test_a_plan_with_no_evidence_yet_runs_everything_and_writes_nothing(run, project, tmp_path):
    assert roles(run("plan", "exp", "--output", "out", "--json")) == roles(run("plan", "exp", "--json"))
    assert [path.name for path in tmp_path.iterdir()] == ["exp"]


def test_status_of_nothing(run, project, tmp_path):
    ended = run("status", "exp", "--output", "out", "--json")
    assert ended.status == 0
    assert ended.json["counts"] == {
        "raw_results": {"missing": 4}, "mutant_scores": {"missing": 3}, "subset_scores": {"missing": 1},
        "coverage": {"missing": 1}, "correlation": {"missing": 1},
    }  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_status_of_a_part_and_after_a_change(run, execute, project):
    execute("out", without=("idle",))
    found = {p["key"]: p["state"] for p in run("status", "exp", "--output", "out", "--json").json["partitions"][:4]}
    assert found == {"desk|baseline": "fresh", "desk|control-1": "fresh", "desk|short": "fresh", "desk|idle": "missing"}
    project.edit("case.yaml", ("max_actions: 1", "max_actions: 2"))
    project.sign()
    ended = run("status", "exp", "--output", "out")
    (line,) = [line for line in ended.out.splitlines() if line.startswith("raw_results") and "desk|short" in line]
    assert line.split(maxsplit=3)[2:] == [
        "stale",
        "the operator or its parameters changed",
    ]
    assert "desk|baseline" not in ended.out
    assert "desk|baseline" in run("status", "exp", "--output", "out", "--all").out


def test_status_of_a_whole_experiment(run, execute):
    execute("out")
    run("run-experiment", "exp", "--results", "out")
    ended = run("status", "exp", "--output", "out", "--json")
    assert ended.json["is_sealed"]
    assert {p["state"] for p in ended.json["partitions"]} == {"fresh"}


def test_status_names_a_trial_that_is_gone_and_a_record_that_was_changed(run, execute):
    execute("out")
    run("run-experiment", "exp", "--results", "out")
    assert "sealed: everything was checked again" in run("status", "exp", "--output", "out").out
    (trial,) = Path("out/execution/desk/idle").glob("*/jobs/run-1/beta__1")
    trial.rmdir()
    (record,) = Path("out/execution/desk/short").glob("*/raw-results.json")
    record.write_text(record.read_text() + " ")
    ended = run("status", "exp", "--output", "out")
    assert "sealed: everything" not in ended.out
    assert "not sealed: there is a seal, but not of what is here now" in ended.out
    found = {p["key"]: p for p in run("status", "exp", "--output", "out", "--json").json["partitions"][:4]}
    assert [found[f"desk|{name}"]["state"] for name in ("baseline", "short", "idle")] == ["fresh", "failed", "failed"]
    assert found["desk|idle"]["reason"] == (
        f"damaged: {trial.relative_to('out')} is missing; restore it from a backup, or remove execution/desk/idle to "
        "run the variant again"
    )
    assert found["desk|short"]["reason"].startswith(f"damaged: {record.relative_to('out')} is not the file")


def test_a_damaged_index_fails_the_results_of_its_case_and_of_no_other(run, execute, project):
    project.write("second.yaml", project.read("case.yaml").replace("case_id: desk", "case_id: shop"))
    project.write("cases.yaml", project.read("cases.yaml").rstrip() + "\n  - {path: second.yaml}\n")
    project.sign()
    execute("out")
    index = Path("out/execution/desk/results.json")
    index.write_bytes(index.read_bytes()[:100])
    ended = run("status", "exp", "--output", "out", "--json")
    assert ended.status == 0
    assert not ended.json["is_sealed"]
    raw = {p["key"]: p for p in ended.json["partitions"] if p["stage"] == "raw_results"}
    assert {key: p["state"] for key, p in raw.items()} == {
        **dict.fromkeys(["desk|baseline", "desk|control-1", "desk|short", "desk|idle"], "failed"),
        **dict.fromkeys(["shop|baseline", "shop|control-1", "shop|short", "shop|idle"], "fresh"),
    }
    assert raw["desk|idle"]["reason"].startswith(f"{index.absolute()}: ")
    assert raw["desk|idle"]["reason"].endswith("restore it from a backup, or move it away and run its stage again")


def test_a_seal_of_another_analysis_is_not_this_ones(run, execute, project):
    execute("out")
    run("run-experiment", "exp", "--results", "out")
    project.edit("analysis.yaml", ("min_pass_share: 0.8", "min_pass_share: 0.7"))
    assert "sealed: everything" not in run("status", "exp", "--output", "out").out


def test_status_of_another_run_is_refused(run, execute):
    execute("out", run_id="first")
    ended = run("status", "exp", "--output", "out")
    assert ended.status == 3
    assert "holds evidence of run 'first'; expected 'small'" in ended.errors[0]
    assert run("status", "exp", "--output", "out", "--run-id", "first").status == 0


def test_status_says_that_there_is_no_such_folder_yet(run, execute):
    told = "nowhere: no such folder yet; nothing has been run into it"
    assert told in run("status", "exp", "--output", "nowhere").out.splitlines()
    execute("out")
    assert "no such folder" not in run("status", "exp", "--output", "out").out


def test_evidence_of_another_experiment_of_the_same_name_is_refused(run, execute, project, tmp_path):
    execute("out")
    project.edit("case.yaml", ("case_id: desk", "case_id: office"))
    project.sign()
    before = type(project)(tmp_path / "out").snapshot()
    for words in (["run-evals"], ["run-experiment"], ["verify", "--deep"]):
        ended = run(*words, "exp", "--output", "out")
        assert ended.status == 2
        first, last = ended.errors
        assert first == (
            f"case desk: {tmp_path / 'out'} holds trials of it, but the experiment's files do not have it (their "
            "cases: office); if the evidence is another experiment's, give another --output"
        )
        assert last.startswith("nothing was run.")
        assert "--accept-changes" in last
    assert type(project)(tmp_path / "out").snapshot() == before
    assert "warning: case desk: " in run("plan", "exp", "--output", "out").err
    assert [case.case_id for case in load_report(EvidenceRoot(Path("out"))).cases] == ["desk"]
    opened = open_run(project.folder, "out")
    note_removed_cases(opened)
    execute("out")
    assert [case.case_id for case in load_report(EvidenceRoot(Path("out"))).cases] == ["office"]
    assert changed_inputs(opened, []) == []
    assert "case desk" not in run("plan", "exp", "--output", "out").err


def test_what_changed_is_looked_up_once_however_many_variants_it_concerns(execute, project, monkeypatch):
    execute("out")
    looked: list[object] = []

    def status(run):
        looked.append(run)
        return experiment_status(run)

    old = SimpleNamespace(task="alpha", counts=True, trial_key="old")
    monkeypatch.setattr("metric_benchmark.experiment.experiment_status", status)
    monkeypatch.setattr("metric_benchmark.experiment.find_trials", lambda *_: [old])

    def found() -> list[str]:
        opened = open_run(project.folder, "out")
        return changed_inputs(opened, resolve_variants(opened.experiment))

    assert (found(), looked) == ([], [])
    project.write("tasks/alpha/instruction.md", "Write something else.\n")
    project.sign()
    told = "task changed: alpha; its trials of alpha would be run again"
    assert found() == [f"desk|{name}: {told}" for name in ("baseline", "control-1", "short", "idle")]
    assert len(looked) == 1


def test_a_case_that_nobody_noted_as_removed_is_in_no_report_once_the_others_are_sealed(execute, project):
    execute("out")
    project.edit("case.yaml", ("case_id: desk", "case_id: office"))
    project.sign()
    execute("out")
    assert [case.case_id for case in load_report(EvidenceRoot(Path("out"))).cases] == ["office"]
    # Before the others are complete nobody knows which is which.
    Path("out/execution.json").unlink()
    assert [case.case_id for case in load_report(EvidenceRoot(Path("out"))).cases] == ["desk", "office"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_case_that_is_back_is_reported_and_its_next_removal_refused(execute, project, monkeypatch, whole):
    execute("out")
    project.edit("case.yaml", ("case_id: desk", "case_id: office"))
    project.sign()
    note_removed_cases(open_run(project.folder, "out"))
    Path("out/execution.json").unlink()
    with pytest.raises(EvidenceError, match="holds no evidence to report"):
        load_report(EvidenceRoot(Path("out")))
    project.edit("case.yaml", ("case_id: office", "case_id: desk"))
    project.sign()

    class Reached(Exception):
        pass

    def stop(*_: object, **__: object) -> None:
        raise Reached

    for module in ("metric_benchmark.experiment", "metric_benchmark.pipeline.raw_results"):
        monkeypatch.setattr(f"{module}.refuse_variants", lambda *_: None)
        monkeypatch.setattr(f"{module}.register_claims", stop)
    opened = open_run(project.folder, "out")
    with suppress(Reached):
        if whole:
            run_evals(opened, on_progress=lambda _: None)
        else:
            run_raw_results(opened, "desk", "short", lambda _: None)
    assert [case.case_id for case in load_report(EvidenceRoot(Path("out"))).cases] == ["desk"]
    project.edit("case.yaml", ("case_id: desk", "case_id: office"))
    project.sign()
    (difference,) = changed_inputs(open_run(project.folder, "out"), [])
    assert difference.startswith("case desk: ")


def test_a_folder_that_is_no_evidence_is_refused_and_left_alone(run, execute, project, tmp_path):
    execute("out")
    before = type(project)(tmp_path).snapshot()
    for words in (
        ["run-evals", "exp"],
        ["run-experiment", "exp"],
        ["verify", "--deep", "exp"],
        ["plan", "--power", "exp"],
        ["run-experiment", "exp", "--results", "out"],
    ):
        ended = run(*words, "--output", "exp")
        (message,) = ended.errors
        assert ended.status == 2
        assert message == (
            f"{project.folder}: is neither empty nor evidence (it holds analysis.yaml, case.yaml, cases.yaml ...); "
            f"nothing was written. Give a new or empty folder, such as --output {project.folder / 'runs'}"
        )
    assert type(project)(tmp_path).snapshot() == before


def test_what_may_become_evidence(tmp_path):
    new, disk, proof = (EvidenceRoot(tmp_path / name) for name in ("new", "disk", "proof-only"))
    (disk.path / "lost+found").mkdir(parents=True)
    (disk.path / ".DS_Store").touch()
    (proof.path / "proof/.locks").mkdir(parents=True)
    for root in (new, disk, proof):
        require_evidence_or_nothing(root)
    (disk.path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"it holds notes\.txt"):
        require_evidence_or_nothing(disk)


def test_the_folder_above_says_where_the_experiment_is(run, project, tmp_path):
    (message,) = run("status", ".", "--output", "out").errors
    assert message == f"no experiment.yaml in {tmp_path}; exp/ has one"
    (tmp_path / "empty").mkdir()
    (message,) = run("plan", "empty").errors
    assert message == f"no experiment.yaml in {tmp_path / 'empty'}; `metric-benchmark init DIR` writes one"


def test_verify_counts_what_is_there(run, project):
    before = project.snapshot()
    ended = run("verify", "exp")
    assert ended.status == 0
    assert ended.out == (
        "case desk: 3 tasks, 2 mutants, 2 subsets, 4 variants\nexperiment small: all pins hold, nothing is wrong\n"
    )
    assert project.snapshot() == before
    assert run("verify", "exp", "--json").json["cases"]["desk"]["n_subsets"] == 2


def test_an_entry_that_names_no_file_of_its_bundle_is_refused_at_its_place(run, project):
    project.write("agent/converter.py", "")
    project.edit("case.yaml", ("agent: {name: oracle}", 'agent: {bundle: {path: agent}, entry: "agent:Converter"}'))
    told = "bundle `agent` has no agent.py; it holds converter.py"
    assert f"warning: exp/case.yaml:12: baseline.agent.entry: {told}" in run("sign", "exp").err
    ended = run("verify", "exp")
    assert ended.status == 2
    assert ended.errors == [f"exp/case.yaml:{project.line('case.yaml', 'entry')}: baseline.agent.entry: {told}"]


def test_sign_says_what_it_wrote(run, unsigned):
    assert run("sign", "exp").out == "wrote exp/case.yaml\nwrote exp/cases.yaml\n6 pins hold\n"
    assert run("sign", "exp").out == "6 pins hold\n"
    assert run("sign", "exp/experiment.yaml", "--json").json == {"n_pins": 6, "changed": [], "problems": []}


def test_subsets_are_generated_and_signed(run, project):
    ended = run("subsets", "generate", "exp/case.yaml", "--count", "4", "--sizes", "1,2")
    assert ended.status == 2
    assert "exists and `subsets generate` did not write it" in ended.errors[0]
    ended = run("subsets", "generate", "exp/case.yaml", "--count", "4", "--sizes", "1,2", "--force", "--json")
    assert ended.json == {"path": "exp/subsets.yaml", "n_subsets": 4, "n_by_size": {"1": 2, "2": 2}}
    assert run("verify", "exp").status == 2
    run("sign", "exp")
    assert run("verify", "exp", "--json").json["cases"]["desk"]["n_subsets"] == 4
    assert run("subsets", "generate", "exp/case.yaml", "--sizes", "one").status == 2
    assert run("subsets", "generate", "exp/case.yaml", "--sizes", "9", "-o", "new.yaml").status == 2
    assert not Path("new.yaml").exists()
