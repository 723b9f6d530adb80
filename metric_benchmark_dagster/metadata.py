# SPDX-License-Identifier: Apache-2.0
"""What a materialisation says: hashes, input digests, counts, duration, cost, evidence, a table, a plot."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from metric_benchmark.execution.runner import VariantRun
from metric_benchmark.hashing import digest_file, digest_json
from metric_benchmark.pipeline import implementation
from metric_benchmark.records.analysis import ExperimentSeal
from metric_benchmark.records.base import Defined, Record, Undefined
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.coverage import CoverageRecord, SubsetCoverage
from metric_benchmark.records.execution import ExecutionManifest, RawResults
from metric_benchmark.records.scores import MutantKills, MutantScores, MutantStatus
from metric_benchmark.reporting.data import ReportData
from metric_benchmark.reporting.plots import (
    plot_correlation,
    plot_cover_matrix,
    plot_kill_matrix,
    plot_kills,
    plot_rewards,
)
from metric_benchmark.reporting.pooled import pooled_rows
from metric_benchmark.reporting.table import summary_rows
from metric_benchmark_dagster import columns
from metric_benchmark_dagster.plots import inline_image, plot_bars
from metric_benchmark_dagster.resources import Step

type Metadata = dict[str, Any]
type Cell = str | int | float | bool | None

#: Tables are stored with the event; beyond this many rows the file is the place to look.
MAX_ROWS = 200


def table(described: columns.Columns, rows: Sequence[Sequence[Cell]]) -> dg.TableMetadataValue:
    """Makes a table whose columns are described.

    Args:
        described: its columns.
        rows: one cell per column.
    """
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(described, row, strict=True))) for row in rows[:MAX_ROWS]],
        schema=columns.schema(described),
    )


def provenance(
    step: Step,
    record: Record,
    path: Path,
    *,
    stage: str,
    config_hash: str | None = None,
    digests: Mapping[str, str] | None = None,
    cost_usd: float | None = 0.0,
) -> Metadata:
    """Returns what every materialisation records.

    Args:
        step: the step that wrote the record.
        record: what was written.
        path: where.
        stage: whose code decides it.
        config_hash: of a variant; other records take the digest of all their configured inputs.
        digests: what it was made from, where the record does not say so under `inputs` and `evidence`.
        cost_usd: what trials cost; None when none of them says.
    """
    return {
        "implementation_hash": implementation(stage).stage_sha256,
        "config_hash": config_hash or digest_json(record.inputs),
        "input_digests": dg.MetadataValue.json(digests or {"inputs": record.inputs, "evidence": record.evidence}),
        "duration_s": round(step.duration_s, 3),
        "cost_usd": "not reported by the agent" if cost_usd is None else cost_usd,
        "evidence": dg.PathMetadataValue(str(path)),
        "run_id": step.run.run_id,
    }


def materialised(path: Path, metadata: Metadata) -> dg.MaterializeResult[Any]:
    """Reports a record as materialised; its version is its digest, so unchanged evidence makes nothing stale."""
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(digest_file(path)))


def describe_raw_results(step: Step, done: VariantRun, path: Path) -> Metadata:
    """Describes stage 1 of one variant."""
    results = done.results
    return {
        "n_trials": len(results.trials),
        "n_run": done.n_run,
        "n_kept": done.n_kept,
        "n_without_verdict": results.n_without_verdict,
        "mean_reward": mean_reward(results),
        "plot": picture(plot_rewards(results), "mean reward by task"),
        **provenance(
            step,
            results,
            path,
            stage="execution",
            config_hash=results.config_hash,
            cost_usd=results.cost_usd,
        ),
        "harbor_view": f"harbor view {path.parent / 'jobs'}",
        "trials": table(
            columns.TRIALS,
            [
                [t.task, t.attempt, t.status, t.reward, _rounded(t.duration_s), t.cost_usd, t.reason]
                for t in results.trials
            ],
        ),
    }


def describe_kills(step: Step, kills: MutantKills, path: Path) -> Metadata:
    """Describes the kills of one mutant or control."""
    return {
        "status": kills.status,
        "role": kills.role,
        "operator": kills.operator or "none (the baseline again)",
        "n_killing_tasks": len(kills.killed_by),
        "n_tested_tasks": len(kills.tested_tasks),
        "n_undetermined_tasks": len(kills.undetermined_tasks),
        "plot": picture(plot_kills(kills), "tasks that kill it"),
        **_warnings(kills.warnings),
        **provenance(step, kills, path, stage="scoring"),
        "kills": table(
            columns.KILLS,
            [
                [task, k.outcome, k.mean_baseline, k.mean_mutant, k.p_adjusted, k.reason]
                for task, k in kills.tasks.items()
            ],
        ),
    }


def describe_scores(step: Step, scores: MutantScores, path: Path) -> Metadata:
    """Describes a case's mutant scores."""
    return {
        "n_mutants": scores.n_mutants,
        "n_killed": sum(m.status == "killed" for m in scores.mutants.values()),
        "n_dominators": scores.n_dominators,
        "n_undetermined": scores.n_undetermined,
        "n_subsets": len(scores.subsets),
        "n_eligible_tasks": len(scores.eligible_tasks),
        "mean_mutant_score": _mean(s.score for s in scores.subsets.values()),
        "plot": picture(plot_kill_matrix(scores), "kill matrix"),
        **_warnings(scores.warnings),
        **provenance(step, scores, path, stage="scoring"),
        "mutants": table(
            columns.MUTANTS,
            [
                [name, m.operator, m.status, len(m.killed_by), _remarks(m)]
                for name, m in {**scores.mutants, **scores.controls}.items()
            ],
        ),
    }


