# SPDX-License-Identifier: Apache-2.0
"""What the design of each case can show: simulated once, kept beside the evidence for plans and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from metric_benchmark.config import Case, Experiment
from metric_benchmark.correlation.planning import Design
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.power import plan_power
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.correlation import PowerPlan, PowerPlans

#: Larger designs are simulated on request only: a report should not take minutes.
_MAX_CELLS = 100_000


def plan_case(experiment: Experiment, case: Case) -> PowerPlan:
    """Simulates a case's experiment at its own size, and what could be added; takes some seconds."""
    return plan_power(
        case_design(experiment, case),
        experiment.analysis.scoring,
        seed=experiment.analysis.correlation.seed,
        alpha=_alpha(experiment),
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


def keep_plans(root: EvidenceRoot, experiment: Experiment, plans: Mapping[str, PowerPlan]) -> None:
    """Writes plans beside the evidence, in the place of all that are there."""
    write_record(
        root.power,
        PowerPlans(
            cases=dict(plans),
            inputs={case: plan_digest(experiment, experiment.case(case)) for case in plans},
            implementation=implementation("correlation"),
        ),
    )


def kept_plans(root: EvidenceRoot, experiment: Experiment) -> dict[str, PowerPlan]:
    """Returns the plans beside the evidence that are of the experiment as it is now."""
    if not root.power.exists():
        return {}
    record = read_record(root.power, PowerPlans)
    return {
        case.case_id: record.cases[case.case_id]
        for case in experiment.cases
        if record.inputs.get(case.case_id) == plan_digest(experiment, case)
    }


def plan_digest(experiment: Experiment, case: Case) -> str:
    """Digests what a plan is simulated for."""
    return digest_json(
        {
            "design": asdict(case_design(experiment, case)),
            "scoring": experiment.analysis.scoring.model_dump(mode="json"),
            "seed": experiment.analysis.correlation.seed,
            "alpha": _alpha(experiment),
        }
    )


def plan_open_cases(run: ExperimentRun, seal: ExperimentSeal) -> None:
    """Keeps a plan of every case with a registered claim that stays open, so that its report says what would settle it.

    A plan that is there already is not simulated again; one of another design is removed.
    """
    experiment = run.experiment
    claimed = {claim.metric for claim in experiment.analysis.correlation.hypotheses}
    plans = kept_plans(run.root, experiment)
    for case in experiment.cases:
        verdicts = seal.cases[case.case_id].verdicts
        is_open = any(verdicts.get(metric) == "inconclusive" for metric in claimed)
        if is_open and case.case_id not in plans and _cells(case_design(experiment, case)) <= _MAX_CELLS:
            plans[case.case_id] = plan_case(experiment, case)
    if plans:
        keep_plans(run.root, experiment, plans)
    else:
        run.root.power.unlink(missing_ok=True)


def _cells(design: Design) -> int:
    return design.n_subsets * max(design.n_tasks, design.n_mutants)


def _alpha(experiment: Experiment) -> float:
    return min((claim.alpha for claim in experiment.analysis.correlation.hypotheses), default=0.05)
