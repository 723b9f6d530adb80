# SPDX-License-Identifier: Apache-2.0
"""Lets the cheap assets follow the raw results by themselves, by Dagster's declarative automation."""

from typing import Any

import dagster as dg

#: Groups whose assets cost no trials.
FOLLOWING = ("mutant_scores", "coverage", "correlation", "report")


def follow_upstream() -> dg.AutomationCondition[Any]:
    """The condition of an asset that follows: all it is made from is there, and it is not, or is older.

    What failed is not tried again before something upstream was updated.
    """
    condition = dg.AutomationCondition
    handled = condition.newly_requested() | condition.newly_updated()
    wanted = (condition.missing() & ~condition.execution_failed()) | condition.any_deps_updated().since(handled)
    return (
        wanted & ~condition.any_deps_missing() & ~condition.any_deps_in_progress() & ~condition.in_progress()
    ).with_label("follows what it is made from")


def analysis_follows() -> dg.AutomationConditionSensorDefinition:
    """Makes the sensor that evaluates the conditions; the switch in the UI that turns all of it off."""
    return dg.AutomationConditionSensorDefinition(
        "analysis_follows",
        target=dg.AssetSelection.groups(*FOLLOWING),  # pyright: ignore[reportUnknownMemberType]
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
        description="Scores, measures, correlates and seals as soon as the results are there. Costs no trials.",
    )
