# SPDX-License-Identifier: Apache-2.0
"""Commands that analyse saved evidence, one stage each: `score`, `cover`, `correlate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from metric_benchmark.cli.console import note, say, say_json, say_table, warn
from metric_benchmark.cli.options import (
    AnalysisOutputOption,
    CaseOption,
    ExperimentArgument,
    JsonOption,
    ReplayOption,
    ResultsOption,
    RunIdOption,
)
from metric_benchmark.cli.working import working

if TYPE_CHECKING:
    from metric_benchmark.pipeline import ExperimentRun
    from metric_benchmark.records.base import Record
    from metric_benchmark.records.correlation import Correlation
    from metric_benchmark.records.scores import MutantStatus


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Stage 2: kills and mutant scores of saved evidence.",
        epilog="Example: metric-benchmark score my-experiment --results runs/mine",
    )(score)
    app.command(
        short_help="Stage 3: coverage of saved baseline traces.",
        epilog="Example: metric-benchmark cover my-experiment --results runs/mine --replay",
    )(cover)
    app.command(
        short_help="Stage 4: correlate coverage with mutant score.",
        epilog="Example: metric-benchmark correlate my-experiment --results runs/mine --case errands",
    )(correlate)


def score(
    experiment: ExperimentArgument,
    results: ResultsOption,
    output: AnalysisOutputOption = None,
    case: CaseOption = None,
    run_id: RunIdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Scores saved evidence (stage 2): which tasks kill which mutants, and every subset's mutant score."""
    from metric_benchmark.cli.showing import shorten
    from metric_benchmark.pipeline import score_subsets

    scored = _each_case(experiment, results, output, case, run_id, score_subsets)
    if as_json:
        _say_records(scored)
        return
    for case_id, record in scored.items():
        say(f"case {case_id}: {record.n_mutants} mutants, {record.n_dominators} dominators")
        found = {name: (status, _flags(status)) for name, status in record.mutants.items()}
        found |= {name: (status, "control: every kill of it is noise") for name, status in record.controls.items()}
        rows = [
            [name, status.status, len(status.killed_by), shorten(status.killed_by, 4), notes]
            for name, (status, notes) in found.items()
        ]
        say_table(["variant", "status", "kills", "killed by", "notes"], rows)
        say(f"{len(record.subsets)} subsets scored; eligible tasks: {len(record.eligible_tasks)}")
        for message in record.warnings:
            warn(f"{case_id}: {message}")
        say()


def cover(
    experiment: ExperimentArgument,
    results: ResultsOption,
    output: AnalysisOutputOption = None,
    case: CaseOption = None,
    replay: ReplayOption = False,
    run_id: RunIdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measures the coverage of saved baseline traces (stage 3), by every metric of the analysis."""
    from metric_benchmark.pipeline import measure_case
    from metric_benchmark.records.base import Undefined

    measured = _each_case(
        experiment, results, output, case, run_id, lambda run, case_id: measure_case(run, case_id, replay=replay)
    )
    if as_json:
        _say_records(measured)
        return
    for case_id, record in measured.items():
        say(f"case {case_id}")
        rows: list[list[object]] = []
        for name, metric in record.metrics.items():
            values = [s.coverage for s in metric.subsets.values() if not isinstance(s.coverage, Undefined)]
            low, high = (min(values), max(values)) if values else (None, None)
            items = len(metric.items) if metric.kind == "items" else None
            rows.append([name, items, len(values), low, high, len(metric.unmeasured_tasks), metric.label or ""])
        say_table(["metric", "items", "subsets", "lowest", "highest", "unmeasured tasks", "label"], rows)
        say()


def correlate(
    experiment: ExperimentArgument,
    results: ResultsOption,
    output: AnalysisOutputOption = None,
    case: CaseOption = None,
    run_id: RunIdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Correlates coverage with mutant score (stage 4); `score` and `cover` come first."""
    from metric_benchmark.correlation import conclude
    from metric_benchmark.pipeline import correlate_case
    from metric_benchmark.records.base import Undefined

    found = _each_case(experiment, results, output, case, run_id, correlate_case)
    if case is None:
        # The records keep what each case says alone; with all of them at hand the claims are one family.
        found = conclude(found)
    elif any(_has_others(record) for record in found.values()):
        note("verdicts of one case alone: other cases' p-values count as 1 until all are correlated")
    if as_json:
        _say_records(found)
        return
    for case_id, record in found.items():
        say(f"case {case_id}: {record.n_subsets} subsets, {record.n_tasks} tasks, {record.n_mutants} mutants")
        rows: list[list[object]] = []
        for name, metric in record.metrics.items():
            numbers = (metric.estimates.spearman, metric.estimates.partial_spearman_given_size)
            shown = [f"undefined ({n.reason})" if isinstance(n, Undefined) else n.value for n in numbers]
            rows.append([name, *shown, metric.verdict.verdict, metric.verdict.reason])
        say_table(["metric", "rho", "partial rho", "verdict", "reason"], rows)
        for message in record.warnings:
            warn(f"{case_id}: {message}")
        say()


def _has_others(record: Correlation) -> bool:
    """Whether claims were adjusted for those of other cases, too."""
    claims = [metric.verdict.n_family for metric in record.metrics.values() if metric.verdict.n_family]
    return any(n > len(claims) for n in claims)


def _each_case[R: Record](
    experiment: Path,
    results: Path,
    output: Path | None,
    case_id: str | None,
    run_id: str | None,
    stage: Callable[[ExperimentRun, str], R],
) -> dict[str, R]:
    """Runs a stage on one case or all of them, after the saved evidence was checked."""
    from metric_benchmark.evidence.locks import lock_root
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.sealing import check_saved_execution, guard_analysis

    run = open_run(experiment, output, results=results, run_id=run_id, level="analysis")
    wanted = [run.experiment.case(case_id)] if case_id else list(run.experiment.cases)
    manifest = check_saved_execution(run)
    with lock_root(run.root, "exclusive"), working() as tell:
        guard_analysis(run, manifest)
        found: dict[str, R] = {}
        for case in wanted:
            tell(f"analysing case {case.case_id}")
            found[case.case_id] = stage(run, case.case_id)
    return found


def _say_records(records: Mapping[str, Record]) -> None:
    say_json({"cases": {case_id: record.to_json() for case_id, record in records.items()}})


def _flags(found: MutantStatus) -> str:
    flags = {
        "trivial": found.is_trivial,
        "dominator": found.is_dominator,
        "inert": found.is_inert is True,
        "never killed": found.is_never_killed and found.is_inert is not True,
        f"duplicate of {found.duplicate_of}": found.duplicate_of is not None,
    }
    return ", ".join(name for name, is_set in flags.items() if is_set)
