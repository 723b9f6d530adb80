# SPDX-License-Identifier: Apache-2.0
"""Stage 2 on an evidence root: the kills of one mutant, then the mutant scores of a case."""

from __future__ import annotations

from metric_benchmark.evidence.reader import read_raw_results
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_file, digest_json
from metric_benchmark.pipeline.inertness import compare_with_baseline
from metric_benchmark.pipeline.inputs import CaseInputs, ExperimentRun, freeze_inputs, raw_digests
from metric_benchmark.pipeline.provenance import Provenance, current_record
from metric_benchmark.records.scores import MutantKills, MutantScores
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant


def score_variant(run: ExperimentRun, case_id: str, variant_id: str, inputs: CaseInputs | None = None) -> MutantKills:
    """Stage 2 of one mutant or control: which tasks tell it from the baseline.

    Raises:
        EvidenceError: raw results of the variant, the baseline or the screening are missing or damaged.
    """
    inputs = inputs or freeze_inputs(run, case_id)
    index = run.index(case_id)
    case = run.experiment.case(case_id)
    roles = inputs.selection.variants
    needed = ["baseline", *(["screening"] if "screening" in roles else []), variant_id]
    results = {name: read_raw_results(run.root, index, name) for name in needed}
    scoring = run.experiment.analysis.scoring
    provenance = Provenance(
        "scoring",
        {"scoring": digest_json(inputs.selection.scoring), "tasks": digest_json(list(inputs.selection.tasks))},
        raw_digests(index, *needed),
    )
    path = run.root.mutant_kills(case_id, variant_id)
    found = current_record(path, MutantKills, provenance)
    if found is not None:
        return found
    screening = results["screening"].rewards() if "screening" in results else None
    operators = {mutant.id: mutant.operator.name for mutant in case.config.mutants}
    kills = score_mutant(
        scoring,
        assess_eligibility(inputs.selection.tasks, screening, scoring),
        results["baseline"].rewards(),
        results[variant_id].rewards(),
        variant=variant_id,
        role="control" if roles.get(variant_id) == "control" else "mutant",
        operator=operators.get(variant_id),
    )
    effect = compare_with_baseline(run.root, results["baseline"], results[variant_id])
    kills = kills.model_copy(update={**provenance.fields(), "is_inert": effect.is_inert, "effect": effect.reason})
    write_record(path, kills)
    return kills


def score_subsets(run: ExperimentRun, case_id: str) -> MutantScores:
    """Stage 2 of a case: each subset's mutant score, from the kills of all mutants and controls.

    Kills that are missing or out of date are computed first; they are cheap.
    """
    inputs = freeze_inputs(run, case_id)
    index = run.index(case_id)
    roles = inputs.selection.variants
    ordered = [v for v in roles if roles[v] == "mutant"] + [v for v in roles if roles[v] == "control"]
    kills = [score_variant(run, case_id, variant, inputs) for variant in ordered]
    digests = {f"mutants/{v}": digest_file(run.root.mutant_kills(case_id, v)) for v in ordered}
    provenance = Provenance(
        "scoring",
        {"scoring": digest_json(inputs.selection.scoring), "subsets": digest_json(inputs.subsets.to_json())},
        {**digests, **raw_digests(index, "screening")},
    )
    path = run.root.mutant_scores(case_id)
    found = current_record(path, MutantScores, provenance)
    if found is not None:
        return found
    scoring = run.experiment.analysis.scoring
    screening = read_raw_results(run.root, index, "screening").rewards() if "screening" in roles else None
    eligibility = assess_eligibility(inputs.selection.tasks, screening, scoring)
    scores = score_case(eligibility, kills, inputs.subset_tasks).model_copy(update=provenance.fields())
    write_record(path, scores)
    return scores
