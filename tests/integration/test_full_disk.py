# SPDX-License-Identifier: Apache-2.0
"""The disk is full at some write: the run says so and stops, keeps what it has, and goes on once there is room."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.harbor, pytest.mark.slow]

#: Room for the evidence, as a share of what an undisturbed run takes: where it ends is where a write fails.
SHARES = (0.02, 0.1, 0.2, 0.27, 0.34, 0.41, 0.48, 0.55, 0.62, 0.7, 0.8, 0.95)
IN_CI = (0.1, 0.27, 0.55, 0.8)
_PAGE = 4096


@contextmanager
def small_disk(folder: Path, n_bytes: int) -> Iterator[Path]:
    """Mounts a file system of that size."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", folder], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def n_bytes_of(folder: Path) -> int:
    """What a folder takes on a file system in memory."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


@pytest.mark.parametrize(
    "share", [share if share in IN_CI else pytest.param(share, marks=pytest.mark.nightly) for share in SHARES]
)
def test_the_run_stops_with_a_clear_error_and_goes_on_when_there_is_room(harness, mounting_shell, tmp_path, share):
    shell = mounting_shell
    with small_disk(tmp_path / "disk", int(share * n_bytes_of(shell.folder)) // _PAGE * _PAGE) as disk:
        stopped = shell.run(shell.experiment, disk / "out")
        assert stopped.status == 7, stopped.log
        assert re.search(
            rf"error: {disk}/out\S*: cannot be written: No space left on device; what was there before is intact\. "
            r"Make room or rights, then run the same command again",
            stopped.log,
        ), stopped.log
        assert "Traceback" not in stopped.log
        assert shell.zygote.left() == []
        # Nothing is tried again while the disk is full.
        assert not list(disk.rglob("run-2.plan.json"))
        for path in disk.glob("out/execution/tiny/results.json"):
            assert shell.zygote.command("status", shell.experiment, "--output", disk / "out").status == 0, path

        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        again = shell.run(shell.experiment, disk / "out")
        assert again.status == 0, again.log
        assert harness.problems_of(disk / "out", shell.records) == []
