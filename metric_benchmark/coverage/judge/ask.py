# SPDX-License-Identifier: Apache-2.0
"""Gets questions answered: from what is kept, else from the model, within the budget, keeping each answer at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.judge.prompts import Question, Verdict
from metric_benchmark.errors import MetricError, Problem
from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark.hashing import canonical_json, digest_json

_SCHEMA = "metric-benchmark/model-judgment/v1"
#: Questions that may fail before the rest is not asked at all.
_MAX_FAILURES = 3


@dataclass(frozen=True)
class AskOptions:
    """How to ask; all but the last three are part of what an answer is kept under."""

    model: str
    api_base: str | None
    temperature: float
    max_answer_tokens: int
    tries: int
    timeout_s: float
    network_retries: int
    concurrency: int

    def key(self, question: Question) -> str:
        """Digest of all that decides the answer; the prompt holds the trace and so is bound to it."""
        return digest_json(
            {
                "model": self.model,
                "api_base": self.api_base,
                "temperature": self.temperature,
                "max_answer_tokens": self.max_answer_tokens,
                "tries": self.tries,
                "trace_sha256": question.trace_sha256,
                "messages": list(question.messages),
            }
        )


@dataclass(frozen=True)
class Budget:
    """What may be spent in one run.

    Args:
        max_calls: questions that may be put to the model.
        max_cost_usd: stop as soon as this much was spent; None does not look at costs.
    """

    max_calls: int
    max_cost_usd: float | None


def ask_all(
    questions: Sequence[Question], options: AskOptions, budget: Budget, *, name: str, keep: Path | None
) -> list[Verdict | None]:
    """Gets all questions answered.

    Args:
        questions: what to ask.
        options: how.
        budget: checked before the first call and after every answer.
        name: the metric, for messages.
        keep: folder of kept prompts and answers; None keeps nothing.

    Returns:
        One verdict per question; None where the model gave no valid answer.

    Raises:
        MetricError: over budget, or the model cannot be asked. What was answered until then is kept.
    """
    keys = [options.key(question) for question in questions]
    known = {key: entry for key in keys if (entry := _kept(keep, key)) is not None}
    todo = {key: question for key, question in zip(keys, questions, strict=True) if key not in known}
    place = f"metric {name}"
    if len(todo) > budget.max_calls:
        raise MetricError(
            Problem(
                place,
                f"{len(todo)} questions are open and `max_calls` is {budget.max_calls}; nothing was asked; raise it, "
                f"or have fewer items",
            )
        )
    spent = 0.0
    failures: list[str] = []
    with contextlib.closing(_replies(place, todo, options)) as replies:
        for reply in replies:
            key = reply["key"]
            if "failed" in reply:
                # One may be bad luck, and answers under way are paid for; several mean that nothing works.
                failures.append(reply["failed"])
                if len(failures) >= _MAX_FAILURES:
                    break
                continue
            known[key] = reply
            _keep(keep, key, todo[key], options, reply)
            if budget.max_cost_usd is None:
                continue
            if reply["cost_usd"] is None:
                raise MetricError(
                    Problem(place, f"LiteLLM has no price for {options.model}; limit it by `max_calls` instead")
                )
            spent += reply["cost_usd"]
            if spent > budget.max_cost_usd:
                raise MetricError(
                    Problem(
                        place,
                        f"stopped at {spent:.4f} USD, over `max_cost_usd` of {budget.max_cost_usd}; the "
                        f"{len(known)} of {len(keys)} answers so far are kept; raise it and run again",
                    )
                )
    if failures:
        message = f"{options.model} could not be asked {len(failures)} times: {failures[0]}; run again to ask the rest"
        raise MetricError(Problem(place, message))
    verdicts = (known[key]["verdict"] for key in keys)
    return [None if verdict is None else Verdict.model_validate(verdict) for verdict in verdicts]


def _replies(place: str, todo: Mapping[str, Question], options: AskOptions) -> Generator[dict[str, Any]]:
    """Yields replies as the child gives them; leaving early ends the child."""
    if not todo:
        return
    order = {
        "options": asdict(options),
        "questions": [{"key": key, "messages": list(question.messages)} for key, question in todo.items()],
    }
    # Without the first, LiteLLM fetches its price list from the network at every start.
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONDONTWRITEBYTECODE": "1"}
    with (
        tempfile.TemporaryDirectory(prefix="mb-judge-") as folder,
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as log,
    ):
        given.write(json.dumps(order).encode())
        given.seek(0)
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "metric_benchmark.coverage.judge.child_main"],
            cwd=folder,
            env=environment,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        ) as process:
            assert process.stdout
            n_replies = 0
            try:
                for line in process.stdout:
                    yield json.loads(line)
                    n_replies += 1
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if n_replies < len(todo):
            log.seek(0)
            tail = log.read()[-2000:].decode(errors="replace").strip()
            raise MetricError(Problem(place, f"the process that asks {options.model} ended early:\n{tail}"))


def _kept(keep: Path | None, key: str) -> dict[str, Any] | None:
    if keep is None:
        return None
    try:
        entry: dict[str, Any] = json.loads((keep / f"{key}.json").read_bytes())
        intact = entry["key"] == key and entry["reply_sha256"] == digest_json(entry["reply"])
        return entry["reply"] if intact else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(keep: Path | None, key: str, question: Question, options: AskOptions, reply: Mapping[str, Any]) -> None:
    if keep is None:
        return
    entry = {
        "schema": _SCHEMA,
        "key": key,
        "model": options.model,
        "question": {**asdict(question), "messages": list(question.messages)},
        "reply": dict(reply),
        "reply_sha256": digest_json(dict(reply)),
    }
    write_bytes(keep / f"{key}.json", canonical_json(entry) + b"\n")
