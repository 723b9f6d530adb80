# SPDX-License-Identifier: Apache-2.0
"""Asset checks: what a green asset promises, by partition where that makes sense.

An error says that a result is not all there or cannot be trusted; a warning, that it holds and is to be read with care.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg

from metric_benchmark.errors import EvidenceError, ExecutionError
from metric_benchmark.evidence.locks import lock_variant
from metric_benchmark.evidence.reader import read_raw_results, read_record
from metric_benchmark.execution.task_digests import digests_of_task
from metric_benchmark.execution.validation import validate_variant
from metric_benchmark.pipeline.sealing import complete_inventory
from metric_benchmark.pipeline.status import PartitionStatus, experiment_status
from metric_benchmark.records.correlation import Correlation, Verdict
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.scores import MutantScores
from metric_benchmark_dagster.metadata import Metadata, table
from metric_benchmark_dagster.partitions import PartitionKeys, split_key
from metric_benchmark_dagster.resources import ExperimentResource, Step

UP_TO_DATE = "up_to_date"
_ERROR, _WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN

type Checks = list[dg.AssetChecksDefinition]
type Finding = Callable[[Step, str], dg.AssetCheckResult]


def build_checks(keys: PartitionKeys, key_prefix: Sequence[str]) -> Checks:
    """Makes the checks of an experiment."""
    variants, cases = keys.variant_partitions, keys.case_partitions
    prefix = list(key_prefix)
    return [
        _check(prefix, "raw_results", "native_evidence_valid", variants, native_evidence_valid,
               "Harbor's own files are what was recorded of them, and no trial is there that nobody asked for."),
        _check(prefix, "subset_scores", "controls_survive", cases, controls_survive,
               "No task tells a control, the baseline run again, from the baseline: what kills a control is noise."),
        _check(prefix, "subset_scores", "baseline_reliable", cases, baseline_reliable,
               "The baseline passes every task often enough in the screening run for the task to be tested."),
        _check(prefix, "coverage", "metric_not_constant", cases, metric_not_constant,
               "Every metric tells at least two subsets apart; one that does not cannot correlate with anything."),
        _check(prefix, "correlation", "hypothesis_verdict", cases, hypothesis_verdict,
               "What was claimed before the data is supported."),
        _check(prefix, "execution_manifest", "inventory_complete", None, inventory_complete,
               "Every variant of every case has its results under today's inputs."),
        _check(prefix, "report", UP_TO_DATE, None, up_to_date,
               "Nothing is missing, failed or stale: the same answer as `metric-benchmark status`."),
    ]  # fmt: skip


def _check(
    prefix: list[str],
    asset: str,
    name: str,
    partitions: dg.PartitionsDefinition[Any] | None,
    find: Finding,
    description: str,
) -> dg.AssetChecksDefinition:
    with _preview_accepted():

        @dg.asset_check(
            asset=dg.AssetKey([*prefix, asset]), name=name, description=description, partitions_def=partitions
        )
        def check(context: dg.AssetCheckExecutionContext, experiment: ExperimentResource) -> dg.AssetCheckResult:
            with experiment.step(lock=None) as step:
                return find(step, context.partition_key if partitions is not None else "")

    return check


@contextmanager
def _preview_accepted() -> Generator[None]:
    """Partitions of checks are marked preview; without them one case's result would hide another's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield


def native_evidence_valid(step: Step, key: str) -> dg.AssetCheckResult:
    """Compares a variant's record with its native folders again."""
    run = step.run
    case_id, variant_id = split_key(key)
    case = run.experiment.case(case_id)
    with lock_variant(run.root, case_id, variant_id):
        try:
            results = read_raw_results(run.root, run.index(case_id), variant_id)
        except EvidenceError as error:
            return _result(False, _ERROR, "its record cannot be read", problems=error.problems)
        tasks = {
            task.id: digests_of_task(
                task.id, case.path_of(task), task.sha256 or "", [t for t in results.trials if t.task == task.id]
            )
            for task in case.config.tasks
        }
        check = validate_variant(run.root, results, tasks, reward_key=run.experiment.execution.reward_key)
    if check.problems:
        return _result(False, _ERROR, f"{len(check.problems)} deviations", problems=check.problems)
    return _result(True, _ERROR, f"{len(results.trials)} trials are what was recorded", n_trials=len(results.trials))


def controls_survive(step: Step, case_id: str) -> dg.AssetCheckResult:
    """Looks for controls that were killed."""
    scores = read_record(step.run.root.mutant_scores(case_id), MutantScores)
    killed = [name for name, control in scores.controls.items() if control.status == "killed"]
    counts: Metadata = {"n_controls": len(scores.controls), "n_killed": len(killed)}
    if scores.noise.is_blocking:
        return _result(False, _ERROR, f"kills are noise: {scores.noise.reason}", **counts)
    if killed:
        return _result(False, _WARN, f"killed: {', '.join(killed)}; so much of the kills is noise", **counts)
    if not scores.controls:
        return _result(False, _WARN, "there is no control, so nothing says how much of the kills is noise", **counts)
    return _result(True, _WARN, "every control survived", **counts)


