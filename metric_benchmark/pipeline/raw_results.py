# SPDX-License-Identifier: Apache-2.0
"""Stage 1 of one variant on an evidence root."""

from __future__ import annotations

from metric_benchmark.errors import ConfigError
from metric_benchmark.evidence.index import open_root
from metric_benchmark.evidence.ledger import restore_cases
from metric_benchmark.evidence.locks import lock_root
from metric_benchmark.execution.runner import OnProgress, VariantRun, run_variant
from metric_benchmark.pipeline.checking import refuse_variants
from metric_benchmark.pipeline.inputs import ExperimentRun
from metric_benchmark.pipeline.provenance import implementation
from metric_benchmark.pipeline.registration import register_claims
from metric_benchmark.pipeline.saved import require_own_execution
from metric_benchmark.variants import resolve_variants


def run_raw_results(run: ExperimentRun, case_id: str, variant_id: str, on_progress: OnProgress) -> VariantRun:
    """Stage 1 of one variant; other variants may run beside it.

    Raises:
        ConfigError: there is no such variant, a task or agent is refused, or the folder holds something else.
        EvidenceError: the root holds another run's evidence or only an analysis, trials nobody planned, or native files
            that differ from what was recorded of them.
        ExecutionError: Harbor cannot run the job.
        LockedError: the root or the variant is in use.
        StorageError: the disk is full or not writable.
    """
    require_own_execution(run.root)
    variants = {v.variant_id: v for v in resolve_variants(run.experiment, case_id=case_id)}
    variant = variants.get(variant_id)
    if variant is None:
        raise ConfigError(f"case {case_id!r} has no variant {variant_id!r}; it has: {', '.join(variants)}")
    refuse_variants(run, [variant])
    with lock_root(run.root, "shared"):
        open_root(run.root, run.run_id, implementation("execution"))
        restore_cases(run.root, [case_id])
        register_claims(run, case_id)
        return run_variant(
            run.root,
            variant,
            run.experiment.execution,
            run_id=run.run_id,
            implementation=implementation("execution"),
            on_progress=on_progress,
        )
