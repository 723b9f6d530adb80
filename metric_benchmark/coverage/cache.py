# SPDX-License-Identifier: Apache-2.0
"""Answers metrics have already given, one file per request digest; damaged ones count as not given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.answer_json import answer_from_json, answer_to_json
from metric_benchmark.coverage.protocol import Answer
from metric_benchmark.coverage.user_metric import Description, UserMetric
from metric_benchmark.errors import MetricError, Problem
from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark.hashing import canonical_json, digest_json

_SCHEMA = "metric-benchmark/coverage-answer/v1"


@dataclass(frozen=True)
class AnswerCache:
    """Cached answers below a folder; with no folder there is no cache."""

    folder: Path | None

    def path(self, metric: str, request_sha256: str) -> Path | None:
        """Returns where the answer to a request is or would be."""
        return None if self.folder is None else self.folder / metric / f"{request_sha256}.json"

    def get(self, metric: str, request_sha256: str) -> Answer | None:
        """Returns the cached answer, or None where there is none that can be believed."""
        value = _read(self.path(metric, request_sha256), request_sha256)
        try:
            return None if value is None else answer_from_json(metric, value)
        except MetricError:
            return None

    def put(self, metric: str, request_sha256: str, answer: Answer) -> None:
        """Keeps a checked answer.

        Raises:
            StorageError: it cannot be written.
        """
        path = self.path(metric, request_sha256)
        if path is not None:
            _write(path, metric, request_sha256, answer_to_json(answer))

    def described(self, metric: UserMetric, settings: Mapping[str, Any], *, replay: bool) -> Description:
        """Returns what a user's metric says of itself, asking it only if it was not asked before.

        Raises:
            ConfigError: the metric or its settings are wrong.
            MetricError: it would have to be asked, which `replay` forbids.
        """
        key = digest_json(["describe", metric.code.target, metric.code.sha256, settings])
        path = None if self.folder is None else self.folder / metric.name / f"{key}.description.json"
        known = _read(path, key)
        if known is not None:
            return Description(**known)
        if replay:
            raise MetricError(Problem(f"metric {metric.name}", missing(path)))
        found = metric.describe(settings)
        if path is not None:
            _write(path, metric.name, key, asdict(found))
        return found


def missing(path: Path | None) -> str:
    """Says that replay misses an answer."""
    where = path or "there is no cache"
    return f"replay was asked for, but no answer is cached ({where}); nothing was launched; run without replay"


def _read(path: Path | None, key: str) -> Any:
    """Returns what a file keeps, or None where it is missing or damaged."""
    if path is None:
        return None
    try:
        entry: Any = json.loads(path.read_bytes())
        value = entry["answer"]
        intact = entry["request_sha256"] == key and entry["answer_sha256"] == digest_json(value)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if intact else None


def _write(path: Path, metric: str, key: str, value: Any) -> None:
    entry = {
        "schema": _SCHEMA,
        "metric": metric,
        "request_sha256": key,
        "answer": value,
        "answer_sha256": digest_json(value),
    }
    write_bytes(path, canonical_json(entry) + b"\n")
