# SPDX-License-Identifier: Apache-2.0
"""A changed index sets aside what rested on the old one; a manifest is written of a complete inventory only."""

from __future__ import annotations

import pytest

from metric_benchmark.errors import EvidenceError, ExecutionError, StorageError
from metric_benchmark.evidence import index as module
from metric_benchmark.evidence.index import (
    check_run_id,
    open_root,
    read_execution_manifest,
    seal_execution,
    update_index,
)
from metric_benchmark.evidence.reader import read_index, read_raw_results
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_file
from metric_benchmark.records.analysis import ExperimentInputs

EXPECTED = {"desk": {"baseline": ("baseline", "c" * 64), "short": ("mutant", "c" * 64)}}


@pytest.fixture
def seal(root, code):
    def call(expected=EXPECTED, most=0, implementation=code[0]):
        return seal_execution(
            root, run_id="mine", cases_sha256="e" * 64, expected=expected, max_without_verdict=most,
            implementation=implementation,
        )  # fmt: skip

    return call


@pytest.fixture
def complete(root, results, code):
    open_root(root, "mine", code[0])
    update_index(root, results("baseline", role="baseline"))
    update_index(root, results("short"))
    return root


def test_the_first_who_opens_a_root_names_its_run(root, code):
    open_root(root, "mine", code[0])
    open_root(root, "mine", code[1])
    before = root.execution_inputs.read_bytes()
    with pytest.raises(EvidenceError) as refused:
        open_root(root, "yours", code[0])
    assert str(refused.value) == (
        f"{root.execution_inputs}: holds evidence of run 'mine'; expected 'yours'. Give another --output, or --run-id "
        "mine"
    )
    assert root.execution_inputs.read_bytes() == before


def test_checking_a_new_root_writes_nothing(root):
    check_run_id(root, "mine")
    assert not root.path.exists()


def test_an_analysis_of_another_run_is_refused_too(root):
    write_record(root.experiment_inputs, ExperimentInputs(run_id="theirs", name="x", cases_sha256="e" * 64))
    with pytest.raises(
        EvidenceError, match=r"experiment-inputs\.json: holds evidence of run 'theirs'; expected 'mine'"
    ):
        check_run_id(root, "mine")


def test_results_are_indexed_by_digest(complete, results):
    index = read_index(complete, "desk", run_id="mine")
    entry = index.variants["short"]
    assert entry.raw_results == f"execution/desk/short/{'c' * 16}/raw-results.json"
    assert entry.raw_results_sha256 == digest_file(complete.path / entry.raw_results)
    assert read_raw_results(complete, index, "short") == results("short")


def test_the_same_results_change_nothing(complete, results):
    before = complete.index("desk").read_bytes()
    assert not update_index(complete, results("short"))
    assert complete.index("desk").read_bytes() == before


def test_the_same_results_of_another_version_of_the_code_change_nothing(complete, results, code):
    before = complete.index("desk").read_bytes()
    assert not update_index(complete, results("short", implementation=code[1]))
    assert complete.index("desk").read_bytes() == before


def test_a_changed_index_sets_aside_the_sealed_experiment_and_the_manifest(complete, results, trial, seal):
    seal()
    for number in (1, 2):
        complete.experiment.write_text(f"seal {number}")
        assert update_index(complete, results("short", trials=(trial(reward=float(number + 1)),)))
        assert not complete.experiment.exists()
        assert not complete.manifest.exists()
        assert (complete.path / f"experiment.superseded-{number}.json").read_text() == f"seal {number}"
        seal()


def test_a_full_disk_leaves_the_old_index(complete, results, trial, monkeypatch):
    before = complete.index("desk").read_bytes()

    def full(*_):
        raise StorageError("disk full")

    monkeypatch.setattr(module, "write_record", full)
    with pytest.raises(StorageError):
        update_index(complete, results("short", trials=(trial(reward=0.0),)))
    assert complete.index("desk").read_bytes() == before
    assert read_raw_results(complete, read_index(complete, "desk"), "short").rewards() == {"one": [1.0]}


def test_a_complete_inventory_is_sealed_and_sealing_again_writes_the_same(complete, seal, code):
    manifest = seal()
    assert manifest.cases["desk"].index == "execution/desk/results.json"
    assert manifest.cases["desk"].index_sha256 == digest_file(complete.index("desk"))
    before = complete.manifest.read_bytes()
    seal()
    seal(implementation=code[1])
    assert complete.manifest.read_bytes() == before


def test_all_that_is_open_is_named(complete, results, trial, seal):
    update_index(complete, results("blind", trials=(trial(status="no_verdict", reward=None),)))
    expected = {
        "desk": {
            **EXPECTED["desk"],
            "short": ("mutant", "f" * 64),
            "blind": ("mutant", "c" * 64),
            "new": ("mutant", ""),
        },
        "depot": {},
    }
    with pytest.raises(ExecutionError) as refused:
        seal(expected)
    assert [str(problem) for problem in refused.value.problems] == [
        "execution is incomplete; run `metric-benchmark run-evals` again to continue (4 open):",
        "desk|short: its inputs have changed since it ran",
        "desk|new: not run",
        "depot: nothing has been run",
        "desk|blind: 1 trials without a verdict",
    ]
    assert refused.value.exit_status == 4
    assert not complete.manifest.exists()


def test_trials_without_a_verdict_are_tolerated_as_far_as_configured(complete, results, trial, seal):
    update_index(complete, results("short", trials=(trial(status="infrastructure", reward=None),)))
    with pytest.raises(ExecutionError):
        seal()
    assert seal(most=1).cases.keys() == {"desk"}
    update_index(complete, results("baseline", trials=(trial(status="no_verdict", reward=None),)))
    with pytest.raises(ExecutionError) as refused:
        seal(most=1)
    # None of the two is more to blame than the other.
    assert [str(problem) for problem in refused.value.problems][1:] == [
        "desk|baseline: 1 trials without a verdict",
        "desk|short: 1 trials without a verdict",
    ]


def test_attempts_nobody_tried_have_no_verdict_either(results, trial):
    found = results(
        attempts=3, tasks=("one", "two"), trials=(trial(), trial(attempt=2, status="agent_error", reward=0.0))
    )
    assert (found.n_counted, found.n_without_verdict) == (2, 4)
    assert found.rewards() == {"one": [1.0, 0.0]}


def test_an_analysis_reads_only_the_manifest_of_its_own_experiment(complete, seal):
    seal()
    assert read_execution_manifest(complete, "mine", "e" * 64, {"desk"}).run_id == "mine"
    with pytest.raises(EvidenceError, match=r"was made from another cases\.yaml \(eeeeeeeeeeeeeeee\.\.\., now ffff"):
        read_execution_manifest(complete, "mine", "f" * 64, {"desk"})
    with pytest.raises(
        EvidenceError, match=r"cases differ: not in the experiment \['desk'\], not in the evidence \['x'\]"
    ):
        read_execution_manifest(complete, "mine", "e" * 64, {"x"})