def baseline_reliable(step: Step, case_id: str) -> dg.AssetCheckResult:
    """Looks for tasks at which the baseline itself is not reliable."""
    scores = read_record(step.run.root.mutant_scores(case_id), MutantScores)
    left_out = scores.eligibility.ineligible
    counts: Metadata = {"n_eligible_tasks": len(scores.eligible_tasks), "n_left_out": len(left_out)}
    if not scores.eligible_tasks:
        return _result(False, _ERROR, "no task is reliable enough to be tested", **counts)
    if left_out:
        reasons = "; ".join(f"{task}: {reason}" for task, reason in left_out.items())
        return _result(False, _WARN, f"left out: {reasons}", **counts)
    if not scores.eligibility.screened:
        return _result(False, _WARN, f"not screened: {scores.eligibility.reason}", **counts)
    return _result(True, _WARN, "every task is reliable", **counts)


def metric_not_constant(step: Step, case_id: str) -> dg.AssetCheckResult:
    """Looks for metrics that give every subset the same coverage, or none at all."""
    record = read_record(step.run.root.coverage(case_id), CoverageRecord)
    spread = {
        name: {found.coverage for found in metric.subsets.values() if isinstance(found.coverage, float)}
        for name, metric in record.metrics.items()
    }
    constant = [name for name, values in spread.items() if len(values) < 2]
    rows = [
        [name, len(values), min(values, default=None), max(values, default=None)] for name, values in spread.items()
    ]
    shown = table(
        {
            "metric": ("string", "the metric's label"),
            "n_values": ("int", "different coverages over the subsets"),
            "least": ("float", "the smallest"),
            "most": ("float", "the largest"),
        },
        rows,
    )
    text = f"constant over the subsets: {', '.join(constant)}" if constant else "every metric tells subsets apart"
    return _result(not constant, _WARN, text, n_metrics=len(spread), metrics=shown)


def hypothesis_verdict(step: Step, case_id: str) -> dg.AssetCheckResult:
    """Reads what became of the claims; nothing claimed is nothing to warn of."""
    record = read_record(step.run.root.correlation(case_id), Correlation)
    claims = {name: m.verdict for name, m in record.metrics.items() if m.verdict.minimum_effect is not None}
    if record.blocked is not None:
        return _result(False, _ERROR, f"blocked: {record.blocked}", n_claims=len(claims))
    if not claims:
        return _result(True, _WARN, "nothing was claimed before the data; associations are exploratory", n_claims=0)
    shown = "; ".join(f"{name}: {_verdict(verdict)}" for name, verdict in claims.items())
    is_blocked = any(verdict.verdict == "blocked" for verdict in claims.values())
    passed = all(verdict.verdict == "supported" for verdict in claims.values())
    return _result(passed, _ERROR if is_blocked else _WARN, shown, n_claims=len(claims))


def _verdict(verdict: Verdict) -> str:
    return verdict.verdict.replace("_", " ") + (f" ({verdict.reason})" if verdict.reason else "")


def inventory_complete(step: Step, _: str) -> dg.AssetCheckResult:
    """Looks for variants without results under today's inputs."""
    try:
        manifest = complete_inventory(step.run)
    except (ExecutionError, EvidenceError) as error:
        return _result(False, _ERROR, f"{len(error.problems)} open", problems=error.problems)
    return _result(True, _ERROR, f"all variants of {len(manifest.cases)} cases are there", n_cases=len(manifest.cases))


def up_to_date(step: Step, _: str) -> dg.AssetCheckResult:
    """Asks the freshness authority."""
    passed, description, metadata = describe_freshness(experiment_status(step.run))
    return dg.AssetCheckResult(passed=passed, severity=_WARN, description=description, metadata=metadata)


def describe_freshness(status: Iterable[PartitionStatus]) -> tuple[bool, str, Metadata]:
    """Says whether everything is fresh, in a sentence and as metadata with what is not."""
    found = list(status)
    counts = Counter(partition.state for partition in found)
    open_ = [partition for partition in found if partition.state != "fresh"]
    text = ", ".join(f"{n} {state}" for state, n in sorted(counts.items())) or "nothing to compute"
    shown = table(
        {
            "stage": ("string", "the asset"),
            "partition": ("string", "case|variant, or case"),
            "state": ("string", "missing, failed or stale"),
            "reason": ("string", "why"),
        },
        [[partition.stage, partition.key, partition.state, partition.reason] for partition in open_],
    )
    metadata: Metadata = {f"n_{state}": counts[state] for state in ("fresh", "stale", "failed", "missing")}
    return not open_, text, metadata | ({"not_fresh": shown} if open_ else {})


def _result(
    passed: bool, severity: dg.AssetCheckSeverity, description: str, *, problems: Iterable[Any] = (), **metadata: Any
) -> dg.AssetCheckResult:
    listed = "\n".join(f"- {problem}" for problem in problems)
    return dg.AssetCheckResult(
        passed=passed,
        severity=severity,
        description=description,
        metadata=metadata | ({"problems": dg.MetadataValue.md(listed)} if listed else {}),
    )
