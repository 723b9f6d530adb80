# SPDX-License-Identifier: Apache-2.0
"""Runs what a proof needs, oracle and nop in a root of their own, all else as trials of the experiment; then judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from metric_benchmark.config import Case, Experiment
from metric_benchmark.config.models import (
    AgentSpec,
    BaselineConfig,
    BudgetConfig,
    MutantConfig,
    OperatorSpec,
    RoleConfig,
    RolesConfig,
)
from metric_benchmark.coverage.registry import MetricSpec
from metric_benchmark.errors import ConfigError, MetricBenchmarkError, MetricError
from metric_benchmark.evidence.layout import PROBES, EvidenceRoot
from metric_benchmark.evidence.reader import read_raw_results
from metric_benchmark.execution.runner import OnProgress, VariantRun
from metric_benchmark.execution.runtimes import cache_folder
from metric_benchmark.execution.stopping import correct_tests, silent_verifier
from metric_benchmark.execution.variant import Variant
from metric_benchmark.experiment import changed_inputs, note_removed_cases
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline import ExperimentRun, run_raw_results
from metric_benchmark.pipeline.coverage import measure_metrics
from metric_benchmark.pipeline.inertness import compare_with_baseline
from metric_benchmark.pipeline.inputs import CaseInputs, case_inputs
from metric_benchmark.pipeline.saved import evidence_root, require_own_execution
from metric_benchmark.proof.findings import (
    Finding,
    Proof,
    Rewards,
    check_controls,
    check_metric,
    check_nop,
    check_oracle,
    check_reliability,
    check_subsets,
)
from metric_benchmark.records.execution import RawResults
from metric_benchmark.variants import resolve_variants, variant_roles

#: Oracle and nop are no variants of the experiment; their trials go below `PROBES`.
_ORACLE, _NOP = "baseline", "nop"


def proof_root(experiment: Experiment, output: Path | None) -> EvidenceRoot:
    """Returns where a proof's trials go: the evidence root given, or one in the user's cache."""
    if output is not None:
        return evidence_root(output)
    place = digest_json(str(experiment.source.path))[:12]
    return EvidenceRoot(cache_folder() / "verify" / f"{experiment.name}-{place}")


def prove(
    run: ExperimentRun, on_progress: OnProgress, *, case_id: str | None = None, accept_changes: bool = False
) -> Proof:
    """Runs the trials that are missing and judges every case, or one.

    Baseline, screening and controls are trials of the experiment: in its own evidence root they are kept when it is
    run, and those it has are not run again. Mutants are not run; those that were are looked at.

    Raises:
        ConfigError: an agent is refused, or inputs have changed since the evidence was made and `accept_changes` is not
            set; nothing was run then.
    """
    require_own_execution(run.root)
    variants = [v for v in resolve_variants(run.experiment, case_id=case_id) if v.role != "mutant"]
    differences = [] if accept_changes else changed_inputs(run, variants)
    if differences:
        raise ConfigError(
            [*differences, "nothing was run. Restore the inputs, give another --output, or say --accept-changes"]
        )
    note_removed_cases(run)
    probes = _probes(run)
    done: list[VariantRun] = []
    findings: list[Finding] = []
    for case in run.experiment.cases if case_id is None else [run.experiment.case(case_id)]:
        rewards: dict[str, Rewards] = {}
        own: list[RawResults] = []
        asked: list[list[_Open]] = []
        for name, probe in (("oracle", _ORACLE), ("nop", _NOP)):
            done.append(run_raw_results(probes, case.case_id, probe, _named(f"{case.case_id}|{name}", on_progress)))
            rewards[name] = done[-1].results.rewards()
            asked.append(_without_verdict(probes, done[-1].results))
        for variant in (v for v in variants if v.case_id == case.case_id):
            done.append(run_raw_results(run, case.case_id, variant.variant_id, on_progress))
            own.append(done[-1].results)
            rewards[variant.variant_id] = own[-1].rewards()
        lacking = {("oracle", t.task): t for t in asked[0]} | {("nop", t.task): t for t in asked[1]}
        lacking |= {("reliable", t.task): t for results in own for t in _without_verdict(run, results)}
        judged = [
            _explained(finding, lacking.get((finding.check, finding.subject))) for finding in _judge(run, case, rewards)
        ]
        findings += [*judged, *_errors(run, own)]
    return Proof(tuple(findings), sum(d.n_run for d in done), sum(d.n_kept for d in done))


def _named(key: str, on_progress: OnProgress) -> OnProgress:
    return lambda step: on_progress(replace(step, key=key))


def count_trials(run: ExperimentRun, case_id: str | None = None) -> tuple[int, int]:
    """Returns how many variants and trials a proof asks for."""
    variants = [*resolve_variants(_probes(run).experiment, case_id=case_id)]
    variants += [v for v in resolve_variants(run.experiment, case_id=case_id) if v.role != "mutant"]
    return len(variants), sum(variant.n_trials for variant in variants)


def _probes(run: ExperimentRun) -> ExperimentRun:
    """Returns the same tasks with the oracle for a baseline and the nop for its only mutant, once each."""
    nop = MutantConfig(id=_NOP, operator=OperatorSpec(name="external/does-nothing"), agent=AgentSpec(name="nop"))
    oracle = BaselineConfig(agent=AgentSpec(name="oracle"))
    once = RoleConfig(attempts=1)
    experiment = replace(
        run.experiment,
        cases=tuple(
            replace(case, config=case.config.model_copy(update={"baseline": oracle, "mutants": (nop,)}))
            for case in run.experiment.cases
        ),
        execution=run.experiment.execution.model_copy(
            # They ask no model, so the experiment's budget is not for them.
            update={"roles": RolesConfig(baseline=once, mutant=once), "budget": BudgetConfig()}
        ),
    )
    return ExperimentRun(experiment, EvidenceRoot(run.root.path / PROBES), f"{run.run_id}.{PROBES}")


def _judge(run: ExperimentRun, case: Case, rewards: dict[str, Rewards]) -> Iterator[Finding]:
    case_id, scoring = case.case_id, run.experiment.analysis.scoring
    tasks = [task.id for task in case.config.tasks]
    inputs = case_inputs(run.experiment, case)
    yield from check_oracle(case_id, tasks, rewards["oracle"], scoring.pass_reward)
    yield from check_nop(case_id, tasks, rewards["nop"], scoring.pass_reward)
    run_name = "screening" if "screening" in rewards else "baseline"
    found, eligibility = check_reliability(case_id, tasks, rewards[run_name], scoring, run=f"the {run_name}")
    yield from found
    if eligibility is not None:
        roles = variant_roles(case.config, run.experiment.execution.roles)
        controls = {name: rewards[name] for name, role in roles.items() if role == "control"}
        yield from check_controls(case_id, eligibility, rewards["baseline"], controls, scoring)
    yield from _operators(run, case_id)
    yield from _inert(run, case)
    yield from _metrics(run, inputs)
    yield check_subsets(case_id, inputs.subset_tasks, eligibility.eligible_tasks if eligibility else tasks)


@dataclass(frozen=True)
class _Open:
    """A trial that has no verdict, why, and its folder."""

    task: str
    exception: str | None
    reason: str
    folder: Path


def _without_verdict(run: ExperimentRun, results: RawResults) -> list[_Open]:
    return [
        _Open(
            trial.task,
            trial.exception,
            trial.reason or trial.status,
            run.root.trial(results.case, results.variant, trial.folder, trial.run, trial.trial),
        )
        for trial in results.trials
        if not trial.counts
    ]


def _explained(finding: Finding, trial: _Open | None) -> Finding:
    """Says of a task without a verdict why it has none, where to look and what to do."""
    if finding.state != "unknown" or trial is None:
        return finding
    silent = silent_verifier(trial.exception)
    if silent is not None:
        return replace(finding, found=silent, remedy=correct_tests(trial.task, trial.folder))
    return replace(finding, found=f"{finding.found}: {trial.reason}", remedy=f"run again; see {trial.folder}")


def _errors(run: ExperimentRun, results: Sequence[RawResults]) -> Iterator[Finding]:
    """Says what the baseline's trials ended in, each reason once with the place of its traceback."""
    errors: dict[str, list[Path]] = {}
    for found in results:
        for trial in found.trials:
            if trial.status == "agent_error":
                folder = run.root.trial(found.case, found.variant, trial.folder, trial.run, trial.trial)
                errors.setdefault(trial.reason or "an error", []).append(folder)
    n_trials = sum(len(found.trials) for found in results)
    for reason, folders in errors.items():
        message = f"{len(folders)} of {n_trials} trials of the baseline's agent ended in {reason}"
        remedy = f"correct the agent; for the traceback see {folders[0] / 'exception.txt'}"
        yield Finding(results[0].case, "reliable", "warning", "", message, remedy)


