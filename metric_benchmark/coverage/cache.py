# SPDX-License-Identifier: Apache-2.0
"""Answers metrics have already given, one file per request digest; damaged ones count as not given."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.answer_json import answer_from_json, answer_to_json
from metric_benchmark.coverage.protocol import Answer
from metric_benchmark.errors import MetricError, StorageError
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
        path = self.path(metric, request_sha256)
        if path is None:
            return None
        try:
            entry: Any = json.loads(path.read_bytes())
            answer = entry["answer"]
            if entry["request_sha256"] != request_sha256 or entry["answer_sha256"] != digest_json(answer):
                return None
            return answer_from_json(metric, answer)
        except (OSError, ValueError, KeyError, TypeError, MetricError):
            return None

    def put(self, metric: str, request_sha256: str, answer: Answer) -> None:
        """Keeps a checked answer.

        Raises:
            StorageError: it cannot be written.
        """
        path = self.path(metric, request_sha256)
        if path is None:
            return
        value = answer_to_json(answer)
        entry = {
            "schema": _SCHEMA,
            "metric": metric,
            "request_sha256": request_sha256,
            "answer": value,
            "answer_sha256": digest_json(value),
        }
        try:
            _write_atomically(path, canonical_json(entry))
        except OSError as error:
            raise StorageError(f"{path}: the answer of a metric cannot be kept: {error.strerror}") from error


def _write_atomically(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".answer-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
