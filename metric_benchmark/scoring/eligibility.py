# SPDX-License-Identifier: Apache-2.0
"""Which tasks are eligible: reliable for the baseline, judged by the screening run and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metric_benchmark.config.models import ScoringConfig
from metric_benchmark.errors import EvidenceError
from metric_benchmark.records.scores import Eligibility

REWARD_TOLERANCE = 1e-9


def passed(reward: float, pass_reward: float) -> bool:
    """Tells whether a reward counts as passed."""
    return reward >= pass_reward - REWARD_TOLERANCE


def assess_eligibility(
    tasks: Sequence[str], screening: Mapping[str, Sequence[float]] | None, settings: ScoringConfig
) -> Eligibility:
    """Decides which tasks are eligible.

    Attempts that are later compared must not choose the tasks: that gives false kills in most suites. Hence
    the separate run, and hence a case without one keeps all its tasks.

    Args:
        tasks: the case's tasks, in order.
        screening: rewards of the valid attempts of the screening variant by task; `None` when there was no
            such run.
        settings: `min_pass_share` and `pass_reward` are used.

    Raises:
        EvidenceError: no task is left.
    """
    share = settings.min_pass_share
    if screening is None:
        return Eligibility(
            screened=False,
            reason="no screening run, so all tasks are eligible, reliable or not",
            min_pass_share=share,
            eligible_tasks=list(tasks),
        )
    pass_share: dict[str, float | None] = {}
    ineligible: dict[str, str] = {}
    for task in tasks:
        rewards = screening.get(task, ())
        n_passed = sum(passed(reward, settings.pass_reward) for reward in rewards)
        pass_share[task] = n_passed / len(rewards) if rewards else None
        if not rewards:
            ineligible[task] = "no valid screening attempt"
        elif n_passed / len(rewards) < share - REWARD_TOLERANCE:
            ineligible[task] = f"passed {n_passed} of {len(rewards)} screening attempts, below the share of {share:g}"
    eligible = [task for task in tasks if task not in ineligible]
    if not eligible:
        raise EvidenceError(
            f"screening: none of the {len(tasks)} tasks passed at least {share:g} of its screening attempts, "
            "so no task can "
            "be tested; check the baseline agent and the tasks, or lower `scoring.min_pass_share`"
        )
    return Eligibility(
        screened=True,
        reason=f"{len(eligible)} of {len(tasks)} tasks passed at least {share:g} of their screening attempts",
        min_pass_share=share,
        pass_share=pass_share,
        eligible_tasks=eligible,
        ineligible=ineligible,
    )
