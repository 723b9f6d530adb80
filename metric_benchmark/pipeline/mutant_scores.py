# SPDX-License-Identifier: Apache-2.0
"""Stage 2 on an evidence root: the kills of one mutant, then the mutant scores of a case."""

from __future__ import annotations

from dataclasses import dataclass

from metric_benchmark.evidence.reader import read_raw_results
from metric_benchmark.evidence.writes import write_record
from metric_benchmark.hashing import digest_file
from metric_benchmark.pipeline.inertness import compare_with_baseline
from metric_benchmark.pipeline.inputs import CaseInputs, ExperimentRun, raw_digests
from metric_benchmark.pipeline.provenance import Provenance, current_record
from metric_benchmark.pipeline.wanted import kills_inputs, scores_inputs
from metric_benchmark.records.execution import CaseIndex, RawResults
from metric_benchmark.records.scores import Eligibility, MutantKills, MutantScores
from metric_benchmark.scoring import assess_eligibility, score_case, score_mutant


@dataclass(frozen=True)
class _Case:
    """What scoring a case rests on, loaded and verified once: frozen inputs, index, and the results all kills share."""

    run: ExperimentRun
    inputs: CaseInputs
    index: CaseIndex
    baseline: RawResults
    screening: RawResults | None

    @classmethod
    def load(cls, run: ExperimentRun, case_id: str) -> _Case:
        inputs, index = run.inputs(case_id), run.index(case_id)
        has_screening = "screening" in inputs.selection.variants
        return cls(
            run=run,
            inputs=inputs,
            index=index,
            baseline=read_raw_results(run.root, index, "baseline"),
            screening=read_raw_results(run.root, index, "screening") if has_screening else None,
        )

    @property
    def eligibility(self) -> Eligibility:
        """Which tasks are reliable enough to be scored."""
        screening = self.screening.rewards() if self.screening is not None else None
        return assess_eligibility(self.inputs.selection.tasks, screening, self.run.experiment.analysis.scoring)


def score_variant(run: ExperimentRun, case_id: str, variant_id: str) -> MutantKills:
    """Stage 2 of one mutant or control: which tasks tell it from the baseline.

    Raises:
        EvidenceError: raw results of the variant, the baseline or the screening are missing or damaged.
    """
    return _score_variant(_Case.load(run, case_id), variant_id)


def _score_variant(case: _Case, variant_id: str) -> MutantKills:
    run, inputs, index = case.run, case.inputs, case.index
    results = case.baseline if variant_id == "baseline" else read_raw_results(run.root, index, variant_id)
    scoring = run.experiment.analysis.scoring
    shared = ["baseline"] if case.screening is None else ["baseline", "screening"]
    provenance = Provenance(
        "scoring",
        kills_inputs(inputs),
        raw_digests(index, *shared, variant_id),
    )
    path = run.root.mutant_kills(index.case, variant_id)
    found = current_record(path, MutantKills, provenance)
    if found is not None:
        return found
    operators = {mutant.id: mutant.operator.name for mutant in run.experiment.case(index.case).config.mutants}
    kills = score_mutant(
        scoring,
        case.eligibility,
        case.baseline.rewards(),
        results.rewards(),
        variant=variant_id,
        role="control" if inputs.selection.variants.get(variant_id) == "control" else "mutant",
        operator=operators.get(variant_id),
    )
    effect = compare_with_baseline(run.root, case.baseline, results)
    kills = kills.model_copy(update={**provenance.fields(), "is_inert": effect.is_inert, "effect": effect.reason})
    write_record(path, kills)
    return kills


def score_subsets(run: ExperimentRun, case_id: str) -> MutantScores:
    """Stage 2 of a case: each subset's mutant score, from the kills of all mutants and controls.

    Kills that are missing or out of date are computed first; they are cheap.
    """
    case = _Case.load(run, case_id)
    inputs, roles = case.inputs, case.inputs.selection.variants
    ordered = [v for v in roles if roles[v] == "mutant"] + [v for v in roles if roles[v] == "control"]
    kills = [_score_variant(case, variant) for variant in ordered]
    digests = {f"mutants/{v}": digest_file(run.root.mutant_kills(case_id, v)) for v in ordered}
    provenance = Provenance(
        "scoring",
        scores_inputs(inputs),
        {**digests, **raw_digests(case.index, "screening")},
    )
    path = run.root.mutant_scores(case_id)
    found = current_record(path, MutantScores, provenance)
    if found is not None:
        return found
    scores = score_case(case.eligibility, kills, inputs.subset_tasks).model_copy(update=provenance.fields())
    write_record(path, scores)
    return scores
