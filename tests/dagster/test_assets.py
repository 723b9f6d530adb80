# SPDX-License-Identifier: Apache-2.0
"""All assets on real trials: what they write, what they say about it, and that nothing is paid for twice."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from metric_benchmark.experiment import analyse_saved, open_run, run_experiment
from metric_benchmark.hashing import digest_file
from metric_benchmark.records.base import comparable

pytestmark = pytest.mark.harbor

CASE_ASSETS = ("subset_scores", "coverage", "correlation")


def _materialisations(small: ModuleType) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = [("execution_manifest", None), ("report", None)]
    found += [("raw_results", key) for key in small.VARIANTS]
    found += [("mutant_scores", key) for key in small.SCORED]
    return found + [(asset, case) for asset in CASE_ASSETS for case in small.TWO_CASES]


def test_every_materialisation_says_what_it_was_made_from_and_by(finished: Any, small: ModuleType) -> None:
    for asset, key in _materialisations(small):
        metadata = finished.metadata(asset, key)
        where = f"{asset} of {key}"
        assert re.fullmatch("[0-9a-f]{64}", metadata["implementation_hash"].value), where
        assert re.fullmatch("[0-9a-f]{64}", metadata["config_hash"].value), where
        assert metadata["input_digests"].value, where
        assert any(name.startswith("n_") for name in metadata), where
        assert metadata["duration_s"].value >= 0, where
        assert "cost_usd" in metadata, where
        assert Path(metadata["evidence"].path).is_file(), where
        assert [v for v in metadata.values() if type(v).__name__ == "TableMetadataValue" and v.records], where


def test_every_materialisation_carries_a_picture_small_enough_for_the_database(
    finished: Any, small: ModuleType
) -> None:
    for asset, key in _materialisations(small):
        text = finished.metadata(asset, key)["plot"].md_str
        match = re.fullmatch(r"!\[[^\]]+\]\(data:image/png;base64,([A-Za-z0-9+/=]+)\)", text)
        assert match, f"{asset} of {key}: {text[:80]}"
        assert base64.b64decode(match[1]).startswith(b"\x89PNG")
        assert len(text) < 100_000


def test_raw_results_say_what_came_of_each_trial(finished: Any) -> None:
    metadata = finished.metadata("raw_results", "tiny|lazy")
    assert (metadata["n_trials"].value, metadata["n_run"].value, metadata["n_kept"].value) == (2, 2, 0)
    assert metadata["mean_reward"].value == 0.0
    rows = [record.data for record in metadata["trials"].records]
    assert [(row["task"], row["status"], row["reward"]) for row in rows] == [
        ("greet", "valid", 0.0),
        ("count", "valid", 0.0),
    ]


def test_kills_and_scores_are_those_of_the_evidence(finished: Any) -> None:
    assert finished.metadata("mutant_scores", "tiny|lazy")["status"].value == "killed"
    assert finished.metadata("mutant_scores", "tiny|same")["status"].value == "survived"
    scores = finished.metadata("subset_scores", "tiny")
    assert (scores["n_mutants"].value, scores["n_killed"].value) == (2, 1)
    # One of two mutants is killed by both tasks, so every subset scores a half.
    assert scores["mean_mutant_score"].value == 0.5


def test_the_version_of_a_materialisation_is_the_digest_of_its_evidence(finished: Any) -> None:
    import dagster as dg

    for asset, key in (("raw_results", "tiny|same"), ("correlation", "other")):
        (record,) = finished.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[key]), limit=1
        ).records
        tags = record.asset_materialization.tags
        evidence = Path(finished.metadata(asset, key)["evidence"].path)
        assert tags["dagster/data_version"] == digest_file(evidence)


def test_inputs_are_observed_with_the_config_hash_that_results_record(finished: Any) -> None:
    import dagster as dg

    observed = {
        record.partition_key: record.event_log_entry.asset_observation.tags["dagster/data_version"]
        for record in finished.instance.fetch_observations(dg.AssetKey("variant_inputs"), limit=100).records
    }
    assert set(observed) == {"tiny|baseline", "tiny|screening", "tiny|control-1", "tiny|lazy", "tiny|same",
                             "other|baseline", "other|screening", "other|control-1", "other|idle"}  # fmt: skip
    assert observed["tiny|lazy"] == finished.metadata("raw_results", "tiny|lazy")["config_hash"].value
    assert observed["tiny|lazy"] != observed["tiny|same"]


def test_claims_are_registered_by_the_first_materialisation_and_a_later_change_is_named(
    finished: Any, make_shell: Any, tmp_path: Path
) -> None:
    record = json.loads((finished.output / "analysis/tiny/correlation.json").read_text())
    assert record["registration"] == "before_data"
    shutil.copytree(finished.output, tmp_path / "out")
    shutil.copytree(finished.experiment.parent, tmp_path / "experiment")
    settings = tmp_path / "experiment/analysis.yaml"
    settings.write_text(
        settings.read_text().replace("seed: 1", "seed: 1, hypotheses: [{metric: synthetic, minimum_effect: 0.1}]")
    )
    shell = make_shell(tmp_path / "experiment/experiment.yaml")
    for key in ("tiny|control-1", "tiny|lazy", "tiny|same"):
        assert shell.run("mutant_scores", key=key).success
    assert shell.run("subset_scores", "coverage", "correlation", key="tiny").success
    record = json.loads((tmp_path / "out/analysis/tiny/correlation.json").read_text())
    assert (record["registration"], record["registration_changes"]) == (
        "after_data", ["the hypotheses", "the settings of their metrics"],
    )  # fmt: skip
    assert "changed after the data" in shell.metadata("correlation", "tiny")["warnings"].md_str


def test_the_report_asset_says_what_the_cases_say_together(finished: Any) -> None:
    rows = [record.data for record in finished.metadata("report")["pooled"].records]
    assert [(row["metric"], row["n_cases"]) for row in rows] == [("suite_size", 0), ("synthetic", 0)]
    assert rows[0]["remarks"].startswith("0 cases; fewer than 3 are listed, not pooled; other is left out: constant")
    seal = json.loads((finished.output / "experiment.json").read_text())
    assert {m: c["verdict"]["verdict"] for m, c in seal["cases"]["other"]["conclusions"].items()} == {
        "suite_size": "not_tested", "synthetic": "not_tested",
    }  # fmt: skip


def test_the_report_asset_seals_and_writes_the_report(finished: Any) -> None:
    seal = json.loads((finished.output / "experiment.json").read_text())
    assert sorted(seal["cases"]) == ["other", "tiny"]
    report = Path(finished.metadata("report")["report"].path)
    assert report == finished.output / "report.html"
    assert "tiny" in report.read_text()


def test_trials_are_relayed_into_the_log_of_their_run(shell: Any) -> None:
    assert shell.run("raw_results", key="tiny|baseline").success
    (run,) = shell.instance.get_runs()
    messages = [entry.user_message for entry in shell.instance.all_logs(run.run_id)]
    assert "tiny|baseline 2/2: " in "\n".join(messages)
    assert sum("reward 1" in message for message in messages) == 2


def test_materialising_fresh_results_again_runs_no_trial(shell: Any) -> None:
    assert shell.run("raw_results", key="tiny|lazy").success
    first = shell.metadata("raw_results", "tiny|lazy")
    assert shell.run("raw_results", key="tiny|lazy").success
    again = shell.metadata("raw_results", "tiny|lazy")
    assert (first["n_run"].value, first["n_kept"].value) == (2, 0)
    assert (again["n_run"].value, again["n_kept"].value) == (0, 2)


def _records(output: Path) -> dict[str, Any]:
    """All records of stages 1 to 4 as they compare, by path; config-hash folders are named by variant alone."""
    found: dict[str, Any] = {}
    for path in sorted([*output.glob("execution/*/*/*/raw-results.json"), *output.glob("analysis/*/**/*.json")]):
        found[path.relative_to(output).as_posix()] = comparable(json.loads(path.read_text()))
    return found


def test_the_command_lines_run_gives_equal_records(finished: Any, tmp_path: Path) -> None:
    run = open_run(finished.experiment, tmp_path / "out")
    run_experiment(run, on_progress=lambda progress: None)
    ours, theirs = _records(finished.output), _records(tmp_path / "out")
    assert len(ours) == 9 + 2 * 4 + 5 + 2 * 3
    assert ours == theirs


def test_evidence_written_by_dagster_is_analysed_without_tasks(finished: Any, tmp_path: Path) -> None:
    experiment, output = tmp_path / "experiment", tmp_path / "out"
    shutil.copytree(finished.experiment.parent, experiment)
    shutil.copytree(finished.output, output)
    shutil.rmtree(output / "analysis")
    for case in ("tiny", "other"):
        shutil.rmtree(experiment / case / "tasks")
    analyse_saved(open_run(experiment, output, level="analysis"))
    assert _records(output) == _records(finished.output)
