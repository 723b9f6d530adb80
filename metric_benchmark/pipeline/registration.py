# SPDX-License-Identifier: Apache-2.0
"""Registers what is claimed of a case, and how it will be judged, in the ledger before its first mutant is tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from metric_benchmark.config import Case, Experiment
from metric_benchmark.config.fields import RESERVED_ID
from metric_benchmark.coverage.inputs import digest_files, locator
from metric_benchmark.coverage.registry import MetricSpec, resolve_metric
from metric_benchmark.coverage.user_metric import UserMetric
from metric_benchmark.errors import ConfigError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.ledger import IMPORT_UNDONE, append_entry, read_ledger
from metric_benchmark.evidence.locks import lock_ledger
from metric_benchmark.hashing import digest_json
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.records.correlation import Registration

#: Kind of the ledger's entries about a case's claims.
KIND = "hypotheses"
#: By a part about what things are, the part about which of them there are.
_WHICH = {"what the tasks are": "the tasks", "what the mutants are": "the mutants"}
#: Where something lies is no part of what it is; its digest stands beside its path.
_PLACES: dict[str, Any] = {"bundle": {"path"}, "runtime": {"requirements": {"path"}}}


@dataclass(frozen=True)
class Registered:
    """What the ledger says about a case's claims; `changed` names what is another now than what was registered."""

    state: Registration
    changed: tuple[str, ...] = ()


def register_claims(run: ExperimentRun, case_id: str) -> None:
    """Enters a case's claims in the ledger when its first trial is about to run; the caller holds the evidence root.

    They may be amended, by another entry, until the first trial of a mutant: before, nobody can know any kill.
    """
    case = run.experiment.case(case_id)
    parts = plan_parts(run.experiment, case)
    with lock_ledger(run.root):
        entries = read_ledger(run.root)
        if _has_data(entries, case_id):
            return
        known = _last_parts(entries, case_id)
        if known != parts:
            claims = [claim.model_dump(mode="json") for claim in run.experiment.analysis.correlation.hypotheses]
            append_entry(run.root, KIND, case=case_id, sha256=digest_json(parts), parts=parts, hypotheses=claims)


def claims_digest(experiment: Experiment, case: Case) -> str:
    """Returns the digest under which a case's claims, and how they are judged, are registered as they are now."""
    return digest_json(plan_parts(experiment, case))


def find_registration(run: ExperimentRun, case_id: str) -> Registered:
    """Compares what a case's claims are now with what its evidence says was registered before the data.

    Unknown where nothing was registered, or by a version that did not register all that is compared here; and where
    results were imported: those may be older than the claims.
    """
    entries = read_ledger(EvidenceRoot(run.root.execution_root))
    known = _last_parts(entries, case_id)
    if known is None or _imported(entries, case_id):
        return Registered("unknown")
    now = plan_parts(run.experiment, run.experiment.case(case_id))
    changed = tuple(name for name in now if name in known and now[name] != known[name])
    if changed:
        # Others than registered are not the same by definition, so that this says nothing more.
        return Registered("after_data", tuple(name for name in changed if _WHICH.get(name) not in changed))
    return Registered("before_data" if set(now) <= set(known) else "unknown")


def plan_parts(experiment: Experiment, case: Case) -> dict[str, str]:
    """Digests all that could be changed to get another verdict, by what it is called.

    Settings at their default are left out, so that a setting which a later version adds changes nothing; so is the code
    of built-in metrics, which only another version can change. Tasks and bundles are what their pins say.
    """

    def plain(settings: BaseModel, places: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return settings.model_dump(mode="json", exclude_defaults=True, exclude=dict(places or {}))

    analysis, config = experiment.analysis, case.config
    claimed = {claim.metric for claim in analysis.correlation.hypotheses}
    metrics = {m.name: plain(m) for m in analysis.coverage if m.name in claimed}
    correlation = plain(analysis.correlation)
    claims = correlation.pop("hypotheses", [])
    return {
        "the hypotheses": digest_json(sorted(claims, key=lambda claim: str(claim["metric"]))),
        "the settings of their metrics": digest_json(metrics),
        "the code and files of their metrics": digest_json(_code_and_files(experiment, case.case_id, claimed)),
        "the scoring settings": digest_json(plain(analysis.scoring)),
        "the correlation settings": digest_json(correlation),
        "the subsets": digest_json(plain(case.subsets)),
        "the case's description": digest_json(plain(case.description)),
        "the tasks": digest_json(sorted(task.id for task in config.tasks)),
        "what the tasks are": digest_json({task.id: task.sha256 for task in config.tasks}),
        "the baseline agent": digest_json(plain(config.baseline.agent, _PLACES)),
        "the mutants": digest_json(sorted(mutant.id for mutant in config.mutants)),
        "what the mutants are": digest_json({m.id: plain(m, {"agent": _PLACES}) for m in config.mutants}),
        "the attempts by role": digest_json(plain(experiment.execution.roles)),
        "the experiment's cases": digest_json(sorted(each.case_id for each in experiment.cases)),
    }


def _code_and_files(experiment: Experiment, case_id: str, names: Collection[str]) -> dict[str, Any]:
    """Digests what the user's own metrics are made of, and the files that metrics read; others have neither."""
    base = experiment.analysis_source.path.parent
    found: dict[str, Any] = {}
    for metric in experiment.analysis.coverage:
        if metric.name not in names:
            continue
        try:
            resolved = resolve_metric(MetricSpec(metric.name, metric.metric, metric.settings), base, None)
            files = resolved.find_files(locator(f"metric {metric.name}", case_id, base, experiment.roots))
        except ConfigError:
            found[metric.name] = "cannot be found"
            continue
        own = resolved.implementation
        code = own.code.sha256 if isinstance(own, UserMetric) else None
        if code is not None or files:
            found[metric.name] = {"code": code, "files": digest_files(files)}
    return found


def _last_parts(entries: Sequence[Mapping[str, Any]], case_id: str) -> dict[str, str] | None:
    found = [entry["parts"] for entry in entries if entry["kind"] == KIND and entry.get("case") == case_id]
    return found[-1] if found else None


def _has_data(entries: Sequence[Mapping[str, Any]], case_id: str) -> bool:
    """Whether a trial of a mutant of the case was started, or results of the case were adopted."""
    started: set[tuple[str, str, str]] = set()
    for entry in entries:
        if entry.get("case") != case_id or entry["kind"] not in ("reserve", "settle"):
            continue
        run = (entry["variant"], entry["folder"], entry["run"])
        if entry["kind"] == "reserve" and not RESERVED_ID.fullmatch(run[0]):
            started.add(run)
        elif entry["kind"] == "settle" and not entry["n_trials"]:
            started.discard(run)
    return bool(started or _imported(entries, case_id))


def _imported(entries: Sequence[Mapping[str, Any]], case_id: str) -> set[tuple[str, str, str]]:
    """Returns the runs of a case that were adopted, and not undone before any trial of them counted."""
    found: set[tuple[str, str, str]] = set()
    for entry in entries:
        if entry["kind"] in ("import", IMPORT_UNDONE) and entry.get("case") == case_id:
            run = (entry["variant"], entry["folder"], entry["run"])
            (found.add if entry["kind"] == "import" else found.discard)(run)
    return found
