# SPDX-License-Identifier: Apache-2.0
"""validate-results on real trials: what it compares, what it says, and that analysis of saved results never does it."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml

from metric_benchmark import experiment as coordinator
from metric_benchmark import faults
from metric_benchmark.cli.app import main
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.pins import sign_experiment
from metric_benchmark.pipeline import run_raw_results, score_variant
from metric_benchmark.pipeline.validation import validate_results
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.validation import ValidationReport

pytestmark = pytest.mark.harbor


def validate(finished) -> dict[str, list[str]]:
    """Returns the deviations by file, relative to the evidence."""
    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    report = validate_results(run).report
    assert report.passed == (not report.deviations)
    found: dict[str, list[str]] = {}
    for deviation in report.deviations:
        found.setdefault(deviation.place, []).append(deviation.message)
    return found


def ask_for(finished, *, attempts: int) -> None:
    """Asks for more attempts of every mutant."""
    path = finished.experiment / "execution.yaml"
    value = yaml.safe_load(path.read_text())
    value["roles"]["mutant"]["attempts"] = attempts
    path.write_text(yaml.safe_dump(value))
    sign_experiment(finished.experiment)


def edit(path, change) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value, indent=4))


def test_fresh_evidence_is_validated_before_it_is_scored(finished):
    report = read_record(finished.root.validation, ValidationReport)
    assert report.passed
    assert (report.n_variants, report.n_trials, report.n_other_runs) == (4, 8, 0)
    # 8 trials with config, lock, result, reward; 6 of them with a trajectory; per variant a plan and 3 files of a job.
    assert report.n_files == 8 * 4 + 6 + 4 * 4
    assert report.tasks == {"words/one": "folder", "words/two": "folder"}
    seal = read_record(finished.root.experiment, ExperimentSeal)
    assert (seal.native_validation, seal.validated_at) == ("done", report.validated_at)


def test_evidence_is_valid_wherever_it_is_moved_and_without_its_tasks(finished, capsys):
    assert validate(finished) == {}
    shutil.rmtree(finished.experiment / "tasks")
    shutil.rmtree(finished.experiment / "agent")
    assert main(["validate-results", str(finished.experiment), "--results", str(finished.root.path)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"tasks, with their folders +0\ntasks, among their trials +2\n", printed)
    assert f"valid: the native evidence is what the records say ({finished.root.validation})" in printed


def test_what_differs_from_its_native_folder_enters_no_index(finished, monkeypatch):
    """The next stage may be launched alone, whatever became of the partition before it."""
    ask_for(finished, attempts=2)
    index, kills = finished.root.index("words"), finished.root.mutant_kills("words", "idle")
    before = (index.read_bytes(), kills.read_bytes())

    def meddle(name):
        if name == "run.ended":
            (plan,) = (p for p in finished.root.variant("words", "idle").glob("*/run-1.plan.json") if p not in plans)
            for reward in plan.parent.glob("jobs/run-1/two__*/verifier/reward.txt"):
                reward.write_text("1\n")

    plans = set(finished.root.variant("words", "idle").glob("*/run-1.plan.json"))
    monkeypatch.setattr(faults, "point", meddle)
    run = coordinator.open_run(finished.experiment, finished.root.path, level="execution")
    with pytest.raises(EvidenceError) as refused:
        run_raw_results(run, "words", "idle", lambda _: None)
    problem, remedy = refused.value.problems
    assert str(problem).endswith(
        "/verifier/reward.txt: says reward=1.0, but result.json says reward=0.0; restore them from a backup"
    )
    assert str(remedy) == (
        "execution/words/idle: without a backup: remove this folder, and the whole variant is run again"
    )
    score_variant(run, "words", "idle")
    assert (index.read_bytes(), kills.read_bytes()) == before


def test_records_of_other_settings_are_compared_too(finished):
    """No result rests on them, but trials in them may count again."""
    old = finished.trial("idle").parents[2]
    case = finished.experiment / "case.yaml"
    case.write_text(case.read_text().replace("name: nop", "name: nop\n    env:\n      MORE: '1'"))
    sign_experiment(finished.experiment)
    run = coordinator.open_run(finished.experiment, finished.root.path)
    done = coordinator.run_evals(run, on_progress=lambda _: None, accept_changes=True)
    assert (done.n_run, done.n_kept) == (2, 6)
    assert validate(finished) == {}

    (trial,) = old.glob("jobs/run-1/one__*")
    edit(trial / "config.json", lambda v: v.update(more=1))
    record = old / "raw-results.json"
    assert list(validate(finished)) == [f"{finished.root.relative(trial)}/config.json"]
    record.write_bytes(record.read_bytes().replace(b'"archived"', b'"archivee"'))
    (messages,) = validate(finished).values()
    assert [message.startswith(f"{record}: damaged: its SHA-256 is ") for message in messages] == [True]


def test_evidence_that_cannot_be_written_is_validated_all_the_same(finished, read_only, capsys):
    before = finished.snapshot()
    words = ["validate-results", str(finished.experiment), "--results", str(finished.root.path)]
    log = finished.trial() / "config.json"
    with read_only(finished.root.path):
        assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.err == (
        f"warning: {finished.root.path} cannot be written, so that this report is not kept there: a later analysis "
        "will not know of it\n"
    )
    assert printed.out.endswith("valid: the native evidence is what the records say\n")
    assert finished.snapshot() == before
    with lock_root(finished.root, "exclusive"), read_only(finished.root.path):
        assert main(words) == 5
    assert f"error: the evidence in {finished.root.path} is in use by another run: pid " in capsys.readouterr().err
    edit(log, lambda v: v.update(more=1))
    with read_only(finished.root.path):
        assert main(words) == 3
    assert f"error: {finished.root.relative(log)}: damaged or exchanged: " in capsys.readouterr().err


def test_a_corrupted_native_task_checksum(finished, tmp_path, capsys):
    """It fails the validation; analysis of saved results completes, makes no validation report and changes nothing."""
    path = finished.trial() / "result.json"
    old = json.loads(path.read_bytes())["task_checksum"]
    path.write_bytes(path.read_bytes().replace(old.encode(), b"0" * 64))
    before = finished.snapshot()

    words = ["run-experiment", str(finished.experiment), "--results", str(finished.root.path)]
    assert main([*words, "--output", str(tmp_path / "again")]) == 0
    assert finished.snapshot() == before
    assert not (tmp_path / "again/validation.json").exists()
    again = read_record(tmp_path / "again/experiment.json", ExperimentSeal)
    assert again.native_validation == "done"  # That of the fresh run holds for this manifest.
    capsys.readouterr()

    words = ["validate-results", str(finished.experiment), "--results", str(finished.root.path)]
    assert main(words) == 3
    place = finished.root.relative(path)
    errors = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        rf"error: {re.escape(place)}: damaged or exchanged: its SHA-256 is [0-9a-f]{{16}}\.\.\., recorded "
        r"[0-9a-f]{16}\.\.\.; restore it from a backup",
        errors[0],
    )
    assert errors[1:] == [
        f"error: {place}: task_checksum is '{'0' * 64}'; recorded '{old}'",
        f"error: {place}: checksum of task one is 0000000000000000...; its folder gives {old[:16]}...",
        f"error: {finished.root.path}: the native evidence differs from its records in 3 places; nothing computed from "
        "them can be trusted",
    ]
    report = read_record(finished.root.validation, ValidationReport)
    assert (report.passed, len(report.deviations)) == (False, 3)

    assert main(["run-experiment", str(finished.experiment), "--results", str(finished.root.path)]) == 0
    assert read_record(finished.root.experiment, ExperimentSeal).native_validation == "failed"


def test_evidence_that_was_never_validated_says_so(finished):
    finished.root.validation.unlink()
    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    assert coordinator.analyse_saved(run).native_validation == "not_done"


def test_a_validation_of_another_manifest_counts_for_nothing(finished):
    finished.rewrite(finished.root.validation, lambda v: v["evidence"].update({"execution.json": "0" * 64}))
    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    assert coordinator.analyse_saved(run).native_validation == "not_done"


def test_all_deviations_are_named_at_once(finished):
    reward = finished.trial("baseline", "one") / "verifier/reward.txt"
    reward.write_text("0\n")
    shutil.rmtree(finished.trial("idle", "two"))
    plan = next((finished.root.path / "execution/words/control-1").glob("*/run-1.plan.json"))
    plan.write_bytes(plan.read_bytes().replace(b'"attempts":1', b'"attempts":2'))
    shutil.copytree(finished.trial("cut"), finished.trial("cut").with_name("one__better"))
    found = validate(finished)
    relative = finished.root.relative
    assert found.pop(relative(reward))[1] == (
        "says reward=0.0, but result.json says reward=1.0; restore them from a backup"
    )
    name = finished.trial("cut").name
    assert found.pop(relative(finished.trial("cut").with_name("one__better"))) == [
        f"is the trial {name} under another name"
    ]
    (missing,) = [place for place in found if "/idle/" in place]
    assert found.pop(missing) == ["missing, but recorded as attempt 1 of task two; restore it from a backup"]
    assert str(plan) in str(found) or relative(plan) in found


def test_a_reward_that_was_changed_everywhere_but_in_the_verifiers_file(finished):
    """Whoever changes native result and all records consistently is still contradicted by the verifier's own file."""
    folder = finished.trial("idle", "one")
    edit(folder / "result.json", lambda v: v["verifier_result"]["rewards"].update(reward=1.0))
    record = folder.parents[2] / "raw-results.json"

    def deceive(value):
        (trial,) = [t for t in value["trials"] if t["task"] == "one"]
        from metric_benchmark.hashing import digest_file

        trial.update(reward=1.0, native_reward=1.0, result_sha256=digest_file(folder / "result.json"))

    finished.rewrite(record, deceive)
    assert validate(finished) == {
        f"{finished.root.relative(folder)}/verifier/reward.txt": [
            "says reward=0.0, but result.json says reward=1.0; restore them from a backup"
        ]
    }


