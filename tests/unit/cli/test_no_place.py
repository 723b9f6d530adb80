# SPDX-License-Identifier: Apache-2.0
"""A place where no folder can be made is one message and exit status 7, whatever is to be written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.errors import StorageError
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.locks import lock_root


@pytest.mark.parametrize("place", ["/proc/x", "/dev/null/x"])
def test_a_place_where_no_folder_can_be_made(run, place):
    ended = run("init", place)
    (message,) = ended.errors
    assert ended.status == 7
    assert message.startswith(f"{place}: cannot be written: ")
    with (
        pytest.raises(StorageError, match=r"^/\w+/\w+(/x)?: cannot be written: "),
        lock_root(EvidenceRoot(Path(place)), "exclusive"),
    ):
        pass


@pytest.mark.parametrize(
    "words",
    [
        ["run-experiment", "{project}", "--output", "{long}"],
        ["verify", "{project}", "--deep", "--output", "{long}"],
        ["plan", "{project}", "--output", "{long}"],
        ["score", "{project}", "--results", "{long}"],
        ["init", "{long}"],
    ],
    ids=lambda words: words[0],
)
def test_a_name_no_file_may_have_is_a_wrong_request(run, project, words):
    ended = run(*(word.format(project=project.folder, long="x" * 300) for word in words))
    (message,) = ended.errors
    assert ended.status == 2
    assert message.startswith(f"{'x' * 40}...: a name of 300 bytes in a path of ")
    assert message.endswith(" is more than a file may have; give a shorter one")


def test_the_tasks_of_init_ask_for_nothing_docker_cannot_always_give(run, tmp_path):
    assert run("init", tmp_path / "new").status == 0
    tasks = sorted(tmp_path.glob("new/tasks/*/task.toml"))
    assert len(tasks) == 6
    assert not [path for path in tasks if "network_mode" in path.read_text()]
