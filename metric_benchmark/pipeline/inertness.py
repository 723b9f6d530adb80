# SPDX-License-Identifier: Apache-2.0
"""Whether a variant ever behaved unlike the baseline, told from rewards and from trajectories in normal form."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.records.execution import RawResults, Trial
from metric_benchmark.records.normal_form import normal_digest
from metric_benchmark.records.trajectories import digest_trajectory


@dataclass(frozen=True)
class Effect:
    """What a mutation was seen to do.

    Attributes:
        is_inert: true if no attempt differs from all of the baseline's attempts at its task, false if one does, None if
            that cannot be told.
        reason: the first difference, or why there is no answer.
    """

    is_inert: bool | None
    reason: str


class _UnknownError(Exception):
    """A trial cannot be compared, for the reason given."""


def compare_with_baseline(root: EvidenceRoot, baseline: RawResults, variant: RawResults) -> Effect:
    """Looks for a task at which a variant did something the baseline never did.

    Rewards are compared as well: a corrupted file need not show in the trace of the agent that wrote it. Nothing is
    raised for evidence that is gone: what a mutant did is told as far as it can be.
    """
    pairs = [(task, _counted(baseline, task), _counted(variant, task)) for task in baseline.tasks]
    for task, theirs, own in pairs:
        known = {trial.reward for trial in theirs}
        other = next((trial.reward for trial in own if trial.reward not in known), None)
        if theirs and other is not None:
            return Effect(False, f"task {task}: a reward of {other:g}, which the baseline never got")
    unknown: dict[str, str] = {}
    for task, theirs, own in pairs:
        if not theirs or not own:
            unknown[task] = "has no verdict"
            continue
        try:
            known = {_form(root, baseline, trial) for trial in theirs}
            if any(_form(root, variant, trial) not in known for trial in own):
                return Effect(False, f"task {task}: a trajectory unlike the baseline's")
        except _UnknownError as error:
            unknown[task] = str(error)
    if unknown:
        return Effect(None, _explain(unknown, len(pairs)))
    return Effect(True, "no trajectory and no reward differs from the baseline's")


def _counted(results: RawResults, task: str) -> list[Trial]:
    return [trial for trial in results.trials if trial.task == task and trial.counts]


def _explain(unknown: dict[str, str], n_tasks: int) -> str:
    reasons = "; ".join(sorted(set(unknown.values())))
    return f"{len(unknown)} of {n_tasks} tasks cannot be compared and the others do not differ: {reasons}"


def _form(root: EvidenceRoot, results: RawResults, trial: Trial) -> str:
    if trial.trajectory_sha256 is None:
        raise _UnknownError("the agent wrote no trajectory")
    folder = root.trial(results.case, results.variant, trial.folder, trial.run, trial.trial)
    found = _read(folder, trial.trajectory_sha256)
    if not isinstance(found, str):
        raise found
    return found


@functools.lru_cache(maxsize=4096)
def _read(folder: Path, expected: str) -> str | _UnknownError:
    """Returns the digest of a trial's behaviour; the baseline's are asked for once per mutant."""
    try:
        if digest_trajectory(folder) != expected:
            return _UnknownError("its trajectory is gone or was changed")
        return normal_digest(folder) or ""
    except (OSError, ValueError, RecursionError) as error:
        return _UnknownError(str(error) or type(error).__name__)
