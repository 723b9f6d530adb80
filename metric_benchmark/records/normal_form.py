# SPDX-License-Identifier: Apache-2.0
"""The normal form of a trajectory: what an agent did and saw, without what differs between any two runs.

Two trials with one digest behaved alike: same messages, same calls, same observations, in the same order. Times, ids,
token counts and names of agents and models are no behaviour.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metric_benchmark.hashing import canonical_json
from metric_benchmark.records.trajectories import root_trajectories, trajectory_files

#: Keys of an `extra` that tell when, how long, how much, or which run; nothing inside a call's arguments is dropped.
_INCIDENTAL = re.compile(
    r"(^|_)(timestamp|time|date|duration|elapsed|latency|started|finished|at|s|ms|sec|seconds|id|ids|uuid|cost|usd|tokens?|"
    r"logprobs|metrics|path)$"
)
_MAX_BYTES = 64 * 1024 * 1024

type Json = dict[str, Any]


def normal_digest(trial: Path) -> str | None:
    """Returns one digest for the behaviour in a trial folder, or None where it has no trajectory.

    Raises:
        ValueError: a file is no JSON object with steps, or too long to compare.
        OSError: a file cannot be read.
    """
    roots = root_trajectories(trial)
    if not roots:
        return None
    others = [path for path in trajectory_files(trial) if path not in roots]
    files = [*roots, *others]
    if sum(path.stat().st_size for path in files) > _MAX_BYTES:
        raise ValueError(f"its trajectory has more than {_MAX_BYTES >> 20} MiB")
    found = hashlib.sha256()
    for path in files:
        found.update(b"file\n")
        # Step by step: the normal form of a long trajectory would take as much room again as the trajectory.
        for part in normal_form(json.loads(path.read_bytes())):
            found.update(canonical_json(part) + b"\n")
    return found.hexdigest()


def normal_form(trajectory: Any) -> Iterator[Any]:
    """Yields what counts of one ATIF trajectory: its steps, then those of each embedded subagent.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(trajectory, dict) or not isinstance(trajectory.get("steps"), list):  # pyright: ignore[reportUnknownMemberType]
        raise ValueError("its trajectory is no ATIF document")
    document: Json = trajectory  # pyright: ignore[reportUnknownVariableType]
    for step in document["steps"]:
        if not isinstance(step, dict):
            raise ValueError("its trajectory is no ATIF document")
        yield _step(step)  # pyright: ignore[reportUnknownArgumentType]
    for other in document.get("subagent_trajectories") or ():
        yield "subagent"
        yield from normal_form(other)


def _step(step: Json) -> Json:
    calls: list[Json] = step.get("tool_calls") or []
    numbers = {call.get("tool_call_id"): number for number, call in enumerate(calls)}
    observation: Json = step.get("observation") or {}
    return {
        "source": step.get("source"),
        "message": step.get("message"),
        "reasoning": step.get("reasoning_content"),
        "calls": [[call.get("function_name"), call.get("arguments"), _kept(call.get("extra"))] for call in calls],
        "observations": [
            [numbers.get(result.get("source_call_id")), result.get("content"), _kept(result.get("extra"))]
            for result in observation.get("results") or ()
        ],
        "extra": _kept(step.get("extra")),
    }


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kept(child) for key, child in value.items() if not _INCIDENTAL.search(str(key))}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_kept(child) for child in value]  # pyright: ignore[reportUnknownVariableType]
    return value
