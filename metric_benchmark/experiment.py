# SPDX-License-Identifier: Apache-2.0
"""The coordinator: opens a run and calls the stages in order; it decides nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.config import Experiment, Level, load_experiment
from metric_benchmark.config.fields import check_slug
from metric_benchmark.errors import ConfigError, ExecutionError
from metric_benchmark.evidence.index import check_run_id, open_root
from metric_benchmark.evidence.ledger import REMOVED, append_entry, removed_cases, restore_cases
from metric_benchmark.evidence.locks import lock_ledger, lock_root
from metric_benchmark.execution.interrupted import tidy_root
from metric_benchmark.execution.inventory import find_trials
from metric_benchmark.execution.runner import OnProgress, VariantRun, VariantSession
from metric_benchmark.execution.variant import Variant
from metric_benchmark.pipeline.checking import refuse_variants
from metric_benchmark.pipeline.correlation import correlate_case
from metric_benchmark.pipeline.coverage import measure_case
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.mutant_scores import score_subsets
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.pipeline.registration import register_claims
from metric_benchmark.pipeline.saved import evidence_root, require_own_execution
from metric_benchmark.pipeline.sealing import check_saved_execution, guard_analysis, seal_execution, seal_experiment
from metric_benchmark.pipeline.status import experiment_status
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.execution import Role
from metric_benchmark.records.role_times import RoleTime, role_times
from metric_benchmark.scoring import check_design
from metric_benchmark.variants import resolve_variants


@dataclass(frozen=True)
class EvalsDone:
    """What stage 1 came to: trials run now, trials kept from before, and when each role of each case ran."""

    n_run: int
    n_kept: int
    cost_usd: float | None
    times: Mapping[str, Mapping[Role, RoleTime]]


def open_run(
    path: Path | str,
    output: Path | str | None,
    *,
    results: Path | str | None = None,
    run_id: str | None = None,
    level: Level = "all",
    only: str | None = None,
) -> ExperimentRun:
    """Loads an experiment and names its evidence root; writes nothing.

    Args:
        path: `experiment.yaml` or its folder.
        output: the evidence root.
        results: saved evidence whose execution is analysed (default: that in `output`).
        run_id: names the run (default: the experiment's name).
        level: what of the experiment must be there.
        only: the one case that is looked at; see `load_experiment`.

    Raises:
        ConfigError: the experiment is wrong.
        EvidenceError: the root holds evidence of another run.
    """
    return name_run(load_experiment(path, level=level, only=only), output, results=results, run_id=run_id)


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

    More attempts, more tasks and more mutants change nothing that was paid for and are not listed. A case that is in
    the evidence but not in the files is: it was removed, or the evidence is another experiment's.
    """
    own = ", ".join(case.case_id for case in run.experiment.cases)
    differences = [
        f"case {case_id}: {run.root.path} holds trials of it, but the experiment's files do not have it (their cases: "
        f"{own}); if the evidence is another experiment's, give another --output"
        for case_id in foreign_cases(run)
    ]
    why = _Reasons(run)
    for variant in variants:
        if not run.root.variant(variant.case_id, variant.variant_id).is_dir():
            continue
        index = run.index(variant.case_id) if run.root.index(variant.case_id).exists() else None
        entry = index.variants.get(variant.variant_id) if index is not None else None
        if entry is not None and entry.config_hash == variant.config_hash:
            continue
        # The native trials, not the index: a run that was killed has paid for some that no index names.
        found = find_trials(run.root, variant.case_id, variant.variant_id, run.experiment.execution.reward_key)
        paid = {trial.task for trial in found if trial.counts and trial.task in variant.trial_keys}
        kept = {trial.task for trial in found if trial.counts and variant.trial_keys.get(trial.task) == trial.trial_key}
        changed = sorted(paid - kept)
        if changed:
            shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
            differences.append(f"{variant.key}: {why.of(variant)}; its trials of {shown} would be run again")
    return differences


class _Reasons:
    """Says what of variants changed, as `status` does; in general terms where no record tells.

    The status is that of the whole experiment, so it is asked for once, and only when something changed.
    """

    def __init__(self, run: ExperimentRun) -> None:
        self._run = run
        self._known: dict[str, str] | None = None

    def of(self, variant: Variant) -> str:
        if self._known is None:
            found = experiment_status(self._run)
            self._known = {s.key: s.reason for s in found if s.stage == "raw_results" and s.state == "stale"}
        return self._known.get(variant.key, "agent, operator, task, environment or timeouts changed")


def foreign_cases(run: ExperimentRun) -> list[str]:
    """Returns the cases evidence holds trials of though the experiment's files do not have them.

    Those whose removal was accepted once are not named again.
    """
    if len(run.experiment.cases) < len(run.experiment.cases_config.cases):
        return []  # Only some were loaded.
    known = {case.case_id for case in run.experiment.cases}
    found = {path.name for path in (run.root.execution_root / "execution").glob("*") if any(path.glob("*/"))} - known
    if found:
        found -= removed_cases(run.root)
    return sorted(found)


def note_removed_cases(run: ExperimentRun) -> None:
    """Remembers that cases were removed on purpose; what was run of them stays on disk."""
    for case_id in foreign_cases(run):
        with lock_ledger(run.root):
            append_entry(run.root, REMOVED, case=case_id)


def refuse_changes(run: ExperimentRun, variants: Iterable[Variant]) -> None:
    """Refuses to set aside what was paid for.

    Raises:
        ConfigError: inputs changed since the evidence was made; every variant that is concerned is named.
    """
    differences = changed_inputs(run, variants)
    if differences:
        raise ConfigError(
            [
                *differences,
                "nothing was run. Restore the inputs, or repeat with --accept-changes; old trials stay on disk",
            ]
        )


def run_evals(run: ExperimentRun, *, on_progress: OnProgress, accept_changes: bool = False) -> EvalsDone:
    """Stage 1 of the whole experiment; continues where it stopped, then seals.

    The variants of a case run one after another, or in turns of one attempt each where the settings say `interleave`;
    the last control runs last, so that what changes meanwhile shows as a control that is killed.

    Raises:
        ConfigError: inputs changed since the evidence was made and `accept_changes` is not set; or an agent or a task
            of any variant cannot run. Nothing was written then.
        ExecutionError: trials without a verdict remain, or the budget is reached; all variants are named.
        LockedError: another run uses the evidence.
    """
    require_own_execution(run.root)
    check_designs(run)
    variants = resolve_variants(run.experiment)
    if not accept_changes:
        refuse_changes(run, variants)
    refuse_variants(run, variants)
    with lock_root(run.root, "exclusive"):
        open_root(run.root, run.run_id, implementation("execution"))
        tidy_root(run.root)
        note_removed_cases(run)
        restore_cases(run.root, [case.case_id for case in run.experiment.cases])
        for case in run.experiment.cases:
            register_claims(run, case.case_id)
        done = [
            result
            for case in run.experiment.cases
            for result in _run_case(run, [v for v in variants if v.case_id == case.case_id], on_progress)
        ]
        stopped = [f"{r.results.case}|{r.results.variant}: {r.stopped}" for r in done if r.stopped]
        n_without = sum(result.results.n_without_verdict for result in done)
        if stopped and n_without > run.experiment.execution.max_trials_without_verdict:
            raise ExecutionError(["execution is incomplete; what has a verdict is kept:", *stopped])
        seal_execution(run)
    costs = [result.results.cost_usd for result in done if result.results.cost_usd is not None]
    return EvalsDone(
        n_run=sum(r.n_run for r in done),
        n_kept=sum(r.n_kept for r in done),
        cost_usd=sum(costs) if costs else None,
        times={
            case.case_id: role_times(r.results for r in done if r.results.case == case.case_id)
            for case in run.experiment.cases
        },
    )


def _run_case(run: ExperimentRun, variants: Sequence[Variant], on_progress: OnProgress) -> list[VariantRun]:
    """Runs the variants of one case."""
    first, last = run_order(variants)
    settings = run.experiment.execution

    def session(variant: Variant) -> VariantSession:
        return VariantSession(
            run.root,
            variant,
            settings,
            run_id=run.run_id,
            implementation=implementation("execution"),
            on_progress=on_progress,
        )

    done: list[VariantRun] = []
    with ExitStack() as stack:
        in_turns = [stack.enter_context(session(variant)) for variant in first] if settings.interleave else []
        for attempt in range(1, max((variant.attempts for variant in first), default=0) + 1):
            for turn in in_turns:
                turn.run(attempt)
                if turn is in_turns[0]:
                    _require_hope(turn)
        done += [turn.finish() for turn in in_turns]
    for variant in [*([] if settings.interleave else first), *last]:
        with session(variant) as alone:
            alone.run()
            _require_hope(alone)
            done.append(alone.finish())
    return done


def _require_hope(session: VariantSession) -> None:
    """Stops before other variants are paid for, when the baseline shows that no trial will have a verdict."""
    if session.variant.role == "baseline" and session.is_hopeless:
        run = session.finish()
        raise ExecutionError(
            [
                f"{session.variant.key}: {run.stopped}",
                "no trial of the baseline has a verdict; no other variant was run",
            ]
        )


def run_order(variants: Sequence[Variant]) -> tuple[list[Variant], list[Variant]]:
    """Splits a case's variants into those that run first, in their order, and the control that runs last."""
    last = [variant for variant in variants if variant.role == "control"][-1:]
    return [variant for variant in variants if variant not in last], last


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