def describe_coverage(step: Step, coverage: CoverageRecord, path: Path) -> Metadata:
    """Describes a case's coverage by every metric."""
    means = {name: _share_mean(metric.subsets.values()) for name, metric in coverage.metrics.items()}
    # The first metric with a cover matrix says most at a glance.
    drawn = next((name for name, m in coverage.metrics.items() if m.kind == "items"), next(iter(coverage.metrics)))
    return {
        "n_metrics": len(coverage.metrics),
        "plot": picture(plot_cover_matrix(drawn, coverage.metrics[drawn]), f"cover matrix of {drawn}"),
        **provenance(step, coverage, path, stage="coverage"),
        "metrics": table(
            columns.METRICS,
            [
                [name, m.kind, len(m.items), len(m.unmeasured_tasks), means[name], m.label]
                for name, m in coverage.metrics.items()
            ],
        ),
    }


def describe_correlation(step: Step, correlation: Correlation, path: Path) -> Metadata:
    """Describes what stage 4 says about a case."""
    return {
        "n_subsets": correlation.n_subsets,
        "n_tasks": correlation.n_tasks,
        "n_mutants": correlation.n_mutants,
        "n_dominators": correlation.n_dominators,
        "plot": picture(plot_correlation(correlation), "mutant score by coverage"),
        **_warnings(correlation.warnings),
        **provenance(step, correlation, path, stage="correlation"),
        "estimates": table(
            columns.ESTIMATES,
            [
                [
                    name,
                    _number(m.estimates.spearman),
                    _number(m.estimates.partial_spearman_given_size),
                    _number(m.estimates.kendall_tau_b),
                    m.verdict.verdict,
                    m.verdict.reason,
                ]
                for name, m in correlation.metrics.items()
            ],
        ),
    }


def describe_manifest(step: Step, manifest: ExecutionManifest, results: Sequence[RawResults]) -> Metadata:
    """Describes the sealed inventory of stage 1."""
    means = {f"{r.case}|{r.variant}": mean_reward(r) for r in results}
    costs = [r.cost_usd for r in results if r.cost_usd is not None]
    return {
        "n_cases": len(manifest.cases),
        "n_variants": len(results),
        "n_trials": sum(len(r.trials) for r in results),
        "n_without_verdict": sum(r.n_without_verdict for r in results),
        "plot": picture(plot_bars(means, title="mean reward by variant"), "mean reward by variant"),
        **provenance(
            step,
            manifest,
            step.run.root.manifest,
            stage="execution",
            config_hash=manifest.cases_sha256,
            digests={"cases.yaml": manifest.cases_sha256}
            | {entry.index: entry.index_sha256 for entry in manifest.cases.values()},
            cost_usd=sum(costs) if costs else None,
        ),
        "variants": table(
            columns.VARIANTS,
            [
                [key, r.role, len(r.trials), mean, r.config_hash[:16]]
                for (key, mean), r in zip(means.items(), results, strict=True)
            ],
        ),
    }


