# SPDX-License-Identifier: Apache-2.0
"""Lets the cheap assets follow the raw results by themselves, by Dagster's declarative automation."""

from typing import Any

import dagster as dg

#: Groups whose assets cost no trials.
FOLLOWING = ("mutant_scores", "coverage", "correlation", "report")


def follow_upstream() -> dg.AutomationCondition[Any]:
    """The condition of an asset that follows: all it is made from is there, and it is not or was made from other.

    Data versions count, not events: evidence that was looked at again and is the same makes nothing run. What failed is
    not tried again before something upstream has changed.
    """
    condition = dg.AutomationCondition
    handled = condition.newly_requested() | condition.newly_updated()
    changed = condition.any_deps_match(  # pyright: ignore[reportUnknownMemberType]
        condition.data_version_changed()
    ).since(handled)
    wanted = (condition.missing() & ~condition.execution_failed()) | changed
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