def test_a_record_that_chose_another_classification(finished):
    folder = finished.trial("idle", "one")
    record = folder.parents[2] / "raw-results.json"
    finished.rewrite(record, lambda v: v["trials"][0].update(status="agent_error", reward=0.5))
    assert validate(finished) == {
        f"{finished.root.relative(folder)}/result.json": [
            "status is 'valid'; recorded 'agent_error'",
            "reward is 0.0; recorded 0.5",
        ]
    }


def test_a_record_that_left_a_trial_out(finished):
    record = finished.trial("idle", "one").parents[2] / "raw-results.json"
    name = finished.root.relative(finished.trial("idle", "one")).removeprefix("execution/words/idle/")
    finished.rewrite(record, lambda v: v["trials"].pop(0))
    found = validate(finished)
    assert found[finished.root.relative(record)] == [
        f"task one, attempt 1: recorded is none; the native folders give {name}"
    ]
    assert found["execution/words/results.json"] == ["variant 'idle': n_without_verdict is 0; its record says 1"]


def test_a_task_that_changed_since_is_named(finished):
    (finished.experiment / "tasks/one/instruction.md").write_text("Other words.\n")
    found = validate(finished)
    (message,) = found.pop(str(finished.experiment / "tasks/one"))
    assert re.fullmatch(
        r"task one has changed since it was pinned: found [0-9a-f]{16}\.\.\., pinned [0-9a-f]{16}\.\.\.; restore it, "
        "or move it away to validate without it",
        message,
    )
    assert found == {}


