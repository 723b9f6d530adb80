# SPDX-License-Identifier: Apache-2.0
"""The coordinator: opens a run and calls the stages in order; it decides nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.config import Experiment, Level, load_experiment
from metric_benchmark.config.fields import check_slug
from metric_benchmark.errors import ConfigError, ExecutionError
from metric_benchmark.evidence.index import check_run_id, open_root
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.execution.runner import OnProgress, VariantRun, run_variant
from metric_benchmark.execution.variant import Variant
from metric_benchmark.pipeline.correlation import correlate_case
from metric_benchmark.pipeline.coverage import measure_case
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.mutant_scores import score_subsets
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.pipeline.saved import evidence_root, require_own_execution
from metric_benchmark.pipeline.sealing import check_saved_execution, guard_analysis, seal_execution, seal_experiment
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.scoring import check_design
from metric_benchmark.variants import resolve_variants


@dataclass(frozen=True)
class EvalsDone:
    """What stage 1 came to: trials run now, trials kept from before."""

    n_run: int
    n_kept: int
    cost_usd: float | None


def open_run(
    path: Path | str,
    output: Path | str | None,
    *,
    results: Path | str | None = None,
    run_id: str | None = None,
    level: Level = "all",
) -> ExperimentRun:
    """Loads an experiment and names its evidence root; writes nothing.

    Args:
        path: `experiment.yaml` or its folder.
        output: the evidence root.
        results: saved evidence whose execution is analysed (default: that in `output`).
        run_id: names the run (default: the experiment's name).
        level: what of the experiment must be there.

    Raises:
        ConfigError: the experiment is wrong.
        EvidenceError: the root holds evidence of another run.
    """
    return name_run(load_experiment(path, level=level), output, results=results, run_id=run_id)


def name_run(
    experiment: Experiment, output: Path | str | None, *, results: Path | str | None = None, run_id: str | None = None
) -> ExperimentRun:
    """Names the evidence root of a loaded experiment; see `open_run`."""
    root = evidence_root(Path(output) if output else None, Path(results) if results else None)
    run = ExperimentRun(experiment, root, check_slug(run_id, "the run id") if run_id else experiment.name)
    check_run_id(run.root, run.run_id)
    return run


def check_designs(run: ExperimentRun) -> list[str]:
    """Refuses a design that cannot kill at all; returns the warnings of those that hardly can.

    Raises:
        ConfigError: the smallest p-value a case's attempts allow exceeds alpha.
    """
    roles, scoring = run.experiment.execution.roles, run.experiment.analysis.scoring
    checks = {
        case.case_id: check_design(
            scoring,
            n_baseline=roles.baseline.attempts,
            n_mutant=roles.mutant.attempts,
            n_tasks=len(case.config.tasks),
        )
        for case in run.experiment.cases
    }
    refusals = dict.fromkeys(check.refusal for check in checks.values() if check.refusal)
    if refusals:
        source = run.experiment.analysis_source
        raise ConfigError([source.problem(("scoring", "kill_rule"), refusal) for refusal in refusals])
    return [f"{case_id}: {check.warning}" for case_id, check in checks.items() if check.warning]


def changed_inputs(run: ExperimentRun, variants: Iterable[Variant]) -> list[str]:
    """Lists what was paid for and would be set aside, because what decides a trial's outcome has changed.

    More attempts, more tasks and more mutants change nothing that was paid for and are not listed.
    """
    from metric_benchmark.evidence.reader import read_raw_results

    differences: list[str] = []
    for variant in variants:
        if not run.root.index(variant.case_id).exists():
            continue
        index = run.index(variant.case_id)
        entry = index.variants.get(variant.variant_id)
        if entry is None or entry.config_hash == variant.config_hash:
            continue
        old = read_raw_results(run.root, index, variant.variant_id)
        changed = sorted({t.task for t in old.trials if variant.trial_keys.get(t.task, t.trial_key) != t.trial_key})
        if changed:
            shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
            differences.append(
                f"{variant.key}: agent, operator, task, environment or timeouts changed; its trials of {shown} "
                "would be run again"
            )
    return differences


def run_evals(run: ExperimentRun, *, on_progress: OnProgress, accept_changes: bool = False) -> EvalsDone:
    """Stage 1 of the whole experiment, one variant after another; continues where it stopped, then seals.

    Raises:
        ConfigError: inputs changed since the evidence was made and `accept_changes` is not set.
        ExecutionError: trials without a verdict remain, or the budget is reached; all variants are named.
        LockedError: another run uses the evidence.
    """
    require_own_execution(run.root)
    check_designs(run)
    variants = resolve_variants(run.experiment)
    differences = [] if accept_changes else changed_inputs(run, variants)
    if differences:
        raise ConfigError(
            [
                *differences,
                "nothing was run. Restore the inputs, or repeat with --accept-changes; old trials stay on disk",
            ]
        )
    with lock_root(run.root, "exclusive"):
        open_root(run.root, run.run_id, implementation("execution"))
        done: list[VariantRun] = []
        stopped: list[str] = []
        for variant in variants:
            result = run_variant(
                run.root,
                variant,
                run.experiment.execution,
                run_id=run.run_id,
                implementation=implementation("execution"),
                on_progress=on_progress,
            )
            done.append(result)
            if result.stopped:
                stopped.append(f"{variant.key}: {result.stopped}")
        n_without = sum(result.results.n_without_verdict for result in done)
        if stopped and n_without > run.experiment.execution.max_trials_without_verdict:
            raise ExecutionError(["execution is incomplete; what has a verdict is kept:", *stopped])
        seal_execution(run)
    costs = [result.results.cost_usd for result in done if result.results.cost_usd is not None]
    return EvalsDone(sum(r.n_run for r in done), sum(r.n_kept for r in done), sum(costs) if costs else None)


def analyse(run: ExperimentRun, *, replay: bool = False, on_case: Callable[[str], None] = lambda _: None) -> None:
    """Stages 2 to 4 of every case, on evidence whose manifest was checked."""
    guard_analysis(run, check_saved_execution(run))
    for case in run.experiment.cases:
        on_case(case.case_id)
        score_subsets(run, case.case_id)
        measure_case(run, case.case_id, replay=replay)
        correlate_case(run, case.case_id)


def run_experiment(
    run: ExperimentRun,
    *,
    on_progress: OnProgress,
    accept_changes: bool = False,
    replay: bool = False,
) -> ExperimentSeal:
    """All four stages and the seal; see `run_evals` and `analyse` for what they raise."""
    run_evals(run, on_progress=on_progress, accept_changes=accept_changes)
    return analyse_saved(run, replay=replay)


def analyse_saved(
    run: ExperimentRun, *, replay: bool = False, on_case: Callable[[str], None] = lambda _: None
) -> ExperimentSeal:
    """Stages 2 to 4 and the seal on saved evidence; task folders and bundles are not needed."""
    check_saved_execution(run)
    with lock_root(run.root, "exclusive"):
        analyse(run, replay=replay, on_case=on_case)
        return seal_experiment(run)
