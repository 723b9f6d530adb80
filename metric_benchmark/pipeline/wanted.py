# SPDX-License-Identifier: Apache-2.0
"""Names what each stage's record of a case would be made from now: settings, pinned files, the code of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metric_benchmark.config import Experiment
from metric_benchmark.coverage.inputs import digest_files, locator
from metric_benchmark.coverage.registry import MetricSpec, ResolvedMetric, resolve_metric
from metric_benchmark.errors import ConfigError
from metric_benchmark.execution.variant import Variant
from metric_benchmark.hashing import digest_json
from metric_benchmark.keys import harbor_version
from metric_benchmark.pipeline.inputs import CaseInputs


def raw_inputs(variant: Variant, reward_key: str) -> dict[str, str]:
    """Names what decides the trials of a variant; its config hash sums them up."""
    return {
        "attempts": str(variant.attempts),
        "environment": digest_json(dict(variant.environment.identity)),
        "reward_key": reward_key,
        "harbor": harbor_version(),
        **variant.inputs,
    }


def kills_inputs(inputs: CaseInputs) -> dict[str, str]:
    """Names the settings that a mutant's kills depend on."""
    selection = inputs.selection
    return {"scoring": digest_json(selection.scoring), "tasks": digest_json(list(selection.tasks))}


def scores_inputs(inputs: CaseInputs) -> dict[str, str]:
    """Names the settings that a case's mutant scores depend on."""
    return {"scoring": digest_json(inputs.selection.scoring), "subsets": digest_json(inputs.subsets.to_json())}


def correlation_inputs(inputs: CaseInputs, n_cases: int) -> dict[str, str]:
    """Names the settings that a case's correlation depends on.

    The family of claims is all hypotheses times all cases, so a case more makes every verdict stricter.
    """
    return {
        "correlation": digest_json(inputs.selection.correlation),
        "subsets": digest_json(inputs.subsets.to_json()),
        "n_cases": str(n_cases),
    }


@dataclass(frozen=True)
class Metrics:
    """The configured coverage metrics as far as they can be known without launching any.

    Attributes:
        resolved: by label; None where the metric cannot be found.
    """

    resolved: Mapping[str, ResolvedMetric | None]

    @classmethod
    def of(cls, experiment: Experiment) -> Metrics:
        """Finds the metrics of an experiment."""
        base = experiment.analysis_source.path.parent
        found: dict[str, ResolvedMetric | None] = {}
        for metric in experiment.analysis.coverage:
            spec = MetricSpec(metric.name, metric.metric, metric.settings)
            try:
                found[metric.name] = resolve_metric(spec, base, None)
            except ConfigError:
                found[metric.name] = None
        return cls(found)

    def inputs(self, experiment: Experiment, inputs: CaseInputs) -> dict[str, str]:
        """Names what a case's coverage depends on besides traces."""
        base = experiment.analysis_source.path.parent
        named = coverage_inputs(inputs)
        for name, metric in self.resolved.items():
            named[f"code:{name}"] = "cannot be found" if metric is None else metric.code_sha256
            if metric is not None:
                locate = locator(f"metric {name}", inputs.selection.case, base, experiment.roots)
                try:
                    files = metric.find_files(locate)
                except ConfigError:
                    named[f"files:{name}"] = "cannot be found"
                    continue
                if files:
                    named[f"files:{name}"] = digest_json(digest_files(files))
        return named


def coverage_inputs(inputs: CaseInputs) -> dict[str, str]:
    """Names the settings that a case's coverage depends on."""
    return {
        "subsets": digest_json(inputs.subsets.to_json()),
        "metrics": digest_json(inputs.metrics.to_json()),
        "description": digest_json(inputs.description.to_json()),
    }
