# SPDX-License-Identifier: Apache-2.0
"""A Harbor process started as a program of its own, where one forked from ours would have the wrong packages."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path


def harbor_environment() -> dict[str, str]:
    """Returns the environment for processes that run Harbor: none of them tries the network when it starts."""
    # LiteLLM and Harbor's telemetry would each try, with retries, at every start.
    return os.environ | {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HARBOR_TELEMETRY": "0",
        "PYTHONUNBUFFERED": "1",
    }


class SpawnedChild:
    """A worker under another interpreter; to `HarborChild` it is like one of the fork server's.

    Args:
        python: the interpreter; it can import Harbor and this package.
        stdin: where jobs come from; the caller keeps and closes its own copies of all descriptors.
        stdout: where events go.
        stderr: where everything else it says goes.
        held: a descriptor the child keeps open until it ends: that of a lock.
    """

    def __init__(self, python: Path, stdin: int, stdout: int, stderr: int, held: int | None = None) -> None:
        self._process = subprocess.Popen(
            [str(python), "-m", "metric_benchmark.execution.worker"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=() if held is None else (held,),
            env=harbor_environment(),
            # An interrupt at the terminal is the parent's to handle; the child is then told to stop.
            start_new_session=True,
        )
        self.pid = self._process.pid

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the child's end; tells whether it ended in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the child has ended."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Does nothing: there is nothing left to let go of once `wait` has returned."""
