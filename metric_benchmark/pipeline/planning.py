# SPDX-License-Identifier: Apache-2.0
"""What the design of each case can show: simulated once, kept beside the evidence for plans and reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from metric_benchmark.config import Case, Experiment
from metric_benchmark.config.models import HypothesisConfig
from metric_benchmark.correlation.planning import Claim, Design
from metric_benchmark.correlation.verdicts import more_data_could_settle
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.plans import read_plans
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.power import N_SIMULATIONS, plan_power, plan_settling
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.correlation import Correlation, PowerPlan, PowerPlans, Settling

#: Larger designs are simulated on request only: a report should not take minutes.
_MAX_CELLS = 100_000


@dataclass
class Plans:
    """What was simulated of an experiment, by case, and of claims that stayed open, by case and metric.

    `problem` says why the file that was there could not be read.
    """

    cases: dict[str, PowerPlan] = field(default_factory=dict[str, PowerPlan])
    settling: dict[str, dict[str, Settling]] = field(default_factory=dict[str, dict[str, Settling]])
    problem: str | None = None


def plan_case(experiment: Experiment, case: Case) -> PowerPlan:
    """Simulates a case's experiment at its own size, and what could be added; takes some seconds."""
    return plan_power(
        case_design(experiment, case),
        experiment.analysis.scoring,
        case_claim(experiment),
        seed=experiment.analysis.correlation.seed,
        n_simulations=N_SIMULATIONS,
    )


def case_design(experiment: Experiment, case: Case) -> Design:
    """Returns the size of a case's experiment."""
    roles = experiment.execution.roles
    return Design(
        n_tasks=len(case.config.tasks),
        n_mutants=len(case.config.mutants),
        n_subsets=len(case.subsets.subsets),
        sizes=tuple(len(subset.tasks) for subset in case.subsets.subsets),
        n_baseline=roles.baseline.attempts,
        n_mutant=roles.mutant.attempts,
        n_screening=roles.screening.attempts if roles.screening else 0,
        n_controls=roles.control.count if roles.control else 0,
        n_control=roles.control.attempts if roles.control else 0,
    )


def case_claim(experiment: Experiment, hypotheses: Iterable[HypothesisConfig] | None = None) -> Claim:
    """Returns what is decided about some hypotheses, by default all: the strictest level, the largest minimum effect.

    Their family is all hypotheses of the experiment times its cases, as for the verdicts.
    """
    settings = experiment.analysis.correlation
    claims = tuple(settings.hypotheses if hypotheses is None else hypotheses)
    return Claim(
        alpha=min((claim.alpha for claim in claims), default=0.05),
        minimum_effect=max((claim.minimum_effect for claim in claims), default=0.0),
        n_family=max(1, len(settings.hypotheses) * len(experiment.cases)),
        replicates=settings.replicates,
    )


def keep_plans(root: EvidenceRoot, experiment: Experiment, plans: Plans) -> None:
    """Writes plans beside the evidence, in the place of all that are there."""
    inputs = {case: plan_digest(experiment, experiment.case(case)) for case in plans.cases}
    for case, claims in plans.settling.items():
        inputs |= {
            f"{case} {metric}": _settling_digest(experiment, case, metric, settling.effect)
            for metric, settling in claims.items()
        }
    write_record(
        root.power,
        PowerPlans(
            cases=plans.cases, settling=plans.settling, inputs=inputs, implementation=implementation("planning")
        ),
    )


def kept_plans(root: EvidenceRoot, experiment: Experiment) -> Plans:
    """Returns the plans beside the evidence that are of the experiment, and of the code, as they are now."""
    record, problem = read_plans(root)
    if record is None:
        return Plans(problem=problem)
    known = [case.case_id for case in experiment.cases]
    return Plans(
        cases={
            case: plan
            for case, plan in record.cases.items()
            if case in known and record.inputs.get(case) == plan_digest(experiment, experiment.case(case))
        },
        settling={
            case: {
                metric: settling
                for metric, settling in claims.items()
                if record.inputs.get(f"{case} {metric}") == _settling_digest(experiment, case, metric, settling.effect)
            }
            for case, claims in record.settling.items()
            if case in known
        },
    )


def plan_digest(experiment: Experiment, case: Case, claim: Claim | None = None) -> str:
    """Digests what a plan is simulated for, and with what code."""
    return digest_json(
        {
            "design": asdict(case_design(experiment, case)),
            "scoring": experiment.analysis.scoring.model_dump(mode="json"),
            "seed": experiment.analysis.correlation.seed,
            "claim": asdict(claim or case_claim(experiment)),
            "n_simulations": N_SIMULATIONS,
            "code": implementation("planning").stage_sha256,
        }
    )


def plan_open_cases(run: ExperimentRun, seal: ExperimentSeal) -> Plans:
    """Keeps what would settle every registered claim that stays open for want of data, so that its report says so.

    What is there already is not simulated again; what is of another design is removed.
    """
    experiment = run.experiment
    kept = kept_plans(run.root, experiment)
    plans = Plans(cases=kept.cases, problem=kept.problem)
    for case in experiment.cases:
        found = _open_claims(run, seal, case.case_id)
        if not found or _cells(case_design(experiment, case)) > _MAX_CELLS:
            continue
        plan = plans.cases.setdefault(case.case_id, kept.cases.get(case.case_id) or plan_case(experiment, case))
        settled = kept.settling.get(case.case_id, {})
        plans.settling[case.case_id] = {
            metric: settled[metric]
            if metric in settled and settled[metric].effect == effect
            else _plan_settling(experiment, case, metric, effect, plan)
            for metric, effect in found.items()
        }
    if plans.cases:
        keep_plans(run.root, experiment, plans)
    else:
        run.root.power.unlink(missing_ok=True)
    return plans


def _open_claims(run: ExperimentRun, seal: ExperimentSeal, case_id: str) -> dict[str, float | None]:
    """Returns the metrics whose claim more data could settle, with what was estimated in the claim's direction."""
    record = read_record(run.root.correlation(case_id), Correlation)
    found: dict[str, float | None] = {}
    for name, concluded in seal.cases[case_id].conclusions.items():
        metric, verdict = record.metrics[name], concluded.verdict
        is_open = verdict.minimum_effect is not None and verdict.verdict == "inconclusive"
        if is_open and more_data_could_settle(metric.limits):
            sign = -1.0 if verdict.direction == "less" else 1.0
            found[name] = sign * metric.calibrated.estimate if metric.calibrated else None
    return found


def _plan_settling(experiment: Experiment, case: Case, metric: str, effect: float | None, plan: PowerPlan) -> Settling:
    return plan_settling(
        case_design(experiment, case),
        experiment.analysis.scoring,
        _claim_about(experiment, metric),
        effect,
        plan.curve,
        seed=experiment.analysis.correlation.seed,
        n_simulations=N_SIMULATIONS,
    )


def _claim_about(experiment: Experiment, metric: str) -> Claim:
    return case_claim(experiment, [h for h in experiment.analysis.correlation.hypotheses if h.metric == metric])


def _settling_digest(experiment: Experiment, case: str, metric: str, effect: float | None) -> str:
    claim = _claim_about(experiment, metric)
    return digest_json({"plan": plan_digest(experiment, experiment.case(case), claim), "effect": effect})


def _cells(design: Design) -> int:
    return design.n_subsets * max(design.n_tasks, design.n_mutants)
