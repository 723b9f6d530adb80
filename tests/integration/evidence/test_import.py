# SPDX-License-Identifier: Apache-2.0
"""import-results: a job Harbor ran by itself becomes a run, with everything about it that differs listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.cli.app import main
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import read_ledger
from metric_benchmark.evidence.reader import read_index, read_raw_results, read_record
from metric_benchmark.pins import sign_experiment
from metric_benchmark.pipeline.importing import find_variant, import_jobs
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.execution import RunPlan

pytestmark = pytest.mark.harbor


def adopt(finished, job: Path, output: Path, variant: str = "idle"):
    run = coordinator.open_run(finished.experiment, output, level="execution")
    return import_jobs(run, find_variant(run, variant), job)


def edit(path: Path, change) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value, indent=4))


def trials_of(job: Path, agent: str) -> list[Path]:
    found = [path.parent for path in sorted(job.glob("*/config.json"))]
    return [path for path in found if json.loads((path / "config.json").read_bytes())["agent"]["name"] == agent]


def reconfigure(job: Path, change) -> None:
    """Changes a job's trials as if they had been run with another configuration."""
    for trial in trials_of(job, "nop"):
        edit(trial / "config.json", change)
        edit(trial / "result.json", lambda value: change(value["config"]))


def test_a_job_becomes_a_run_and_its_trials_count(finished, job, tmp_path):
    output = tmp_path / "new"
    before = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}
    done = adopt(finished, job, output, "words|idle")

    (run,) = done.runs
    assert (run.run, run.n_trials, run.n_counted, run.deviations) == ("run-1", 2, 2, ())
    others = [trial.name for trial in trials_of(job, "oracle")]
    assert done.left_out == tuple(f"elsewhere/{name}: its agent is declared otherwise: name" for name in others)
    assert {path: path.read_bytes() for path in job.rglob("*") if path.is_file()} == before

    root = EvidenceRoot(output)
    results = read_raw_results(root, read_index(root, "words"), "idle")
    assert results.rewards() == {"one": [0.0], "two": [0.0]}
    assert [trial.flags for trial in results.trials] == [("imported",), ("imported",)]
    assert results.environment["imported"] == ["local"]
    (config,) = (output / "execution/words/idle").iterdir()
    plan = read_record(config / "run-1.plan.json", RunPlan)
    assert (plan.imported_from, plan.imported_environment, plan.attempts) == (str(job), "local", 1)
    for trial in trials_of(job, "nop"):
        for path in (path for path in trial.rglob("*") if path.is_file()):
            copy = config / "jobs/run-1" / path.relative_to(job)
            assert copy.read_bytes() == path.read_bytes()
    assert [(e["kind"], e["run"], e["n_trials"]) for e in read_ledger(root)] == [("import", "run-1", 2)]

    # What was imported is kept; only the other variants are run, and the whole is sealed as valid.
    run = coordinator.open_run(finished.experiment, output)
    evals = coordinator.run_evals(run, on_progress=lambda _: None)
    assert (evals.n_run, evals.n_kept) == (6, 2)
    seal = coordinator.analyse_saved(run)
    assert (seal.native_validation, seal.environments) == ("done", ["local"])
    # What was adopted may be older than any claim.
    assert read_record(root.correlation("words"), Correlation).registration == "unknown"