def describe_report(step: Step, seal: ExperimentSeal, data: ReportData, path: Path) -> Metadata:
    """Describes the sealed experiment and its report."""
    rows = summary_rows(data)
    estimates = {f"{row['case']}: {row['metric']}": row["partial_rho"] for row in rows}
    title = "partial Spearman given size, by case and metric"
    return {
        "n_cases": len(seal.cases),
        "n_trials": seal.n_trials,
        "n_without_verdict": seal.n_without_verdict,
        "environments": ", ".join(seal.environments),
        "native_validation": seal.native_validation,
        "plot": picture(plot_bars(estimates, title=title, limits=(-1, 1)), title),
        **provenance(step, seal, step.run.root.experiment, stage="reporting"),
        "report": dg.PathMetadataValue(str(path)),
        "verdicts": table(
            columns.VERDICTS,
            [
                [
                    row["case"],
                    row["metric"],
                    row["n_subsets"],
                    _rounded(row["rho"]),
                    _rounded(row["partial_rho"]),
                    _rounded(row["p_adjusted"]),
                    row["verdict"],
                    row["reason"],
                ]
                for row in rows
            ],
        ),
        **_pooled(data),
    }


def _pooled(data: ReportData) -> Metadata:
    """Each metric over all cases, where there are several."""
    rows = pooled_rows(data)
    if not rows:
        return {}
    return {
        "pooled": table(
            {
                "metric": ("string", "the metric's label"),
                "n_cases": ("int", "cases that could be pooled"),
                "n_mutants": ("int", "mutants each case was brought to"),
                "calibrated": ("float", "pooled association less its mean under permutation"),
                "ci_low": ("float", "95% interval of the mean over such cases"),
                "ci_high": ("float", "its upper end"),
                "remarks": ("string", "why cases are only listed, or left out"),
            },
            [
                [
                    row["metric"],
                    row["n_cases"],
                    row["n_mutants"],
                    _rounded(row["calibrated"]),
                    _rounded(row["ci_low"]),
                    _rounded(row["ci_high"]),
                    "; ".join(text for text in (row["reason"], *row["notes"]) if text),
                ]
                for row in rows
            ],
        )
    }


def picture(png: bytes, alt: str) -> dg.MarkdownMetadataValue:
    """Makes a picture that a materialisation carries with it."""
    return dg.MetadataValue.md(inline_image(png, alt))


def mean_reward(results: RawResults) -> float | None:
    """Mean reward of the attempts that count; None when none does."""
    return _mean(reward for rewards in results.rewards().values() for reward in rewards)


def _number(value: Defined | Undefined) -> float | None:
    return _rounded(value.value) if isinstance(value, Defined) else None


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(sum(found) / len(found), 4) if found else None


def _rounded(value: float | None) -> float | None:
    """Rounds for the eye; the record has all digits."""
    return None if value is None else round(value, 4)


def _share_mean(subsets: Iterable[SubsetCoverage]) -> float | None:
    return _mean(s.coverage for s in subsets if not isinstance(s.coverage, Undefined))


def _remarks(mutant: MutantStatus) -> str:
    flags = ["trivial"] * mutant.is_trivial + ["dominator"] * mutant.is_dominator
    flags += ["inert"] * (mutant.is_inert is True) + ["never killed"] * mutant.is_never_killed
    flags += [f"duplicate of {mutant.duplicate_of}"] if mutant.duplicate_of else []
    return ", ".join(flags)


def _warnings(warnings: Sequence[str]) -> Metadata:
    return {"warnings": dg.MetadataValue.md("\n".join(f"- {text}" for text in warnings))} if warnings else {}