def test_one_trial_that_disagrees_about_its_task(finished):
    """Without the folder, trials are compared with each other: the one that differs is named, not the others."""
    shutil.rmtree(finished.experiment / "tasks")
    path = finished.trial("idle", "one") / "lock.json"
    old = json.loads(path.read_bytes())["task"]["digest"]
    edit(path, lambda v: v["task"].update(digest="sha256:" + "0" * 64))
    messages = validate(finished)[finished.root.relative(path)]
    assert messages[1] == f"is not among the trials of {finished.root.relative(path.parents[1] / 'lock.json')}"
    assert messages[2] == f"content digest of task one is 0000000000000000...; most trials have {old[7:23]}..."


def test_a_damaged_record_is_a_deviation_like_any_other(finished):
    record = finished.trial("idle", "one").parents[2] / "raw-results.json"
    record.write_bytes(record.read_bytes().replace(b'"role":"mutant"', b'"role":"mutamt"'))
    (found,) = validate(finished).values()
    assert found[0].startswith(f"{record}: damaged or exchanged: its SHA-256 is ")


@pytest.mark.parametrize("kind", ["missing", "other run", "other cases"])
def test_evidence_of_something_else_is_refused_and_nothing_is_written(finished, kind):
    if kind == "missing":
        finished.root.manifest.unlink()
        expected = (
            f"{finished.root.manifest}: missing (partial evidence is there); `metric-benchmark run-evals EXPERIMENT "
            f"--output {finished.root.path}` goes on where it stopped and writes it"
        )
    elif kind == "other run":
        expected = (
            f"{finished.root.execution_inputs}: holds evidence of run 'words'; expected 'wrods'. Give another "
            "--output, or --run-id words"
        )
    else:
        cases = finished.experiment / "cases.yaml"
        cases.write_text(cases.read_text() + "# another file\n")
        expected = f"{finished.root.manifest}: was made from another cases.yaml ("
    before = finished.snapshot()
    run_id = "wrods" if kind == "other run" else None

    def try_it():
        saved = finished.root.path
        validate_results(
            coordinator.open_run(finished.experiment, None, results=saved, run_id=run_id, level="analysis")
        )

    with pytest.raises(EvidenceError) as refused:
        try_it()
    assert str(refused.value).startswith(expected)
    assert finished.snapshot() == before
