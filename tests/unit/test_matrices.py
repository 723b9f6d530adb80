# SPDX-License-Identifier: Apache-2.0
"""Matrices of other tools: reading, refusals, the worked examples, and inputs made to break it."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metric_benchmark.config.models import CorrelationConfig, HypothesisConfig
from metric_benchmark.errors import ConfigError
from metric_benchmark.matrices import Matrix, analyze_matrix, read_matrices
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.scores import MutantScores

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "statistics.json").read_text())
FAST = CorrelationConfig(replicates=100, seed=1, hypotheses=(HypothesisConfig(metric="coverage", minimum_effect=0.1),))


def write(path, corner, rows, columns, cells):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([corner, *columns])
        writer.writerows([row, *values] for row, values in zip(rows, cells, strict=True))
    return path


def files(folder, membership, kills, cover, task=lambda i: f"t{i}"):
    membership, kills, cover = (np.asarray(m, dtype=object) for m in (membership, kills, cover))
    tasks = [task(i) for i in range(len(kills))]
    return (
        write(folder / "kills.csv", "task", tasks, [f"m{j}" for j in range(kills.shape[1])], kills),
        write(folder / "coverage.csv", "task", tasks, [f"i{j}" for j in range(cover.shape[1])], cover),
        write(folder / "subsets.csv", "subset", [f"s{k}" for k in range(len(membership))], tasks, membership),
    )


def analyze(folder, *matrices, settings=FAST, **more):
    return analyze_matrix(*read_matrices(*files(folder, *matrices, **more)), settings)


def no_nan(value):
    if isinstance(value, dict):
        return all(no_nan(v) for v in value.values())
    if isinstance(value, list):
        return all(no_nan(v) for v in value)
    return not (isinstance(value, float) and not math.isfinite(value))


@pytest.mark.parametrize("name", ["E1_basic", "E2_size_confound", "E3_constant", "E4_fixed_size"])
def test_worked_examples(tmp_path, name):
    example = REFERENCE[name]
    found = analyze(tmp_path, *(example[k] for k in ("subsets_x_tasks", "kill_tasks_x_mutants", "cover_tasks_x_items")))
    assert [s.score for s in found.scores.subsets.values()] == pytest.approx(example["mutation_score"], abs=1e-9)
    pairs = found.correlation.pairs
    undefined = isinstance(pairs[0].coverage["coverage"], Undefined)
    assert not undefined
    assert [p.coverage["coverage"] for p in pairs] == pytest.approx(example["coverage"], abs=1e-9)
    metric = found.correlation.metrics["coverage"]
    assert metric.verdict.verdict == "inconclusive"
    if example["stats"]["spearman"] is None:
        assert metric.verdict.reason == example["expected_status"]["reason"]
    assert found.correlation.case == "matrix"
    subsets = found.coverage.metrics["coverage"].subsets
    assert [s.coverage for s in subsets.values()] == pytest.approx(example["coverage"], abs=1e-9)
    for record, shape in (
        (found.scores, MutantScores), (found.coverage, CoverageRecord), (found.correlation, Correlation),
    ):  # fmt: skip
        assert shape.model_validate(record.to_json()) == record


def test_undetermined_cells_widen_the_bounds(tmp_path):
    found = analyze(tmp_path, [[1, 0], [1, 1]], [["1", ""], ["0", "0"]], [[1, 0], [0, 1]])
    assert [(s.score_low, s.score_high) for s in found.scores.subsets.values()] == [(0.5, 1.0), (0.5, 1.0)]
    assert found.scores.mutants["m1"].status == "undetermined"


def test_tasks_without_coverage_are_unmeasured(tmp_path):
    kills, coverage, subsets = files(tmp_path, [[1, 0, 0], [0, 1, 1], [1, 1, 0]], [[1], [0], [1]], [[1], [0], [1]])
    lines = coverage.read_text().splitlines()
    coverage.write_text("\n".join(lines[:3]))
    found = analyze_matrix(*read_matrices(kills, coverage, subsets), FAST)
    assert found.correlation.metrics["coverage"].left_out == {"s1": "not measured on t2"}
    assert found.coverage.metrics["coverage"].unmeasured_tasks == ["t2"]


def random_matrices(n_subsets, n_tasks, n_mutants, n_items, seed=1, kill=0.2):
    rng = np.random.default_rng(seed)
    membership = (rng.random((n_subsets, n_tasks)) < 0.3).astype(int)
    membership[:, 0] |= 1 - membership.any(axis=1)
    return membership, (rng.random((n_tasks, n_mutants)) < kill).astype(int), (
        rng.random((n_tasks, n_items)) < 0.2
    ).astype(int)  # fmt: skip


ADVERSARIAL = {
    "all killed": lambda: (random_matrices(20, 6, 5, 4)[0], np.ones((6, 5), int), random_matrices(20, 6, 5, 4)[2]),
    "none killed": lambda: (random_matrices(20, 6, 5, 4)[0], np.zeros((6, 5), int), random_matrices(20, 6, 5, 4)[2]),
    "one subset": lambda: random_matrices(1, 6, 5, 4),
    "one mutant": lambda: random_matrices(20, 6, 1, 4),
    "two tasks": lambda: random_matrices(20, 2, 5, 4),
    "one task": lambda: random_matrices(3, 1, 2, 2),
    "all subsets equal": lambda: (np.ones((10, 6), int), *random_matrices(20, 6, 5, 4)[1:]),
    "nothing covered": lambda: (*random_matrices(20, 6, 5, 4)[:2], np.zeros((6, 4), int)),
    "no items": lambda: (*random_matrices(20, 6, 5, 4)[:2], np.zeros((6, 0), int)),
    "undetermined everywhere": lambda: (
        random_matrices(20, 6, 5, 4)[0], np.full((6, 5), ""), random_matrices(20, 6, 5, 4)[2],
    ),
    "many tasks, three subsets": lambda: random_matrices(3, 1000, 20, 30),
    "coverage is the score": lambda: (*random_matrices(40, 25, 12, 4)[:2], random_matrices(40, 25, 12, 4)[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ADVERSARIAL))
def test_adversarial_inputs_give_a_result_or_a_reason(tmp_path, name):
    found = analyze(tmp_path, *ADVERSARIAL[name]())
    metric = found.correlation.metrics["coverage"]
    assert no_nan(found.correlation.to_json())
    assert no_nan(found.scores.to_json())
    assert metric.verdict.verdict in ("inconclusive", "supported", "refuted")
    for number in metric.estimates.model_dump().values():
        assert number["status"] == "ok" or number["reason"]
    if name not in ("many tasks, three subsets",):
        assert metric.verdict.verdict == "inconclusive"
        assert metric.verdict.explanation
        assert metric.verdict.remedy


@pytest.mark.parametrize(("name", "reason"), [
    ("all killed", "constant_mutation_score"),
    ("none killed", "constant_mutation_score"),
    ("one subset", "fewer_than_two_subsets"),
    ("all subsets equal", "constant_mutation_score"),
    ("nothing covered", "constant_coverage"),
    ("no items", "no_items"),
    ("undetermined everywhere", "constant_mutation_score"),
    ("one task", "constant_mutation_score"),
])  # fmt: skip
def test_reasons_of_adversarial_inputs(tmp_path, name, reason):
    assert analyze(tmp_path, *ADVERSARIAL[name]()).correlation.metrics["coverage"].verdict.reason == reason


def test_a_metric_that_is_the_score_itself_is_too_good_for_a_verdict(tmp_path):
    metric = analyze(tmp_path, *ADVERSARIAL["coverage is the score"]()).correlation.metrics["coverage"]
    assert metric.estimates.partial_spearman_given_size.value == pytest.approx(1.0)
    assert metric.interval is None
    assert "association is too close to 1" in metric.limits


def test_labels_are_free_text(tmp_path):
    labels = ['a "quoted", task', "naïve 測試\n2", "'; DROP TABLE", "t4", "  spaces inside  ok", "=1+1"]
    membership, kills, cover = random_matrices(12, 6, 4, 3)
    found = analyze(tmp_path, membership, kills, cover, task=lambda i: labels[i])
    assert found.scores.eligible_tasks == [label.strip() for label in labels]


@pytest.mark.parametrize(("content", "message"), [
    ("task,m\nt0,2\n", r"kills.csv:2, column 'm': found '2'; expected 1, 0 or nothing"),
    ("task,m\nt0,NaN\n", r"found 'NaN'; expected 1, 0 or nothing"),
    ("task,m\nt0,0.5\n", r"found '0.5'"),
    ("task,m\nt0\n", r"kills.csv:2: found 1 cells; expected 2"),
    ("task,m,m\nt0,1,0\n", r"column label given twice: 'm'"),
    ("task,m\nt0,1\nt0,0\n", r"row label given twice: 't0'"),
    ("task,m,\nt0,1,0\n", r"a column without a label"),
    ("", r"the file is empty"),
    ("task,m\n", r"a header and no rows"),
    ("task\nt0\nt1\n", r"found no mutant"),
    ('task,m\n"t0,1\n', r"not valid CSV"),
    ("task,m\nt0,1\n", r"subsets: 1 tasks that the kill matrix does not have: 't1'"),
])  # fmt: skip
def test_bad_files_are_refused_with_the_place(tmp_path, content, message):
    kills, coverage, subsets = files(tmp_path, [[1, 0], [1, 1]], [[1], [0]], [[1], [0]])
    kills.write_text(content)
    with pytest.raises(ConfigError, match=message) as error:
        analyze_matrix(*read_matrices(kills, coverage, subsets), FAST)
    assert error.value.exit_status == 2


def test_all_problems_are_reported_at_once(tmp_path):
    kills, coverage, subsets = files(tmp_path, [[1, 0], [1, "x"]], [[1], [2]], [[""], [0]])
    with pytest.raises(ConfigError) as error:
        read_matrices(kills, coverage, subsets)
    assert len(error.value.problems) == 3
    with pytest.raises(ConfigError, match="cannot be read"):
        read_matrices(tmp_path / "missing.csv", coverage, subsets)
    kills.write_bytes(b"task,m\nt0,\xff\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_matrices(kills, coverage, subsets)


def test_a_flood_of_problems_is_cut(tmp_path):
    kills, *_ = files(tmp_path, [[1, 0]], [[1], [0]], [[1], [0]])
    kills.write_text("task,m\n" + "".join(f"t{i},7\n" for i in range(100)))
    with pytest.raises(ConfigError, match="and 80 problems more"):
        Matrix.read(kills)


def test_empty_subsets_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="subset 's1' holds no task"):
        analyze(tmp_path, [[1, 0], [0, 0]], [[1], [0]], [[1], [0]])


def test_files_written_by_pandas_are_understood(tmp_path):
    frame = pd.DataFrame({"m": [1.0, None], "n": [0.0, 1.0]}, index=pd.Index(["a", "b"], name="task"))
    path = tmp_path / "kills.csv"
    frame.to_csv(path, encoding="utf-8-sig")
    read = Matrix.read(path, allow_empty=True)
    assert (read.rows, read.columns) == (("a", "b"), ("m", "n"))
    assert read.cells.tolist() == [[1, 0], [-1, 1]]


def test_frames_are_matrices_too():
    frame = pd.DataFrame([[True, False], [False, True]], index=["a", "b"], columns=["x", "y"])
    assert Matrix.from_frame(frame, "cover").cells.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ConfigError, match=r"kills\['a', 'x'\]: found '2'"):
        Matrix.from_frame(pd.DataFrame({"x": [2]}, index=["a"]), "kills")
    missing = pd.DataFrame({"x": [np.nan]}, index=["a"])
    assert Matrix.from_frame(missing, "kills", allow_empty=True).cells.tolist() == [[-1]]
    with pytest.raises(ConfigError, match="expected 1 or 0"):
        Matrix.from_frame(missing, "cover")


def test_claims_must_be_about_the_metric_called_coverage(tmp_path):
    other = CorrelationConfig(hypotheses=(HypothesisConfig(metric="lines", minimum_effect=0.1),))
    with pytest.raises(ConfigError, match="'lines'"):
        analyze(tmp_path, *random_matrices(10, 5, 4, 3), settings=other)


EXAMPLE = Path(__file__).parents[2] / "examples" / "matrix"


def test_the_example_is_what_its_script_makes(tmp_path):
    spec = importlib.util.spec_from_file_location("make_matrix", EXAMPLE / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    make.main(tmp_path)
    for name in ("kills.csv", "coverage.csv", "subsets.csv"):
        assert (tmp_path / name).read_text() == (EXAMPLE / name).read_text()


def test_the_examples_documented_verdict():
    found = analyze_matrix(*read_matrices(*(EXAMPLE / f"{n}.csv" for n in ("kills", "coverage", "subsets"))))
    metric = found.correlation.metrics["coverage"]
    assert (found.scores.n_mutants, found.scores.n_dominators, found.correlation.n_tasks) == (60, 17, 56)
    assert (metric.verdict.verdict, metric.verdict.minimum_shown) == ("supported", True)
    assert metric.finding == "which items"
    documented = (Path(__file__).parents[2] / "docs" / "matrices.md").read_text()
    for number in (
        metric.estimates.spearman.value, metric.estimates.partial_spearman_given_size.value,
        metric.calibrated.estimate, metric.calibrated.low, metric.calibrated.high,
        metric.practical.top_decile_gain.value,
    ):  # fmt: skip
        assert f"{number:.2f}".replace("0.", ".", 1) in documented