def test_the_command_line_says_what_it_did(finished, job, tmp_path, capsys):
    reconfigure(job, lambda config: config.update(agent_timeout_multiplier=2.0))
    words = ["import-results", str(finished.experiment), "--variant", "idle", "--jobs", str(job.parent)]
    assert main([*words, "--output", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr()
    assert printed.out == (
        f"{job}: 2 trials adopted as run-1; 2 count\n"
        "  differs: agent_timeout_multiplier was 2.0; a run of this experiment has 1.0\n"
        "words|idle: 2 of 2 attempts have a verdict; `metric-benchmark run-evals` runs the others\n"
    )
    assert printed.err.count("warning: left out: elsewhere/") == 2
    assert main([*words, "--output", str(tmp_path / "new"), "--json"]) == 3


def test_every_deviation_is_listed(finished, job, tmp_path):
    def elsewhere(config):
        config["environment"].update(type="daytona", import_path=None)
        config.update(extra_instructions=["Be quick."])
        config["agent"].update(override_timeout_sec=5.0)

    reconfigure(job, elsewhere)
    edit(job / "config.json", lambda v: v["environment"].update(type="daytona", import_path=None))
    edit(job / "config.json", lambda v: v["retry"].update(max_retries=3))
    edit(job / "lock.json", lambda v: v["harbor"].update(version="0.20.1"))
    (job / "result.json").unlink()
    trials_of(job, "nop")[1].rename(tmp_path / "gone")
    (run,) = adopt(finished, job, tmp_path / "new").runs
    assert run.deviations == (
        "ran in environment daytona; this experiment uses metric_benchmark.execution.sandbox:LocalSandboxEnvironment",
        "its agent is set otherwise: override_timeout_sec",
        'extra_instructions was ["Be quick."]; a run of this experiment has []',
        "Harbor was 0.20.1; this is 0.26.0",
        "Harbor's own retry was on, which deletes the folders of failed attempts",
        "the job has not finished, or its result.json is missing; it may still be running",
    )
    root = EvidenceRoot(tmp_path / "new")
    results = read_raw_results(root, read_index(root, "words"), "idle")
    assert results.environment["imported"] == ["daytona"]
    assert results.n_without_verdict == 1


def test_trials_that_are_missing_of_a_job_are_a_deviation(finished, job, tmp_path):
    """Somebody may have deleted those that failed."""
    lock = json.loads((job / "lock.json").read_bytes())
    again = [trial for trial in lock["trials"] if trial["agent"]["name"] == "nop"]
    edit(job / "lock.json", lambda v: v["trials"].extend(again))
    (run,) = adopt(finished, job, tmp_path / "new").runs
    assert run.deviations == ("the job asked for 4 trials of this agent on these tasks, but 2 can be taken",)


def refused(finished, job, output, variant="idle") -> list[str]:
    with pytest.raises(EvidenceError) as error:
        adopt(finished, job, output, variant)
    assert not (output / "execution").exists()
    return [str(problem) for problem in error.value.problems]


def test_another_agent_is_not_the_variant(finished, job, tmp_path):
    messages = refused(finished, job, tmp_path / "new", "baseline")
    assert len(messages) == 5
    differing = "its agent is declared otherwise: name, import_path, kwargs.bundle_sha256, kwargs.entry"
    assert all(message.endswith(differing) for message in messages[:4])
    assert messages[4] == f"{job}: no trial in it can be taken as one of words|baseline"


def test_other_tasks_are_not_the_cases(finished, job, tmp_path):
    for task in ("one", "two"):
        (finished.experiment / "tasks" / task / "instruction.md").write_text("Other words.\n")
    sign_experiment(finished.experiment)
    messages = refused(finished, job, tmp_path / "new")
    digests = [json.loads((t / "lock.json").read_bytes())["task"] for t in trials_of(job, "nop")]
    expected = {
        f"elsewhere/{trial.name}: its task {task['path']} has digest {task['digest'][7:23]}..., which no task of the "
        "case has"
        for trial, task in zip(trials_of(job, "nop"), digests, strict=True)
    }
    assert expected < set(messages)


def test_a_trial_whose_checksum_is_not_the_tasks(finished, job, tmp_path):
    trial = trials_of(job, "nop")[0]
    edit(trial / "result.json", lambda v: v.update(task_checksum="0" * 64))
    done = adopt(finished, job, tmp_path / "new")
    assert done.runs[0].n_trials == 1
    (message,) = [text for text in done.left_out if trial.name in text]
    assert "checksum of task " in message
    assert "is 0000000000000000...; its folder gives " in message


def test_unfinished_renamed_and_linked_trials_are_left_out(finished, job, tmp_path):
    first, second = trials_of(job, "nop")
    edit(first / "result.json", lambda v: v.update(finished_at=None))
    (second / "agent").mkdir(exist_ok=True)
    (second / "agent" / "notes").symlink_to("/etc/hostname")
    assert set(refused(finished, job, tmp_path / "new")) >= {
        f"elsewhere/{first.name}: it has no finished result.json",
        f"elsewhere/{second.name}: agent/notes is a link that leads out of it",
    }


def test_nothing_is_imported_twice_whoever_it_is_for(finished, job, tmp_path):
    output = tmp_path / "new"
    adopt(finished, job, output)
    (config,) = (output / "execution/words/idle").iterdir()
    with pytest.raises(EvidenceError) as again:
        adopt(finished, job, output)
    for trial in trials_of(job, "nop"):
        where = f"execution/words/idle/{config.name}/jobs/run-1/{trial.name}"
        assert f"elsewhere/{trial.name}: is in the evidence already, as {where}" in str(again.value)


def test_more_attempts_than_asked_for_are_kept_beside(finished, job):
    """The copy has idle's own trials, which started earlier: they stay chosen, whatever the imported ones scored."""
    own = finished.results("idle").trials
    done = adopt(finished, job, finished.root.path)
    assert done.runs[0].run == "run-2"
    assert [trial.trial for trial in done.results.trials] == [trial.trial for trial in own]
    names = {name.split("/")[3] for name in done.results.evidence if name.count("/") == 4}
    assert names == {trial.name for trial in trials_of(job, "nop")}
    # The index changed, so what was sealed before is set aside.
    assert not finished.root.manifest.exists()
    assert (finished.root.path / "experiment.superseded-1.json").exists()


def test_an_import_that_died_half_way_leaves_nothing_that_counts(finished, job, tmp_path):
    output = tmp_path / "new"
    adopt(finished, job, output)
    (config,) = (output / "execution/words/idle").iterdir()
    stale = config / ".importing-run-2"
    (stale / "one__half").mkdir(parents=True)
    other = job.rename(job.with_name("renamed"))
    for trial in trials_of(other, "nop"):
        edit(trial / "result.json", lambda v: v.update(id="00000000-0000-0000-0000-000000000000"))
    assert adopt(finished, other, output).runs[0].run == "run-2"
    assert not stale.exists()


def test_a_trial_whose_files_contradict_one_another_is_left_out_and_blocks_nothing(finished, job, tmp_path):
    first, second = trials_of(job, "nop")
    for name in ("reward.txt", "reward.json"):
        (first / "verifier" / name).unlink(missing_ok=True)
    (first / "verifier" / "reward.txt").write_text("1")
    done = adopt(finished, job, tmp_path / "new")
    # Those of the other agent are left out too, in the order of names that end by chance.
    assert [text for text in done.left_out if first.name in text] == [
        f"elsewhere/{first.name}: verifier/reward.txt says reward=1.0, but result.json says reward=0.0; restore them "
        "from a backup"
    ]
    assert [trial.trial for trial in done.results.trials] == [second.name]
    assert read_index(EvidenceRoot(tmp_path / "new"), "words").variants.keys() == {"idle"}


def test_an_import_whose_check_fails_is_undone(finished, job, tmp_path, monkeypatch):
    """Whatever was overlooked when the job was judged: nothing of it is left, and the ledger says that none counted."""
    from metric_benchmark.execution import importing

    monkeypatch.setattr(importing, "check_trial_files", lambda *_, **__: iter(()))
    trial = trials_of(job, "nop")[0]
    edit(trial / "result.json", lambda v: v["config"].update(timeout_multiplier=2.0))
    output = tmp_path / "new"
    with pytest.raises(EvidenceError) as refused:
        adopt(finished, job, output)
    (config,) = (output / "execution/words/idle").iterdir()
    base = f"execution/words/idle/{config.name}"
    assert [str(problem) for problem in refused.value.problems] == [
        f"{base}/jobs/run-1/{trial.name}/result.json: the configuration in it is not that of config.json",
        f"execution/words/idle: the import was undone; {job} is as it was",
    ]
    assert [path.name for path in config.rglob("*")] == ["jobs"]
    assert [entry["kind"] for entry in read_ledger(EvidenceRoot(output))] == ["import", "import_undone"]
    assert not EvidenceRoot(output).index("words").exists()


def test_an_import_is_in_the_ledger_before_its_trials_can_count(finished, job, tmp_path, monkeypatch):
    from metric_benchmark.pipeline import importing

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(importing, "rename", killed)
    output = tmp_path / "new"
    with pytest.raises(KeyboardInterrupt):
        adopt(finished, job, output)
    assert [entry["kind"] for entry in read_ledger(EvidenceRoot(output))] == ["import"]
    assert not list(output.glob("execution/words/idle/*/jobs/run-1"))


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_a_folder_without_jobs(finished, tmp_path, folder):
    (tmp_path / "empty").mkdir()
    jobs = tmp_path / folder
    expected = {
        "nowhere": f"{jobs}: no such folder; --jobs names a Harbor job folder, or a folder of some",
        "empty": f"{jobs}: neither a Harbor job folder nor a folder of some; expected config.json with `agents`, and a "
        "folder per trial",
    }
    assert refused(finished, jobs, tmp_path / "new") == [expected[folder]]


def test_an_unknown_variant(finished, job, tmp_path):
    with pytest.raises(ConfigError, match="case 'words' has no variant 'ilde'; it has: baseline, control-1, cut, idle"):
        adopt(finished, job, tmp_path / "new", "ilde")
    with pytest.raises(ConfigError, match="no case 'wrods'; the experiment has: words"):
        adopt(finished, job, tmp_path / "new", "wrods|idle")
