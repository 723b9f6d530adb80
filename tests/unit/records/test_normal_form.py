# SPDX-License-Identifier: Apache-2.0
"""What counts as the same behaviour: times, ids and counts do not; messages, calls and observations do."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from metric_benchmark.records import normal_form as module
from metric_benchmark.records.normal_form import normal_digest

ONE = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s-1",
    "trajectory_id": "t-1",
    "agent": {"name": "a", "version": "1", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Do it.", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "reasoning_content": "hm",
            "timestamp": "2026-01-01T00:00:01Z",
            "tool_calls": [
                {"tool_call_id": "x-1", "function_name": "read", "arguments": {"id": 7, "path": "a.txt"}},
                {"tool_call_id": "x-2", "function_name": "list", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "x-1", "content": "hello"},
                    {"source_call_id": "x-2", "content": None, "extra": {"return_code": 0, "duration_s": 0.1}},
                ]
            },
            "metrics": {"prompt_tokens": 10, "cost_usd": 0.1},
            "extra": {"return_code": 0, "elapsed": 3, "inner": [{"request_id": "r", "kind": "k"}]},
        },
    ],
    "final_metrics": {"total_cost_usd": 1.0},
}


def normal_form(trajectory: dict) -> list:
    return list(module.normal_form(trajectory))


def changed(path: str, value: object) -> dict:
    found = copy.deepcopy(ONE)
    at: object = found
    *parts, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in parts:
        at = at[part]  # type: ignore[index]
    at[last] = value  # type: ignore[index]
    return found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("session_id", "s-2"),
        ("trajectory_id", "t-2"),
        ("schema_version", "ATIF-v1.8"),
        ("agent/name", "another"),
        ("agent/model_name", "other"),
        ("final_metrics", None),
        ("steps/0/timestamp", "2027-01-01T00:00:00Z"),
        ("steps/1/metrics", None),
        ("steps/1/extra/elapsed", 9),
        ("steps/1/extra/inner/0/request_id", "q"),
        ("steps/1/observation/results/1/extra/duration_s", 8.0),
        ("notes", "written by hand"),
    ],
)
def test_what_is_no_behaviour(path, value):
    assert normal_form(changed(path, value)) == normal_form(ONE)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("steps/0/message", "Do that."),
        ("steps/0/source", "system"),
        ("steps/1/message", "done"),
        ("steps/1/reasoning_content", None),
        ("steps/1/tool_calls/0/function_name", "write"),
        ("steps/1/tool_calls/0/arguments/id", 8),
        ("steps/1/tool_calls/0/arguments/path", "b.txt"),
        ("steps/1/observation/results/0/content", "hello "),
        ("steps/1/observation/results/0/source_call_id", "x-2"),
        ("steps/1/extra/return_code", 1),
        ("steps/1/extra/inner/0/kind", "other"),
        ("subagent_trajectories", [{"trajectory_id": "u", "steps": []}]),
    ],
)
def test_what_is_behaviour(path, value):
    assert normal_form(changed(path, value)) != normal_form(ONE)


def test_call_ids_count_by_their_place():
    other = json.loads(json.dumps(ONE).replace("x-1", "call_93").replace("x-2", "call_17"))
    assert normal_form(other) == normal_form(ONE)


def test_the_order_of_steps_counts():
    assert normal_form({**ONE, "steps": ONE["steps"][::-1]}) != normal_form(ONE)


def write(folder: Path, **files: object) -> Path:
    for name, value in files.items():
        path = folder / "agent" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return folder


def test_a_trial_is_all_its_files(tmp_path):
    one = normal_digest(write(tmp_path / "1", trajectory=ONE))
    assert one == normal_digest(write(tmp_path / "2", trajectory=changed("session_id", "other")))
    with_continuation = normal_digest(write(tmp_path / "3", **{"trajectory": ONE, "trajectory.cont-1": ONE}))
    assert with_continuation not in (one, None)
    assert normal_digest(tmp_path / "none") is None


@pytest.mark.parametrize("content", ["[]", '{"steps": 3}', "not json", '{"steps": [1]}'])
def test_what_is_no_trajectory(tmp_path, content):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "trajectory.json").write_text(content)
    with pytest.raises(ValueError, match=r"ATIF|Expecting"):
        normal_digest(tmp_path)
