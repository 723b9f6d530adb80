# SPDX-License-Identifier: Apache-2.0
"""What is checked before anything is written; every entry point refuses the same evidence with the same words."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest

from metric_benchmark import experiment as coordinator
from metric_benchmark.cli.app import main
from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence import reader
from metric_benchmark.evidence.stamps import stamped
from metric_benchmark.pipeline import inputs

pytestmark = pytest.mark.harbor


def refusal(words: list[str], capsys) -> str:
    """Runs a command that must end with status 3 and returns its only error."""
    capsys.readouterr()
    assert main(words) == 3
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    return line.removeprefix("error: ")


def entry_points(finished, output) -> dict[str, list[str]]:
    """The commands that take saved evidence and an experiment."""
    saved = [str(finished.experiment), "--results", str(finished.root.path)]
    return {
        "score": ["score", *saved, "--output", str(output)],
        "cover": ["cover", *saved, "--output", str(output)],
        "correlate": ["correlate", *saved, "--output", str(output)],
        "run-experiment": ["run-experiment", *saved, "--output", str(output)],
        "validate-results": ["validate-results", *saved],
    }


def test_a_mistyped_run_id_leaves_the_output_usable(finished, tmp_path, capsys):
    output = tmp_path / "again"
    words = entry_points(finished, output)["run-experiment"]
    assert refusal([*words, "--run-id", "wrods"], capsys) == (
        f"{finished.root.execution_inputs}: holds evidence of run 'words'; expected 'wrods'. Give another --output, or "
        "--run-id words"
    )
    assert not output.exists()
    assert main(words) == 0


def test_a_mistyped_run_id_leaves_an_output_that_holds_an_analysis_as_it_was(finished, tmp_path, capsys):
    output = tmp_path / "again"
    words = entry_points(finished, output)["run-experiment"]
    assert main(words) == 0
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    refusal([*words, "--run-id", "wrods"], capsys)
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", ["score", "cover", "correlate", "run-experiment", "validate-results"])
def test_partial_jobs_without_a_manifest(finished, tmp_path, capsys, command):
    """As a run that was killed leaves them: the message names the command that recovers them."""
    finished.root.manifest.unlink()
    for index in (finished.root.path / "execution").glob("*/results.json"):
        index.unlink()
    before = finished.snapshot()
    assert refusal(entry_points(finished, tmp_path / "again")[command], capsys) == (
        f"{finished.root.manifest}: missing (partial evidence is there); `metric-benchmark run-evals EXPERIMENT "
        f"--output {finished.root.path}` goes on where it stopped and writes it"
    )
    assert finished.snapshot() == before
    assert not (tmp_path / "again").exists()


def test_that_command_recovers_them(finished):
    finished.root.manifest.unlink()
    for index in (finished.root.path / "execution").glob("*/results.json"):
        index.unlink()
    done = coordinator.run_evals(
        coordinator.open_run(finished.experiment, finished.root.path), on_progress=lambda _: None
    )
    assert (done.n_run, done.n_kept) == (0, 8)
    assert finished.root.manifest.exists()


def manifest_with(finished, change) -> None:
    value = json.loads(finished.root.manifest.read_bytes())
    change(value)
    finished.root.manifest.write_bytes(stamped(value))


ENTRY = {"index": "execution/words/results.json", "index_sha256": "0" * 64}
BAD_MANIFESTS = {
    "an extra case": (
        lambda v: v["cases"].update(more={**ENTRY, "index": "execution/more/results.json"}),
        "cases differ: not in the experiment ['more'], not in the evidence []",
    ),
    "a missing case": (
        lambda v: v["cases"].pop("words"),
        "cases differ: not in the experiment [], not in the evidence ['words']",
    ),
    "one index twice": (
        lambda v: v["cases"].update(more=v["cases"]["words"]),
        "cases 'more' and 'words' name one index, 'execution/words/results.json'; the record is not ours",
    ),
    "a wrong file name": (
        lambda v: v["cases"]["words"].update(index="execution/words/index.json"),
        "case 'words' names 'execution/words/index.json'; expected 'execution/words/results.json'",
    ),
    "a path that climbs": (
        lambda v: v["cases"]["words"].update(index="execution/../../words/results.json"),
        "names 'execution/../../words/results.json', which is not a path inside the evidence; the record is not ours",
    ),
    "an absolute path": (
        lambda v: v["cases"]["words"].update(index="/etc/results.json"),
        "names '/etc/results.json', which is not a path inside the evidence; the record is not ours",
    ),
    "another run": (lambda v: v.update(run_id="x"), "run id is 'x'; expected 'words': this is evidence of another run"),
    "another schema": (
        lambda v: v.update(schema="metric-benchmark/execution/v7"),
        "schema is 'metric-benchmark/execution/v7', written by metric-benchmark 0.1.0; this version reads "
        "'metric-benchmark/execution/v1'",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_every_entry_point_refuses_a_bad_manifest_with_the_same_words(finished, tmp_path, capsys, change, message):
    manifest_with(finished, change)
    before = finished.snapshot()
    words = entry_points(finished, tmp_path / "again").values()
    assert {refusal(command, capsys) for command in words} == {f"{finished.root.manifest}: {message}"}
    assert finished.snapshot() == before
    assert not (tmp_path / "again").exists()


BAD_BYTES = {
    "a BOM": lambda data: b"\xef\xbb\xbf" + data,
    "a key twice": lambda data: data.replace(b'"cases":', b'"run_id":"words","cases":'),
    "NaN": lambda data: data.replace(b'"cases":', b'"more":NaN,"cases":'),
    "10 MB of nesting": lambda data: data.replace(b'"cases":', b'"more":' + b"[" * 10_000_000 + b',"cases":'),
    "half of it": lambda data: data[: len(data) // 2],
}


@pytest.mark.parametrize("kind", BAD_BYTES)
def test_bytes_that_are_no_record_are_refused_everywhere(finished, tmp_path, capsys, kind):
    finished.root.manifest.write_bytes(BAD_BYTES[kind](finished.root.manifest.read_bytes()))
    words = [*entry_points(finished, tmp_path / "again").values(), ["report", str(finished.root.path)]]
    (message,) = {refusal(command, capsys) for command in words}
    assert message.startswith(f"{finished.root.manifest}: not a record: ")


def test_a_link_out_of_the_evidence_is_refused_everywhere(finished, tmp_path, capsys):
    case = finished.root.case("words")
    shutil.move(case, tmp_path / "elsewhere")
    case.symlink_to(tmp_path / "elsewhere")
    words = [*entry_points(finished, tmp_path / "again").values(), ["report", str(finished.root.path)]]
    assert {refusal(command, capsys) for command in words} == {
        f"{finished.root.manifest}: names 'execution/words/results.json', which is not a path inside the evidence; the "
        "record is not ours"
    }


def test_a_trial_folder_that_is_a_link_is_not_read(finished, tmp_path):
    trial = finished.trial("idle")
    shutil.move(trial, tmp_path / "elsewhere")
    trial.symlink_to(tmp_path / "elsewhere")
    run = coordinator.open_run(finished.experiment, finished.root.path)
    with pytest.raises(EvidenceError) as refused:
        coordinator.run_evals(run, on_progress=lambda _: None)
    assert str(refused.value).startswith(
        f"{finished.root.relative(trial)}: a link; put the trial's folder itself there"
    )


def test_scoring_reads_every_record_once(finished, monkeypatch):
    read: Counter[str] = Counter()
    real = reader.read_record

    def counted(path, *arguments, **options):
        read[path.name if path.name != "raw-results.json" else path.parent.parent.name] += 1
        return real(path, *arguments, **options)

    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    from metric_benchmark.pipeline.mutant_scores import score_subsets

    monkeypatch.setattr(reader, "read_record", counted)
    score_subsets(run, "words")
    assert read == {"results.json": 1, "baseline": 1, "cut": 1, "idle": 1, "control-1": 1}


def test_the_inputs_of_a_case_are_frozen_once_for_all_stages(finished, monkeypatch):
    read: Counter[str] = Counter()
    real = inputs.read_record

    def counted(path, *arguments, **options):
        read[path.name] += 1
        return real(path, *arguments, **options)

    monkeypatch.setattr(inputs, "read_record", counted)
    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    coordinator.analyse(run)
    frozen = ("subsets.json", "coverage-config.json", "case-description.json", "selection.json")
    # Whether it is still what is asked for, then whether it says the same.
    assert read == dict.fromkeys(frozen, 2)


def test_an_analysis_of_other_settings_than_those_of_now_is_not_sealed(finished):
    from metric_benchmark.pipeline.sealing import seal_experiment

    path = finished.experiment / "analysis.yaml"
    path.write_text(path.read_text().replace("seed: 3", "seed: 4"))
    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    before = finished.snapshot()
    with pytest.raises(EvidenceError) as refused:
        seal_experiment(run)
    frozen = finished.root.analysis("words") / "selection.json"
    assert str(refused.value) == (
        f"{frozen}: the analysis was made of other inputs than the experiment has now; run its stages again"
    )
    assert finished.snapshot() == before


def test_a_run_that_goes_on_notices_what_was_damaged_meanwhile(finished):
    """Nothing is run again because its evidence was damaged, and nothing is recorded anew with another outcome."""
    folder = finished.trial("idle", "two")
    data = (folder / "result.json").read_bytes()
    (folder / "result.json").write_bytes(data.replace(b'"reward": 0.0', b'"reward": 1.0'))
    shutil.rmtree(finished.trial("idle", "one"))
    before = finished.snapshot()
    run = coordinator.open_run(finished.experiment, finished.root.path)
    with pytest.raises(EvidenceError) as refused:
        coordinator.run_evals(run, on_progress=lambda _: None)
    first, second, remedy = (str(problem) for problem in refused.value.problems)
    assert remedy == "execution/words/idle: without a backup: remove this folder, and the whole variant is run again"
    relative = finished.root.relative
    (gone,) = [
        t for t in json.loads((folder.parents[2] / "raw-results.json").read_bytes())["trials"] if t["task"] == "one"
    ]
    assert first == (
        f"{relative(folder.parent)}/{gone['trial']}: missing, but recorded as attempt 1 of task one; restore it from a "
        "backup"
    )
    assert second.startswith(f"{relative(folder)}/result.json: damaged or exchanged: its SHA-256 is ")
    assert finished.snapshot() == before


def test_inputs_that_change_while_they_are_in_use_are_not_sealed(finished):
    from metric_benchmark.errors import ConfigError
    from metric_benchmark.pipeline.sealing import seal_experiment

    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    path = finished.experiment / "analysis.yaml"
    path.write_text(path.read_text() + "# later\n")
    with pytest.raises(ConfigError) as refused:
        seal_experiment(run)
    assert str(refused.value) == f"{path}: changed while it was in use; run the same command again"


@pytest.mark.parametrize(
    "name", ["selection.json", "mutants/idle.json", "mutant-scores.json", "coverage.json", "correlation.json"]
)
def test_a_record_of_the_analysis_that_was_damaged_is_not_sealed(finished, name):
    from metric_benchmark.pipeline.sealing import seal_experiment

    path = finished.root.analysis("words") / name
    path.write_bytes(path.read_bytes().replace(b'"implementation"', b'"implementatiom"'))
    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    with pytest.raises(EvidenceError, match=f"{name}: damaged"):
        seal_experiment(run)


def rerun(finished, variant: str) -> None:
    """What running a variant again leaves: other raw results, named by the index and by a manifest made anew."""
    folder = finished.trial(variant).parents[2]
    finished.rewrite(folder / "raw-results.json", lambda value: value["trials"][0].update(duration_s=99.0))


@pytest.mark.parametrize(
    ("variant", "stages", "stale"),
    [
        ("idle", (), "mutants/idle.json"),
        ("baseline", (), "mutants/control-1.json"),
        ("baseline", ("score",), "coverage.json"),
    ],
)
def test_an_analysis_of_superseded_raw_results_is_neither_correlated_nor_sealed(finished, variant, stages, stale):
    from metric_benchmark.pipeline.sealing import seal_experiment

    rerun(finished, variant)
    run = coordinator.open_run(finished.experiment, None, results=finished.root.path, level="analysis")
    for _ in stages:
        coordinator.score_subsets(run, "words")
    before = finished.snapshot()
    path = finished.root.analysis("words") / stale
    expected = f"{path}: was computed from raw results that are no longer current; run its stage again"
    for stage in (coordinator.correlate_case, lambda run, _: seal_experiment(run)):
        with pytest.raises(EvidenceError) as refused:
            stage(run, "words")
        assert str(refused.value) == expected
    assert finished.snapshot() == before
