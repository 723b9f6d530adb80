# SPDX-License-Identifier: Apache-2.0
"""Estimates below one another on one scale: the forest plot of associations, and the agreement of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from metric_benchmark.reporting.figures.svg import Scale, Svg, cut, num, short

_WIDTH, _ROW, _LABEL = 640, 26, 36


@dataclass(frozen=True)
class ForestRow:
    """One line. Without an interval only the estimate is drawn; `note` stands where there is no estimate.

    `is_calibrated` tells whether the null's mean was taken off; others are drawn hollow.
    """

    label: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    verdict: str = "not_tested"
    is_calibrated: bool = False
    minimum_effect: float | None = None
    note: str = ""


def draw_forest(rows: Sequence[ForestRow]) -> Markup:
    """Draws estimates and intervals of all rows; a diamond at the minimum effect a hypothesis asks for."""
    height = 30 + _ROW * len(rows) + 34
    svg = Svg(_WIDTH, height, f"Forest plot: association beyond size of {len(rows)} case and metric pairs.")
    known = [v for row in rows for v in (row.estimate, row.low, row.high) if v is not None]
    low, high = min([-0.2, *known]), max([1.0, *known])
    left = 24 + 6.6 * min(max(len(row.label) for row in rows), _LABEL)
    scale = Scale(max(-1.0, low), min(1.0, high), left, _WIDTH - 16)
    bottom = height - 36
    for tick in scale.ticks(6):
        svg.line(scale(tick), 16, scale(tick), bottom, "zero" if tick == 0 else "grid")
        svg.text(scale(tick), bottom + 15, short(tick), "tick", anchor="middle")
    svg.text((scale.start + scale.end) / 2, bottom + 32, "association beyond size", "title", anchor="middle")
    for place, row in enumerate(rows):
        _row(svg, scale, row, 30 + place * _ROW)
    return svg.render()


def _row(svg: Svg, scale: Scale, row: ForestRow, y: float) -> None:
    svg.text(scale.start - 12, y + 4, cut(row.label, _LABEL), "name", anchor="end")
    if row.estimate is None:
        svg.text(scale(0) + 6, y + 4, row.note or "undefined", "tick")
        return
    if row.minimum_effect is not None:
        x = scale(row.minimum_effect)
        svg.add('<path class="minimum" d="M{} {}l4 5-4 5-4-5z"/>', num(x), num(y - 5))
    if row.low is not None and row.high is not None:
        svg.line(scale(row.low), y, scale(row.high), y, f"ci v-{row.verdict}")
        for end in (row.low, row.high):
            svg.line(scale(end), y - 4, scale(end), y + 4, f"ci v-{row.verdict}")
    kind = "full" if row.is_calibrated else "hollow"
    svg.add(
        '<circle class="est v-{} {}" cx="{}" cy="{}" r="5"><title>{}: {}</title></circle>',
        row.verdict, kind, num(scale(row.estimate)), num(y), row.label, f"{row.estimate:+.3f}",
    )  # fmt: skip


@dataclass(frozen=True)
class AgreementRow:
    """One metric: how often more coverage means the higher mutant score, over all pairs and among those of one size."""

    metric: str
    overall: float | None
    within_size: float | None


def draw_agreement(case: str, rows: Sequence[AgreementRow]) -> Markup:
    """Draws the share of pairs of suites that coverage ranks rightly, with the coin's share of one half."""
    height = 30 + _ROW * len(rows) + 34
    svg = Svg(
        _WIDTH, height, f"Agreement of {len(rows)} metrics of case {case} with the mutant score, over pairs of suites."
    )
    left = 24 + 6.6 * min(max(len(row.metric) for row in rows), _LABEL)
    scale = Scale(0.0, 1.0, left, _WIDTH - 16)
    bottom = height - 36
    for tick in scale.ticks(4):
        svg.line(scale(tick), 16, scale(tick), bottom, "alpha" if tick == 0.5 else "grid")
        svg.text(scale(tick), bottom + 15, short(tick), "tick", anchor="middle")
    svg.text((scale.start + scale.end) / 2, bottom + 32, "share of pairs ranked rightly", "title", anchor="middle")
    for place, row in enumerate(rows):
        y = 30 + place * _ROW
        svg.text(scale.start - 12, y + 4, cut(row.metric, _LABEL), "name", anchor="end")
        for value, kind, what in ((row.overall, "hollow", "all pairs"), (row.within_size, "full", "pairs of one size")):
            if value is not None:
                svg.add(
                    '<circle class="est v-not_tested {}" cx="{}" cy="{}" r="5"><title>{}, {}: {}</title></circle>',
                    kind, num(scale(value)), num(y), row.metric, what, f"{value:.3f}",
                )  # fmt: skip
    return svg.render()
