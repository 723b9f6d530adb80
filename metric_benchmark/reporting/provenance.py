# SPDX-License-Identifier: Apache-2.0
"""Where a report's numbers come from: digests, versions, seeds, registration, and what became of every trial."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, get_args

from metric_benchmark.records.base import Record
from metric_benchmark.records.execution import RawResults, Role, Status
from metric_benchmark.reporting.data import CaseReport, ReportData
from metric_benchmark.reporting.sentences import moment
from metric_benchmark.reporting.table import words

STATUSES: tuple[Status, ...] = get_args(Status.__value__)
_REGISTRATION = {
    "before_data": "registered before the data",
    "after_data": "changed after the data: exploratory",
    "unknown": "not on record",
}


@dataclass(frozen=True)
class TrialCounts:
    """What became of the trials of one role in one case.

    `n_planned` is what was asked for, `n_attempts` what counts in the statistics. A rate over either differs as soon as
    trials stay without a verdict, so both are shown.
    """

    case: str
    role: Role
    n_variants: int
    n_planned: int
    n_attempts: int
    by_status: dict[Status, int]
    passed: float
    first_started: str | None
    last_started: str | None
    duration_s: float
    cost_usd: float | None
    environments: tuple[str, ...]

    @property
    def n_missing(self) -> int:
        """Planned trials that have no verdict."""
        return self.n_planned - self.n_attempts

    @property
    def reward_of_attempts(self) -> float | None:
        """Mean reward over attempts that count."""
        return self.passed / self.n_attempts if self.n_attempts else None

    @property
    def reward_of_planned(self) -> float | None:
        """Mean reward if every planned trial without a verdict had scored 0."""
        return self.passed / self.n_planned if self.n_planned else None


def count_trials(case: CaseReport) -> list[TrialCounts]:
    """Returns the trial accounting of a case, a line per role."""
    roles: dict[Role, list[RawResults]] = {}
    for results in case.results.values():
        roles.setdefault(results.role, []).append(results)
    order: tuple[Role, ...] = get_args(Role.__value__)
    return [_count(case.case_id, role, roles[role]) for role in order if role in roles]


def _count(case: str, role: Role, found: list[RawResults]) -> TrialCounts:
    trials = [trial for results in found for trial in results.trials]
    started = sorted(trial.started_at for trial in trials if trial.started_at)
    costs = [results.cost_usd for results in found if results.cost_usd is not None]
    status = Counter(trial.status for trial in trials)
    return TrialCounts(
        case=case,
        role=role,
        n_variants=len(found),
        n_planned=sum(results.attempts * len(results.tasks) for results in found),
        n_attempts=sum(results.n_counted for results in found),
        by_status={name: status[name] for name in STATUSES},
        passed=sum(trial.reward for trial in trials if trial.counts and trial.reward is not None),
        first_started=started[0] if started else None,
        last_started=started[-1] if started else None,
        duration_s=sum(trial.duration_s or 0.0 for trial in trials),
        cost_usd=sum(costs) if costs else None,
        environments=tuple(sorted({environment_name(results) for results in found})),
    )


def environment_name(results: RawResults) -> str:
    """Returns what the trials of a variant ran in."""
    return str(results.environment.get("type") or results.environment.get("import_path") or "unknown")


def describe_provenance(data: ReportData) -> list[tuple[str, str]]:
    """Returns (name, value) lines about the whole experiment."""
    seal, inputs = data.seal, data.inputs
    lines = [("Run", data.run_id or "unknown"), ("Evidence", data.completeness)]
    lines.append(("Native validation of trial folders", describe_validation(data)))
    if seal is not None:
        lines.append(("Trials", f"{seal.n_trials}, of which {seal.n_without_verdict} without a verdict"))
        lines.append(("Environments", ", ".join(seal.environments) or "unknown"))
        lines += [(f"Secret {name}", words(str(state))) for name, state in seal.secrets.items()]
    source = seal or inputs
    if source is not None:
        lines.append(("Cases (SHA-256)", source.cases_sha256))
        lines += [(f"{name.capitalize()} settings (SHA-256)", digest) for name, digest in source.inputs.items()]
    if data.plan_problem is not None:
        lines.append(("Power plan", data.plan_problem))
    if data.manifest is not None:
        lines += [(f"Index of {case} (SHA-256)", entry.index_sha256) for case, entry in data.manifest.cases.items()]
    return [*lines, *_registered(data)]


def _registered(data: ReportData) -> list[tuple[str, str]]:
    """Says what the ledger holds of each case's claims; of several entries the last one counts."""
    entries = [entry for entry in data.ledger if entry.get("kind") == "hypotheses"]
    last = {entry.get("case"): entry for entry in entries}
    return [
        (
            f"Registered of {entry.get('case')}" + ("" if entry is last[entry.get("case")] else ", amended later"),
            f"{moment(entry.get('at'))}: {_hypotheses(len(entry.get('hypotheses', [])))} and how they are judged; "
            f"SHA-256 {entry.get('sha256')}",
        )
        for entry in entries
    ]


def _hypotheses(number: int) -> str:
    return f"{number} hypothes{'is' if number == 1 else 'es'}"


def describe_validation(data: ReportData) -> str:
    """Says whether the native trial folders were compared with the records."""
    seal = data.seal
    if seal is None or seal.native_validation == "not_done":
        return "not done"
    if seal.native_validation == "failed":
        return f"failed at {moment(seal.validated_at)}: the folders differ from the records"
    return f"done at {moment(seal.validated_at)}" if seal.validated_at else "done"


def describe_case(case: CaseReport) -> list[tuple[str, str]]:
    """Returns (name, value) lines about one case's analysis."""
    lines: list[tuple[str, str]] = []
    record = case.correlation
    if record is not None:
        lines.append(("Seed and replicates", f"{record.seed}, {record.replicates}"))
        claims: list[Any] = case.selection.correlation.get("hypotheses", []) if case.selection else []
        changes = f" ({', '.join(record.registration_changes)})" if record.registration_changes else ""
        lines.append(("Hypotheses", f"{len(claims)}, {_REGISTRATION[record.registration]}{changes}"))
        lines.append(("Subsets were chosen using", record.chosen_using))
    if case.subsets is not None and case.subsets.generator is not None:
        made = ", ".join(f"{key}: {value}" for key, value in case.subsets.generator.items())
        lines.append(("Subset generator", made))
    if case.scores is not None:
        rule = case.scores.rule
        more = [
            f"alpha {rule.alpha:g}" if rule.alpha else "",
            rule.test or "",
            f"drop {rule.drop:g}" if rule.drop else "",
        ]
        lines.append(("Kill rule", ", ".join(text for text in (rule.name, *more) if text)))
        lines.append(("Eligible tasks", case.scores.eligibility.reason))
    if case.coverage is not None:
        for name, metric in case.coverage.metrics.items():
            lines.append((f"Metric {name}: code (SHA-256)", metric.code_sha256))
    for name, found in (("scores", case.scores), ("coverage", case.coverage), ("correlation", record)):
        lines += _implementation(name, found)
    return lines


def _implementation(name: str, record: Record | None) -> list[tuple[str, str]]:
    if record is None or record.implementation is None:
        return []
    code = record.implementation
    versions = f"metric-benchmark {code.version}, Harbor {code.harbor}, Pydantic {code.pydantic}"
    return [(f"Written by ({name})", f"{versions}; code {code.stage_sha256}")]
