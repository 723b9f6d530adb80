# SPDX-License-Identifier: Apache-2.0
"""From the kill and cover matrices of any other tool to a verdict: CSV files or DataFrames in, records out."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metric_benchmark.config.models import CorrelationConfig, HypothesisConfig
from metric_benchmark.correlation import correlate
from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.hashing import digest_json, implementation_digest
from metric_benchmark.records.correlation import ChosenUsing, Correlation
from metric_benchmark.records.coverage import CoverageRecord, MetricCoverage, SubsetCoverage
from metric_benchmark.records.scores import Eligibility, KillRule, MutantKills, MutantScores, Outcome, TaskKill
from metric_benchmark.scoring import score_case

if TYPE_CHECKING:
    import pandas as pd

Cells = NDArray[np.int8]

CASE, METRIC = "matrix", "coverage"
UNDETERMINED = -1
_VALUES = {"1": 1, "0": 0, "1.0": 1, "0.0": 0}
_BOOLS = {"True": "1", "False": "0"}
_MAX_PROBLEMS = 20
_OUTCOMES: dict[int, Outcome] = {1: "killed", 0: "survived", UNDETERMINED: "undetermined"}
#: What is claimed where nothing else was registered: more coverage, higher score, by .1 at least.
DEFAULT_SETTINGS = CorrelationConfig(hypotheses=(HypothesisConfig(metric=METRIC, minimum_effect=0.1),))


@dataclass(frozen=True)
class Matrix:
    """A labelled matrix of 1, 0 and -1 (undetermined); labels are free text, unique on each side."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Cells

    @classmethod
    def read(cls, path: Path, *, allow_empty: bool = False) -> Matrix:
        """Reads a CSV file: a header of labels, then one labelled row per line.

        Args:
            path: the file, UTF-8.
            allow_empty: whether a cell may be empty (undetermined).

        Raises:
            ConfigError: the file cannot be read or is not such a matrix; all problems with their lines.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read as UTF-8 text ({error}); expected a CSV file") from None
        return _parse(text, str(path), allow_empty)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, name: str, *, allow_empty: bool = False) -> Matrix:
        """Takes a DataFrame of 1 and 0 (and, where allowed, missing cells), labelled by its index and columns.

        Raises:
            ConfigError: a cell is something else, or labels are not unique.
        """
        problems: list[Problem] = []
        values: list[list[Any]] = frame.astype(object).to_numpy().tolist()
        cells = np.zeros(frame.shape, dtype=np.int8)
        rows, columns = (tuple(map(str, labels)) for labels in (frame.index, frame.columns))
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                is_missing = value is None or value != value
                text = "" if is_missing else _BOOLS.get(str(value), str(value))
                cells[i, j] = _cell(text, f"{name}[{rows[i]!r}, {columns[j]!r}]", allow_empty, problems)
        _check_labels(rows, columns, name, problems)
        _raise(problems)
        return cls(rows, columns, cells)


def _parse(text: str, place: str, allow_empty: bool) -> Matrix:
    problems: list[Problem] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[str] = []
    lines: list[list[int]] = []
    header: list[str] | None = None
    try:
        for record in reader:
            if not any(field.strip() for field in record):
                continue
            if header is None:
                header = [field.strip() for field in record]
                continue
            where = f"{place}:{reader.line_num}"
            if len(record) != len(header):
                problems.append(Problem(where, f"found {len(record)} cells; expected {len(header)}, as in the header"))
                continue
            rows.append(record[0].strip())
            lines.append(
                [
                    _cell(field.strip(), f"{where}, column {label!r}", allow_empty, problems)
                    for field, label in zip(record[1:], header[1:], strict=True)
                ]
            )
    except csv.Error as error:
        problems.append(Problem(f"{place}:{reader.line_num}", f"not valid CSV: {error}"))
    if header is None:
        raise ConfigError(f"{place}: the file is empty; expected a header and one line per row")
    if not lines and not problems:
        problems.append(Problem(place, "found a header and no rows; expected one line per row"))
    columns = tuple(header[1:])
    _check_labels(rows, columns, place, problems)
    _raise(problems)
    return Matrix(tuple(rows), columns, np.array(lines, dtype=np.int8).reshape(len(rows), len(columns)))


def _cell(text: str, place: str, allow_empty: bool, problems: list[Problem]) -> int:
    if text == "" and allow_empty:
        return UNDETERMINED
    value = _VALUES.get(text)
    if value is None:
        expected = "1, 0 or nothing (undetermined)" if allow_empty else "1 or 0"
        problems.append(Problem(place, f"found {text!r}; expected {expected}"))
        return 0
    return value


def _check_labels(rows: Sequence[str], columns: Sequence[str], place: str, problems: list[Problem]) -> None:
    for what, labels in (("row", rows), ("column", columns)):
        twice = [label for label, n in Counter(labels).items() if n > 1]
        if twice:
            problems.append(Problem(place, f"{what} label given twice: {', '.join(map(repr, twice[:5]))}"))
        if "" in labels:
            problems.append(Problem(place, f"a {what} without a label; give every {what} one"))


def _raise(problems: list[Problem]) -> None:
    if len(problems) > _MAX_PROBLEMS:
        rest = len(problems) - _MAX_PROBLEMS
        problems = [*problems[:_MAX_PROBLEMS], Problem("", f"and {rest} problems more")]
    if problems:
        raise ConfigError(problems)


@dataclass(frozen=True)
class MatrixAnalysis:
    """The records of an analysis of matrices; the case is called `matrix`, the metric `coverage`."""

    scores: MutantScores
    coverage: CoverageRecord
    correlation: Correlation
    subsets: dict[str, list[str]]


def read_matrices(kills: Path, coverage: Path, subsets: Path) -> tuple[Matrix, Matrix, Matrix]:
    """Reads the three CSV files of `analyze-matrix`; problems of all three are reported together.

    Args:
        kills: header `task,<mutant>...`; cells 1, 0 or empty (undetermined).
        coverage: header `task,<item>...`; cells 1 or 0. Tasks without a line count as not measured.
        subsets: header `subset,<task>...`; cells 1 or 0.

    Raises:
        ConfigError: a file cannot be read or is not such a matrix.
    """
    found: list[Matrix] = []
    problems: list[Problem] = []
    for path, allow_empty in ((kills, True), (coverage, False), (subsets, False)):
        try:
            found.append(Matrix.read(path, allow_empty=allow_empty))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return found[0], found[1], found[2]


def analyze_matrix(
    kills: Matrix,
    coverage: Matrix,
    subsets: Matrix,
    settings: CorrelationConfig = DEFAULT_SETTINGS,
    *,
    chosen_using: ChosenUsing = "none",
    processes: int = 1,
) -> MatrixAnalysis:
    """Scores the subsets, pairs them with their coverage and gives the verdict.

    Args:
        kills: tasks x mutants.
        coverage: tasks x items.
        subsets: subsets x tasks.
        settings: replicates, seed, hypotheses about the metric `coverage`. Without any the claim is that more coverage
            goes with a higher score, by an association of at least .1 beyond size.
        chosen_using: what was looked at when the subsets were chosen.
        processes: worker processes; the result does not depend on it.

    Raises:
        ConfigError: the matrices do not speak of the same tasks, a subset is empty, or there is no mutant.
    """
    _check_fit(kills, coverage, subsets)
    members = {
        name: [subsets.columns[j] for j in np.flatnonzero(subsets.cells[i] == 1)] for i, name in enumerate(subsets.rows)
    }
    eligibility = Eligibility(
        screened=False,
        reason="kills were given as a matrix, so all tasks are eligible",
        min_pass_share=0.0,
        eligible_tasks=list(kills.rows),
    )
    scores = score_case(eligibility, _kill_records(kills), members)
    record = _coverage_record(coverage, kills.rows, members)
    found = correlate(
        scores,
        record.metrics,
        members,
        settings,
        np.random.default_rng(settings.seed),
        chosen_using=chosen_using,
        case=CASE,
        processes=processes,
    )
    return MatrixAnalysis(scores, record, found, members)


def _check_fit(kills: Matrix, coverage: Matrix, subsets: Matrix) -> None:
    known, problems = set(kills.rows), list[Problem]()
    if not kills.columns:
        problems.append(Problem("kills", "found no mutant; expected a header `task,<mutant>...`"))
    for name, labels in (("coverage", coverage.rows), ("subsets", subsets.columns)):
        unknown = [task for task in labels if task not in known]
        if unknown:
            shown = ", ".join(map(repr, unknown[:5])) + (" ..." if len(unknown) > 5 else "")
            problems.append(Problem(name, f"{len(unknown)} tasks that the kill matrix does not have: {shown}"))
    for i, name in enumerate(subsets.rows):
        if not (subsets.cells[i] == 1).any():
            problems.append(Problem("subsets", f"subset {name!r} holds no task; give it one or leave it out"))
    _raise(problems)


def _kill_records(kills: Matrix) -> list[MutantKills]:
    rule = KillRule(name="given", min_valid_attempts=0, pass_reward=1.0, is_controlled=False)
    # Records are frozen, so all cells of one outcome can be the same object.
    cell = {
        value: TaskKill(outcome=outcome, n_baseline=0, n_mutant=0, n_baseline_passed=0, n_mutant_passed=0)
        for value, outcome in _OUTCOMES.items()
    }
    records: list[MutantKills] = []
    for column, variant in enumerate(kills.columns):
        values: list[int] = kills.cells[:, column].tolist()
        by_outcome = {
            value: [task for task, found in zip(kills.rows, values, strict=True) if found == value]
            for value in _OUTCOMES
        }
        status: Outcome = "killed" if by_outcome[1] else "undetermined" if by_outcome[UNDETERMINED] else "survived"
        records.append(
            MutantKills(
                variant=variant,
                role="mutant",
                rule=rule,
                status=status,
                killed_by=by_outcome[1],
                undetermined_tasks=by_outcome[UNDETERMINED],
                tested_tasks=[task for task, found in zip(kills.rows, values, strict=True) if found >= 0],
                tasks={task: cell[found] for task, found in zip(kills.rows, values, strict=True)},
            )
        )
    return records


def _coverage_record(coverage: Matrix, tasks: Sequence[str], members: dict[str, list[str]]) -> CoverageRecord:
    items = {
        task: [coverage.columns[j] for j in np.flatnonzero(coverage.cells[i] == 1)]
        for i, task in enumerate(coverage.rows)
    }
    unmeasured = [task for task in tasks if task not in items]
    by_subset: dict[str, SubsetCoverage] = {}
    for name, names in members.items():
        missing = [task for task in names if task not in items]
        if missing or not coverage.columns:
            reason = f"not measured on {', '.join(missing)}" if missing else "no_items"
            by_subset[name] = SubsetCoverage.model_validate({"coverage": {"status": "undefined", "reason": reason}})
            continue
        covered = {item for task in names for item in items[task]}
        by_subset[name] = SubsetCoverage(
            coverage=len(covered) / len(coverage.columns),
            covered=[item for item in coverage.columns if item in covered],
        )
    metric = MetricCoverage(
        kind="items",
        items=list(coverage.columns),
        tasks=items,
        subsets=by_subset,
        unmeasured_tasks=unmeasured,
        unmeasured_reasons=dict.fromkeys(unmeasured, "no line in the coverage matrix"),
        metric="matrix",
        settings={},
        code_sha256=implementation_digest("matrices.py"),
        request_sha256=digest_json([coverage.rows, coverage.columns, coverage.cells.tolist()]),
    )
    return CoverageRecord(case_id=CASE, metrics={METRIC: metric})
