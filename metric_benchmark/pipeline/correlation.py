# SPDX-License-Identifier: Apache-2.0
"""Stage 4 on an evidence root: pairs, estimates and verdicts of a case."""

from __future__ import annotations

import numpy as np

from metric_benchmark.correlation import correlate
from metric_benchmark.evidence.reader import read_record
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import Provenance, current_record, require_current
from metric_benchmark.pipeline.registration import find_registration
from metric_benchmark.pipeline.wanted import correlation_inputs
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.coverage import CoverageRecord
from metric_benchmark.records.scores import MutantKills, MutantScores
from metric_benchmark.scoring.counts import AttemptRedraw
from metric_benchmark.scoring.design import min_valid_attempts


def correlate_case(run: ExperimentRun, case_id: str) -> Correlation:
    """Stage 4 of a case; verifies first that stages 2 and 3 belong to the current evidence.

    Raises:
        ConfigError: attempts are to be drawn again, but rewards are graded.
        EvidenceError: mutant scores or coverage are missing, damaged or out of date.
    """
    inputs = run.inputs(case_id)
    scores = verified_scores(run, case_id)
    coverage = verified_coverage(run, case_id)
    settings = run.experiment.analysis.correlation
    n_cases = len(run.experiment.cases)
    registered = find_registration(run, case_id)
    provenance = Provenance(
        "correlation",
        {
            **correlation_inputs(inputs, n_cases),
            "registration": ", ".join([registered.state, *registered.changed]),
        },
        {
            "mutant-scores": digest_file(run.root.mutant_scores(case_id)),
            "coverage": digest_file(run.root.coverage(case_id)),
        },
    )
    path = run.root.correlation(case_id)
    found = current_record(path, Correlation, provenance)
    if found is not None:
        return found
    record = correlate(
        scores,
        {name: metric.model_dump(mode="json") for name, metric in coverage.metrics.items()},
        inputs.subset_tasks,
        settings,
        np.random.default_rng(settings.seed),
        chosen_using=inputs.subsets.chosen_using,
        case=case_id,
        n_cases=n_cases,
        redraw=find_redraw(run, case_id, scores),
        registration=registered.state,
        registration_changes=registered.changed,
    ).model_copy(update=provenance.fields())
    write_record(path, record)
    return record


def find_redraw(run: ExperimentRun, case_id: str, scores: MutantScores) -> AttemptRedraw | None:
    """Collects the attempts behind a case's kills, in the order of its scores; None where they are not drawn again."""
    if not run.experiment.analysis.correlation.resample_attempts:
        return None
    kills = [read_record(run.root.mutant_kills(case_id, mutant), MutantKills) for mutant in scores.mutants]
    scoring = run.experiment.analysis.scoring
    return AttemptRedraw.of(scoring.kill_rule, min_valid_attempts(scoring), kills, tasks=scores.eligible_tasks)


def verified_scores(run: ExperimentRun, case_id: str) -> MutantScores:
    """Reads a case's mutant scores; they and all kills they were made of must be of the raw results indexed now.

    Raises:
        EvidenceError: something is missing, damaged or out of date.
    """
    path = run.root.mutant_scores(case_id)
    scores = read_record(path, MutantScores)
    raw = {variant: entry.raw_results_sha256 for variant, entry in run.index(case_id).variants.items()}
    for name, sha256 in scores.evidence.items():
        if not name.startswith("mutants/"):
            require_current(path, sha256, raw.get(name))
            continue
        kills_path = run.root.mutant_kills(case_id, name.removeprefix("mutants/"))
        kills = read_record(kills_path, MutantKills, sha256=sha256)
        for variant, found in kills.evidence.items():
            require_current(kills_path, found, raw.get(variant))
    return scores


def verified_coverage(run: ExperimentRun, case_id: str) -> CoverageRecord:
    """Reads a case's coverage, which must be of the baseline's raw results indexed now.

    Raises:
        EvidenceError: it is missing, damaged or out of date.
    """
    path = run.root.coverage(case_id)
    coverage = read_record(path, CoverageRecord)
    entry = run.index(case_id).variants["baseline"]
    require_current(path, coverage.evidence.get("baseline"), entry.raw_results_sha256)
    return coverage
