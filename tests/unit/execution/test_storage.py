# SPDX-License-Identifier: Apache-2.0
"""A full disk of the host is recognised wherever Harbor hides it, and nothing else is taken for one."""

from __future__ import annotations

import errno
import os

import pytest

from metric_benchmark.execution.outcomes import classify
from metric_benchmark.execution.storage import full_disk, full_disk_message

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/evidence/result.json")


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        raised(RuntimeError("the trial failed"), FULL),
        ExceptionGroup("unhandled errors in a TaskGroup", [ValueError("other"), raised(RuntimeError("x"), FULL)]),
    ],
)
def test_it_is_found_in_causes_and_groups(error):
    assert full_disk(error) == ("/evidence/result.json", "No space left on device")


def test_a_write_that_fails_late_names_no_file():
    assert full_disk(OSError(errno.EDQUOT, "Disk quota exceeded")) == (None, "Disk quota exceeded")


def test_other_errors_are_not_it():
    looped = RuntimeError("loop")
    looped.__context__ = looped
    for error in (looped, OSError(errno.EIO, "Input/output error"), PermissionError(errno.EACCES, "no")):
        assert full_disk(error) is None


def test_of_a_trial_only_the_words_are_left():
    assert full_disk_message("OSError", str(FULL)) == ("/evidence/result.json", "No space left on device")
    assert full_disk_message("OSError", "[Errno 30] Read-only file system") == (None, "Read-only file system")
    assert full_disk_message("OSError", "[Errno 5] Input/output error") is None
    assert full_disk_message("RuntimeError", "[Errno 28] No space left on device") is None
    assert full_disk_message("OSError", "tar: [Errno 28] No space left on device") is None


def test_such_a_trial_is_no_zero_of_the_agent():
    """Harbor marks a reward of 0 as valid when it does not know the exception."""
    info = {"exception_type": "OSError", "exception_message": str(FULL), "exception_traceback": ""}
    result = {
        "exception_info": info, "verifier_result": {"rewards": {"reward": 0.0}}, "reward_valid": True,
        "agent_execution": {"started_at": "2026-01-01T00:00:00Z"},
    }  # fmt: skip
    status, reason, reward, _, flags = classify(result, "reward")
    assert (status, reward, flags) == ("infrastructure", None, ())
    assert reason == "OSError: [Errno 28] No space left on device: '/evidence/result.json'"
