# SPDX-License-Identifier: Apache-2.0
"""What a verifier wrote is compared with what Harbor made of it, step by step where there are steps."""

from __future__ import annotations

import pytest

from metric_benchmark.execution.task_digests import TaskDigests
from metric_benchmark.execution.validation import check_rewards


def write(folder, files) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def said(folder, result) -> list[str]:
    return [str(problem) for problem in check_rewards("trial", str(folder), result)]


def rewards(**values):
    return {"verifier_result": {"rewards": values}}


@pytest.mark.parametrize(
    ("files", "result"),
    [
        ({"verifier/reward.txt": "1\n"}, rewards(reward=1.0)),
        ({"verifier/reward.json": '{"a": 0.5, "b": 1}'}, rewards(a=0.5, b=1)),
        ({"verifier/reward.json": '{"a": 0.5}', "verifier/reward.txt": "0"}, rewards(a=0.5)),
        ({"verifier/reward.txt": "nan"}, {"verifier_result": None}),
        ({}, rewards(reward=1.0)),
        ({"steps/x/verifier/reward.txt": "1"}, {"step_results": [{"step_name": "x", **rewards(reward=1.0)}]}),
    ],
    ids=["text", "JSON", "JSON wins", "no usable reward", "another kind of verifier", "a step"],
)
def test_files_that_agree(tmp_path, files, result):
    write(tmp_path, files)
    assert said(tmp_path, result) == []


@pytest.mark.parametrize(
    ("files", "result", "place", "written", "recorded"),
    [
        ({"verifier/reward.txt": "0"}, rewards(reward=1.0), "verifier/reward.txt", "reward=0.0", "reward=1.0"),
        ({"verifier/reward.txt": "x"}, rewards(reward=1.0), "verifier/reward.txt", "nothing readable", "reward=1.0"),
        ({"verifier/reward.json": "[1]"}, rewards(a=1), "verifier/reward.json", "[1]", "a=1"),
        ({"verifier/reward.json": '{"a": 1}'}, rewards(), "verifier/reward.json", "a=1", "no reward"),
        (
            {"steps/x/verifier/reward.txt": "1", "steps/y/verifier/reward.txt": "0"},
            {"step_results": [{"step_name": name, **rewards(reward=1.0)} for name in "xy"]},
            "steps/y/verifier/reward.txt",
            "reward=0.0",
            "reward=1.0",
        ),
    ],
)
def test_files_that_contradict_the_result(tmp_path, files, result, place, written, recorded):
    write(tmp_path, files)
    assert said(tmp_path, result) == [
        f"trial/{place}: says {written}, but result.json says {recorded}; restore them from a backup"
    ]


def test_a_digest_nobody_knows_is_compared_with_nothing():
    task = TaskDigests("one", "records", None, None)
    assert list(task.check("x", "content", "sha256:1")) == []
    assert list(TaskDigests("one", "folder", "sha256:1", None).check("x", "content", None)) == []
