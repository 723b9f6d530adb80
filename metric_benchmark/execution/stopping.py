# SPDX-License-Identifier: Apache-2.0
"""Says why trials have no verdict and what to do: to run them again, or to correct what would fail again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.config.models import ExecutionConfig
from metric_benchmark.execution.outcomes import Outcome

#: How many reasons a message names.
_MAX_REASONS = 3
#: What Harbor's exceptions say of a verifier that wrote no reward, for whoever wrote the task.
_SILENT = {
    "RewardFileNotFoundError": "tests/test.sh wrote no /logs/verifier/reward.txt (or reward.json)",
    "RewardFileEmptyError": "tests/test.sh wrote an empty /logs/verifier/reward.txt (or reward.json)",
}


@dataclass(frozen=True)
class Lacking:
    """A trial without a verdict, and its native folder."""

    task: str
    outcome: Outcome
    folder: Path


def silent_verifier(exception: str | None) -> str | None:
    """Says that a task's tests wrote no reward; None where a trial has no verdict for another reason."""
    return _SILENT.get(exception or "")


def correct_tests(task: str, folder: Path) -> str:
    """Says what to do about tests that wrote no reward, and where to look."""
    return (
        f"have tests/test.sh of task {task} write a reward whatever happens (`echo 0`), and sign; to run the same "
        f"again is no remedy. What it printed: {folder / 'verifier' / 'test-stdout.txt'}; the error: "
        f"{folder / 'exception.txt'}"
    )


def describe_stop(n_missing: int, settings: ExecutionConfig, lacking: Sequence[Lacking]) -> str:
    """Says that trials have no verdict, for which reasons most of them, and what to do.

    Args:
        n_missing: how many attempts are lacking.
        settings: how they were run.
        lacking: the trials without a verdict, retries included.
    """
    outcomes = [trial.outcome for trial in lacking]
    # Messages name files, so that no two need be alike: one stands for all of its kind.
    examples = {outcome.exception or outcome.reason: outcome.reason or outcome.status for outcome in outcomes}
    kinds = Counter(outcome.exception or outcome.reason for outcome in outcomes).most_common(_MAX_REASONS)
    shown = "; ".join(f"{count} times: {silent_verifier(kind) or examples[kind]}" for kind, count in kinds)
    told = f" ({shown})" if shown else ""
    if outcomes and all(outcome.lacks_reward_key for outcome in outcomes):
        return (
            f"{n_missing} trials have no verdict{told}; they are not retried, since a verifier that does not write the "
            f"key will not write it next time: set `reward_key` in the execution file, or have the tests write it"
        )
    silent = {trial.task: trial.folder for trial in lacking if silent_verifier(trial.outcome.exception)}
    remedies = [correct_tests(task, folder) for task, folder in list(silent.items())[:_MAX_REASONS]]
    if len(silent) > _MAX_REASONS:
        remedies.append(f"likewise {len(silent) - _MAX_REASONS} more tasks")
    if any(not silent_verifier(outcome.exception) for outcome in outcomes) or not outcomes:
        remedies.append("run again to retry them" if not silent else "run again to retry the others")
    return f"{n_missing} trials have no verdict after {settings.infrastructure_retries} retries{told}; " + "; ".join(
        remedies
    )
