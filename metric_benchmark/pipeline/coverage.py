# SPDX-License-Identifier: Apache-2.0
"""Stage 3 on an evidence root: a case's coverage by every configured metric."""

from __future__ import annotations

from collections.abc import Sequence

from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.registry import MetricSpec
from metric_benchmark.coverage.traces import BaselineTrial
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_raw_results, read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.pipeline.inputs import CaseInputs, ExperimentRun, raw_digests
from metric_benchmark.pipeline.provenance import Provenance
from metric_benchmark.pipeline.saved import recall_answers
from metric_benchmark.pipeline.wanted import coverage_inputs
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.execution import RawResults


def measure_case(run: ExperimentRun, case_id: str, *, replay: bool = False) -> CoverageRecord:
    """Stage 3 of a case: its coverage by every configured metric.

    Args:
        run: the experiment and its evidence.
        case_id: the case.
        replay: only cached answers count; no metric command is launched.

    Raises:
        EvidenceError: the baseline's results or a trajectory are missing or damaged.
        MetricError: a metric failed, or `replay` found no cached answer.
    """
    inputs = run.inputs(case_id)
    index = run.index(case_id)
    metrics = [MetricSpec(**metric) for metric in inputs.metrics.metrics]
    record = measure_metrics(run, inputs, metrics, replay=replay)
    provenance = Provenance(
        "coverage",
        {
            **coverage_inputs(inputs),
            **{f"code:{name}": metric.code_sha256 for name, metric in record.metrics.items()},
        },
        raw_digests(index, "baseline"),
    )
    record = record.model_copy(update=provenance.fields())
    path = run.root.coverage(case_id)
    if path.exists() and read_record(path, CoverageRecord) == record:
        return record
    write_record(path, record)
    return record


def measure_metrics(
    run: ExperimentRun, inputs: CaseInputs, metrics: Sequence[MetricSpec], *, replay: bool = False
) -> CoverageRecord:
    """Measures a case's coverage by some metrics; writes nothing but the answers it may be asked for again.

    For arguments and errors see `measure_case`.
    """
    case_id = inputs.selection.case
    baseline = read_raw_results(run.root, run.index(case_id), "baseline")
    recall_answers(run, case_id)
    return measure_coverage(
        case_id,
        tasks=inputs.selection.tasks,
        baseline=[_baseline_trial(run.root, baseline, i) for i in range(len(baseline.trials))],
        subsets=inputs.subset_tasks,
        description=inputs.description.description,
        metrics=metrics,
        cache=run.root.answers(case_id),
        replay=replay,
        base=run.experiment.analysis_source.path.parent,
        roots=run.experiment.roots,
        # What a metric must not know lies below these: kills, scores, other variants' traces.
        hide=(run.root.path, run.root.execution_path or run.root.path, run.experiment.folder),
    )


def _baseline_trial(root: EvidenceRoot, results: RawResults, number: int) -> BaselineTrial:
    trial = results.trials[number]
    return BaselineTrial(
        task=trial.task,
        attempt=trial.attempt,
        status=trial.status,
        folder=root.trial(results.case, results.variant, trial.folder, trial.run, trial.trial),
        trajectory_sha256=trial.trajectory_sha256,
    )
