# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the YAML files, made from their models: for editors that check and complete while one types."""

from __future__ import annotations

from typing import Any

from metric_benchmark.config.fields import Config
from metric_benchmark.config.models import (
    AnalysisConfig,
    CaseConfig,
    CasesConfig,
    DescriptionConfig,
    ExecutionConfig,
    ExperimentConfig,
    SubsetsConfig,
)

#: The model of every kind of file; a kind is the middle of `schema: metric-benchmark/<kind>/v1`.
KINDS: dict[str, type[Config]] = {
    "experiment": ExperimentConfig,
    "cases": CasesConfig,
    "case": CaseConfig,
    "description": DescriptionConfig,
    "subsets": SubsetsConfig,
    "execution": ExecutionConfig,
    "analysis": AnalysisConfig,
}
# What the models accept besides their own form: short spellings that a validator unfolds before they are checked.
_SHORT = {
    ("ExecutionConfig", "environment"): {"type": "string", "description": "auto, local, docker, or a Harbor type"},
    ("MutantConfig", "operator"): {"type": "string", "pattern": "^external/"},
    ("MutantConfig", "agent"): {"const": "inherit"},
}


def json_schemas() -> dict[str, dict[str, Any]]:
    """Returns the JSON schema (draft 2020-12) of every kind of file, by kind.

    A schema accepts whatever the loader accepts; the loader refuses more (pins, paths, ids given twice).
    """
    return {kind: _schema(kind, model) for kind, model in KINDS.items()}


def _schema(kind: str, model: type[Config]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True)
    for name, shape in [(model.__name__, schema), *schema.get("$defs", {}).items()]:
        for (owner, field), short in _SHORT.items():
            if owner == name:
                shape["properties"][field] = {"anyOf": [short, shape["properties"][field]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"{kind}.yaml"}
