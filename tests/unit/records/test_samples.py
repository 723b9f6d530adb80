# SPDX-License-Identifier: Apache-2.0
"""Records that were checked in when their schema was made are read by every later version, or refused by name.

`tests/data/records/v1` is what one run of four variants on two tasks wrote (native folders left out). It is never made
anew: a version that cannot read it needs another schema version, and a message that says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_case_results, read_manifest, read_record
from metric_benchmark.records import analysis, correlation, coverage, execution, scores, validation
from metric_benchmark.records.base import Record
from metric_benchmark.reporting.data import load_report

RECORDS = Path(__file__).parents[2] / "data" / "records"
MODELS: dict[str, type[Record]] = {
    "execution-inputs.json": execution.ExecutionInputs,
    "execution.json": execution.ExecutionManifest,
    "execution/words/results.json": execution.CaseIndex,
    "execution/words/*/*/raw-results.json": execution.RawResults,
    "execution/words/*/*/run-1.plan.json": execution.RunPlan,
    "validation.json": validation.ValidationReport,
    "experiment-inputs.json": analysis.ExperimentInputs,
    "experiment.json": analysis.ExperimentSeal,
    "analysis/words/selection.json": analysis.Selection,
    "analysis/words/subsets.json": analysis.FrozenSubsets,
    "analysis/words/coverage-config.json": analysis.CoverageConfig,
    "analysis/words/case-description.json": analysis.CaseDescription,
    "analysis/words/mutants/*.json": scores.MutantKills,
    "analysis/words/mutant-scores.json": scores.MutantScores,
    "analysis/words/coverage.json": coverage.CoverageRecord,
    "analysis/words/correlation.json": correlation.Correlation,
}


@pytest.mark.parametrize("pattern", MODELS)
def test_every_kind_of_record_is_read(pattern):
    paths = sorted((RECORDS / "v1").glob(pattern))
    assert paths
    for path in paths:
        assert read_record(path, MODELS[pattern]).schema_name == MODELS[pattern].SCHEMA


def test_every_sample_is_of_a_kind_that_is_tested():
    found = {path for pattern in MODELS for path in (RECORDS / "v1").glob(pattern)}
    assert found == set((RECORDS / "v1").rglob("*.json"))


def test_the_sample_says_what_it_said():
    root = EvidenceRoot(RECORDS / "v1")
    results = read_case_results(root, read_manifest(root, run_id="words"), "words")
    assert {name: found.rewards() for name, found in results.items()} == {
        "baseline": {"one": [1.0], "two": [1.0]},
        "control-1": {"one": [1.0], "two": [1.0]},
        "cut": {"one": [0.0], "two": [0.0]},
        "idle": {"one": [0.0], "two": [0.0]},
    }
    data = load_report(root)
    assert data.is_sealed
    assert data.seal is not None
    assert data.seal.native_validation == "done"


def test_an_older_schema_is_refused_with_the_version_that_wrote_it():
    path = RECORDS / "old" / "execution.json"
    with pytest.raises(EvidenceError) as refused:
        read_record(path, execution.ExecutionManifest)
    assert refused.value.exit_status == 3
    assert str(refused.value) == (
        f"{path}: schema is 'metric-benchmark/execution/v0', written by metric-benchmark 0.0.3; this version reads "
        "'metric-benchmark/execution/v1'"
    )
