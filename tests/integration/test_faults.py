# SPDX-License-Identifier: Apache-2.0
"""Runs are killed at named points and at random times; the next run ends as if nothing had happened."""

from __future__ import annotations

import random
import shutil

import pytest

pytestmark = [pytest.mark.harbor, pytest.mark.slow]

#: Points of a run's life, in their order. A record is written in three steps; the numbers say which record:
#: 1 names the run, 2 is a plan, 3 are raw results, 4 and 7 the case's index, 8 the manifest, 9 the validation, 10 the
#: analysis' guard, 11-14 its inputs, 15-19 the stages, 20 the seal. A line of the ledger is written in halves: 1 and 2
#: are claims, 3 and 4 a reservation, 9 and 10 what a run came to.
POINTS = (
    "write.before:1", "write.temporary:1", "append.within:1", "run.reserved:1", "write.temporary:2", "run.planned:1",
    "run.trial_start:1", "worker.trial_end:1", "run.trial_end:1", "worker.trial_start:2", "run.ended:1",
    "append.within:3", "append.after:2", "write.temporary:3", "write.renamed:3", "write.temporary:4", "run.reserved:2",
    "run.trial_end:4", "write.renamed:7", "write.temporary:8", "write.renamed:11", "write.temporary:15",
    "append.within:10", "write.temporary:20",
)  # fmt: skip
#: Shares of an undisturbed run's time; the even ones kill the parent alone, the odd ones all it started.
MOMENTS = tuple(random.Random(7).uniform(0.02, 0.9) for _ in range(6))
IN_DAGSTER = (
    "run.planned:1", "run.trial_start:2", "worker.trial_end:2", "run.ended:1", "write.temporary:3", "write.renamed:3",
    "append.within:7", "write.temporary:18",
)  # fmt: skip
DAGSTER_MOMENTS = (0.15, 0.3)


def check(harness, world, kill, output) -> None:
    killed = world.run(world.experiment, output, kill=kill)
    if not (kill.at or "").startswith("worker."):
        assert killed.was_killed, f"not killed {kill}: {killed.log}"
    again = world.run(world.experiment, output)
    assert again.status == 0, again.log
    assert harness.problems_of(output, world.records) == []
    assert world.zygote.left() == []
    # Others' mounts may end meanwhile.
    assert set(world.zygote.mounts()) <= set(world.mounts)
    shutil.rmtree(output)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_named_point(harness, shell, tmp_path, point):
    if not point.startswith("worker."):
        assert point in shell.points, "no run passes this point so often; list another"
    check(harness, shell, harness.Kill(at=point), tmp_path / "out")


@pytest.mark.parametrize(("number", "share"), list(enumerate(MOMENTS)))
def test_killed_at_a_random_time(harness, shell, tmp_path, number, share):
    kill = harness.Kill(after_s=share * shell.seconds, whole_tree=number % 2 == 1)
    check(harness, shell, kill, tmp_path / "out")


@pytest.mark.parametrize("point", IN_DAGSTER)
def test_a_dagster_run_killed_at_a_named_point(harness, dagster, tmp_path, point):
    if not point.startswith("worker."):
        assert point in dagster.points, "no run passes this point so often; list another"
    check(harness, dagster, harness.Kill(at=point), tmp_path / "out")


@pytest.mark.parametrize(("number", "share"), list(enumerate(DAGSTER_MOMENTS)))
def test_a_dagster_run_killed_at_a_random_time(harness, dagster, tmp_path, number, share):
    kill = harness.Kill(after_s=share * dagster.seconds, whole_tree=number % 2 == 1)
    check(harness, dagster, kill, tmp_path / "out")


def test_forty_kills():
    """What the issue asks of CI."""
    assert len(POINTS) + len(MOMENTS) == 30
    assert len(IN_DAGSTER) + len(DAGSTER_MOMENTS) == 10
