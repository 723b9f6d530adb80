# SPDX-License-Identifier: Apache-2.0
"""The gate of `check`: does a finished experiment meet the thresholds of analysis.yaml?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from metric_benchmark.config.models import GatesConfig
from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.records.coverage import MetricCoverage
from metric_benchmark.records.scores import MutantScores
from metric_benchmark.reporting.data import CaseReport, ReportData
from metric_benchmark.reporting.table import words

#: A share counts as reached within this distance, so that 0.1 + 0.2 reaches 0.3.
_TOLERANCE = 1e-9
_REGISTERED = {"before_data": "before the data", "after_data": "changed after the data", "unknown": "not on record"}


@dataclass(frozen=True)
class Check:
    """One demand and what was found; `case` is empty where it is about the experiment as a whole."""

    case: str
    name: str
    outcome: Literal["passed", "failed"]
    found: str
    wanted: str

    @property
    def message(self) -> str:
        """What was found and what was wanted, in one line."""
        return f"{self.name}: found {self.found}; wanted {self.wanted}"


@dataclass(frozen=True)
class GateResult:
    """All checks of an experiment."""

    experiment: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    @property
    def exit_status(self) -> int:
        """0 when every check passed, else 1."""
        return 1 if self.failed else 0


def check_gates(data: ReportData, gates: GatesConfig | None = None) -> GateResult:
    """Checks a finished experiment.

    Args:
        data: the records.
        gates: what is demanded; by default what analysis.yaml said when the evidence was analysed.

    Raises:
        EvidenceError: the experiment is not finished, or something changed since it was sealed.
        ConfigError: nothing is demanded, so there is nothing to check.
    """
    if not data.is_sealed:
        raise EvidenceError(
            f"{data.root.path}: cannot be checked. {data.completeness} `metric-benchmark run-experiment` finishes it"
        )
    if gates is None:
        gates = GatesConfig.model_validate(data.inputs.gates if data.inputs else {})
    checks = (*_experiment_checks(data, gates), *_hypotheses_check(data, gates))
    checks += tuple(check for case in data.cases for check in _case_checks(case, gates))
    if not checks:
        raise ConfigError(
            f"{data.root.path}: nothing to check: no hypothesis was registered and no gate is set. Add "
            "`correlation.hypotheses` or `gates` to analysis.yaml"
        )
    return GateResult(data.name, checks)


def registered_metrics(case: CaseReport) -> tuple[str, ...]:
    """Returns the metrics of a case about which a hypothesis was registered."""
    settings = case.selection.correlation if case.selection else {}
    found = [str(hypothesis["metric"]) for hypothesis in settings.get("hypotheses", ())]
    if not found and case.correlation is not None:
        found = [name for name, m in case.correlation.metrics.items() if m.verdict.minimum_effect is not None]
    return tuple(dict.fromkeys(found))


def _experiment_checks(data: ReportData, gates: GatesConfig) -> Iterator[Check]:
    seal = data.seal
    if seal is None:
        return
    if gates.max_trials_without_verdict is not None:
        is_met = seal.n_without_verdict <= gates.max_trials_without_verdict
        wanted = f"at most {gates.max_trials_without_verdict}"
        yield _check("", "trials without a verdict", is_met, str(seal.n_without_verdict), wanted)
    if gates.require_native_validation:
        is_met = seal.native_validation == "done"
        yield _check("", "native validation", is_met, words(seal.native_validation), "done")


def _hypotheses_check(data: ReportData, gates: GatesConfig) -> Iterator[Check]:
    """Fails where gates ask about hypotheses and nothing was claimed: no verdict at all is not an accepted one."""
    # Older evidence has all gates written in full: what is as by default there was not necessarily asked for.
    in_full = gates.model_fields_set >= GatesConfig.model_fields.keys()
    is_default = gates.accept == GatesConfig.model_fields["accept"].default
    is_written = "accept" in gates.model_fields_set and not (in_full and is_default)
    asks = gates.require_registration or (is_written and not gates.metrics)
    if asks and not any(registered_metrics(case) for case in data.cases):
        yield _check("", "hypotheses", False, "none", "at least one (`correlation.hypotheses` in analysis.yaml)")


def _case_checks(case: CaseReport, gates: GatesConfig) -> Iterator[Check]:
    accepted = " or ".join(words(verdict) for verdict in gates.accept)
    for metric in gates.metrics or registered_metrics(case):
        found = case.correlation.metrics.get(metric) if case.correlation else None
        verdict = found.verdict.verdict if found else "not_tested"
        reason = f" ({found.verdict.reason})" if found and found.verdict.reason else ""
        yield _check(
            case.case_id, f"verdict of {metric}", verdict in gates.accept, f"{words(verdict)}{reason}", accepted
        )
    if gates.require_registration and case.correlation is not None and registered_metrics(case):
        registration = case.correlation.registration
        is_met = registration == "before_data"
        yield _check(case.case_id, "hypotheses registered", is_met, _REGISTERED[registration], "before the data")
    if case.scores is not None and gates.min_suite_score is not None:
        yield _at_least(
            case.case_id, "mutant score of the whole suite", suite_score(case.scores), gates.min_suite_score
        )
    if case.scores is not None and gates.max_false_kill_rate is not None:
        yield _false_kills(case.case_id, case.scores, gates.max_false_kill_rate)
    for metric, least in gates.min_suite_coverage.items():
        measured = case.coverage.metrics.get(metric) if case.coverage else None
        eligible = case.scores.eligible_tasks if case.scores else []
        value = suite_coverage(measured, eligible) if measured else None
        yield _at_least(case.case_id, f"{metric} coverage of the whole suite", value, least)


def suite_score(scores: MutantScores) -> float:
    """Returns the share of the mutants that at least one eligible task kills."""
    return sum(bool(mutant.killed_by) for mutant in scores.mutants.values()) / scores.n_mutants


def suite_coverage(metric: MetricCoverage, tasks: list[str]) -> float | None:
    """Returns the share of a metric's items that the given tasks exercise together; None where it cannot be told."""
    if metric.kind == "opaque" or not metric.items:
        return None
    covered = {item for task in tasks for item in metric.tasks.get(task, ())}
    return len(covered & set(metric.items)) / len(metric.items)


def _false_kills(case: str, scores: MutantScores, most: float) -> Check:
    name, rate = "false-kill rate of the whole suite", scores.noise.suite
    if rate is None:
        return _check(case, name, False, f"not assessable ({scores.noise.reason})", f"at most {most:g}")
    found = f"{rate.rate:.3f} of {rate.n_controls} controls"
    return _check(case, name, rate.rate <= most + _TOLERANCE, found, f"at most {most:g}")


def _at_least(case: str, name: str, value: float | None, least: float) -> Check:
    if value is None:
        return _check(case, name, False, "no value", f"at least {least:g}")
    return _check(case, name, value >= least - _TOLERANCE, f"{value:.3f}", f"at least {least:g}")


def _check(case: str, name: str, is_met: bool, found: str, wanted: str) -> Check:
    return Check(case, name, "passed" if is_met else "failed", found, wanted)
