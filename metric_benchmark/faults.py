# SPDX-License-Identifier: Apache-2.0
"""Named points at which a test may kill the process; in every other run a call does nothing.

A test that starts a program with `METRIC_BENCHMARK_KILL_AT=write.temporary:3` has it killed by SIGKILL when it passes
the point `write.temporary` for the third time. Without the variable nothing here has any effect.
"""

from __future__ import annotations

import functools
import os
import signal
from dataclasses import dataclass

KILL_AT = "METRIC_BENCHMARK_KILL_AT"


@dataclass
class _Kill:
    name: str
    passes_left: int


@functools.cache
def _wanted() -> _Kill | None:
    name, _, passes = os.environ.get(KILL_AT, "").partition(":")
    return _Kill(name, int(passes or 1)) if name else None


def point(name: str) -> None:
    """Marks a place where dying must do no harm."""
    kill = _wanted()
    if kill is None or kill.name != name:
        return
    kill.passes_left -= 1
    if kill.passes_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