def _operators(run: ExperimentRun, case_id: str) -> Iterator[Finding]:
    """Looks at the class of the inherited agent, which `verify` alone never imports."""
    from metric_benchmark.mutants.agent import refusal_for

    made = [v for v in resolve_variants(run.experiment, case_id=case_id) if v.role == "mutant" and v.runtime is None]
    refused = [(v.variant_id, reason) for v in made for reason in refusal_for(dict(v.agent))]
    for name, reason in refused:
        yield Finding(case_id, "operators", "failed", name, reason, "take another operator, or bring an own agent")
    if made and not refused:
        yield Finding(case_id, "operators", "ok", "", f"{len(made)} mutants can be made of their agents")


def _inert(run: ExperimentRun, case: Case) -> Iterator[Finding]:
    case_id = case.case_id
    index = run.index(case_id)
    current = {v.variant_id: v for v in resolve_variants(run.experiment, case_id=case_id) if v.role == "mutant"}
    ran = [name for name, v in current.items() if _is_current(index.variants.get(name), v)]
    if len(ran) < len(current):
        message = f"{len(current) - len(ran)} of {len(current)} mutants have not been run"
        remedy = "run the experiment, then verify --deep with its --output"
        yield Finding(case_id, "inert", "skipped", "", message, remedy)
    baseline = read_raw_results(run.root, index, "baseline")
    effects = {name: compare_with_baseline(run.root, baseline, read_raw_results(run.root, index, name)) for name in ran}
    for name, effect in effects.items():
        if effect.is_inert:
            remedy = "choose other parameters, or tasks on which the fault can show"
            yield Finding(case_id, "inert", "warning", name, f"inert: {effect.reason}", remedy)
    n_acting = sum(effect.is_inert is False for effect in effects.values())
    if effects and n_acting == len(effects):
        yield Finding(
            case_id, "inert", "ok", "", f"{n_acting} of {n_acting} mutants that ran behave unlike the baseline"
        )


def _is_current(entry: object, variant: Variant) -> bool:
    return getattr(entry, "config_hash", None) == variant.config_hash


def _metrics(run: ExperimentRun, inputs: CaseInputs) -> Iterator[Finding]:
    """Asks each metric by itself, so that one that fails does not hide the others."""
    case_id = inputs.selection.case
    for spec in (MetricSpec(**metric) for metric in inputs.metrics.metrics):
        try:
            record = measure_metrics(run, inputs, [spec])
        except (MetricError, ConfigError) as error:
            yield Finding(
                case_id, "metrics", "failed", spec.name, _one_line(error), "correct the metric or its settings"
            )
            continue
        for name, metric in record.metrics.items():
            yield from check_metric(case_id, name, metric)


def _one_line(error: MetricBenchmarkError) -> str:
    return " ".join(str(error).split())
