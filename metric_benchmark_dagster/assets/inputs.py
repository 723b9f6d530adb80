# SPDX-License-Identifier: Apache-2.0
"""The observed inputs: what decides a variant's trials, and what decides a case's analysis."""

import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import dagster as dg

from metric_benchmark.config import Case, Experiment
from metric_benchmark.hashing import digest_json
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster.assets.shared import stage_tags
from metric_benchmark_dagster.partitions import PartitionKeys
from metric_benchmark_dagster.resources import ExperimentResource

_TAGS = {**stage_tags("inputs"), "dagster/kind/yaml": ""}


class InputAssets(NamedTuple):
    """The two observed inputs."""

    variants: dg.SourceAsset
    cases: dg.SourceAsset


def input_assets(keys: PartitionKeys, key_prefix: Sequence[str]) -> InputAssets:
    """Makes the observed inputs."""
    with _beta_accepted():
        return InputAssets(_variant_inputs(keys, key_prefix), _case_inputs(keys, key_prefix))


def _variant_inputs(keys: PartitionKeys, key_prefix: Sequence[str]) -> dg.SourceAsset:
    @dg.observable_source_asset(  # pyright: ignore[reportUnknownMemberType]
        key_prefix=list(key_prefix) or None,
        partitions_def=keys.variant_partitions,
        group_name="inputs",
        tags=_TAGS,
        description="What can change the outcome of a variant's trials: agent, operator and their code, tasks, "
        "environment, timeouts, attempts. The observed data version of `case|variant` is its config hash.",
    )
    def variant_inputs(experiment: ExperimentResource) -> dg.DataVersionsByPartition:
        with experiment.step(level="all", lock=None) as step:
            variants = resolve_variants(step.run.experiment)
        known = {variant.key: variant.config_hash for variant in variants}
        return _versions(keys.roles, known)

    return variant_inputs


def _case_inputs(keys: PartitionKeys, key_prefix: Sequence[str]) -> dg.SourceAsset:
    @dg.observable_source_asset(  # pyright: ignore[reportUnknownMemberType]
        key_prefix=list(key_prefix) or None,
        partitions_def=keys.case_partitions,
        group_name="inputs",
        tags=_TAGS,
        description="What decides a case's analysis besides its results: the list of its mutants, its tasks and "
        "subsets, its description, and the analysis settings. The observed data version of a case is their digest.",
    )
    def case_inputs(experiment: ExperimentResource) -> dg.DataVersionsByPartition:
        with experiment.step(lock=None) as step:
            loaded = step.run.experiment
        known = {case.case_id: case_digest(loaded, case) for case in loaded.cases}
        return _versions(keys.cases, known)

    return case_inputs


def _versions(keys: Iterable[str], known: Mapping[str, str]) -> dg.DataVersionsByPartition:
    """Versions of the partitions Dagster knows; the others appear when the code location is loaded again."""
    with _beta_accepted():
        return dg.DataVersionsByPartition({key: known[key] for key in keys if key in known})


@contextmanager
def _beta_accepted() -> Generator[None]:
    """Observable source assets and their versions are marked beta; there is nothing else that does this."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield


def case_digest(experiment: Experiment, case: Case) -> str:
    """Digests what decides a case's analysis besides its results."""
    return digest_json(
        {
            "mutants": [mutant.id for mutant in case.config.mutants],
            "tasks": {task.id: task.sha256 for task in case.config.tasks},
            "subsets": case.subsets.model_dump(mode="json"),
            "description": case.description.model_dump(mode="json"),
            "analysis": experiment.analysis.model_dump(mode="json"),
        }
    )
