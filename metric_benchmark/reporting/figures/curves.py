# SPDX-License-Identifier: Apache-2.0
"""Curves over an axis of counts: the false-kill rate of controls by subset size, and power."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from metric_benchmark.records.correlation import PowerPlan
from metric_benchmark.records.scores import FalseKillRate
from metric_benchmark.reporting.figures.svg import Frame, Svg, num, pad

_WIDTH, _HEIGHT = 420, 280


def draw_false_kills(case: str, rates: Sequence[FalseKillRate], alpha: float) -> Markup:
    """Draws the share of controls that subsets of each size detect, with intervals whose unit is the control."""
    svg = Svg(_WIDTH, _HEIGHT, f"False-kill rate of the controls of case {case} by subset size, with intervals.")
    sizes = [rate.size for rate in rates]
    frame = Frame.inside(_WIDTH, _HEIGHT, pad([float(s) for s in sizes]), (0.0, 1.0))
    frame.draw(svg, "tasks in the subset", "controls killed", x_ticks=[float(s) for s in sorted(set(sizes))])
    svg.line(frame.x.start, frame.y(alpha), frame.x.end, frame.y(alpha), "alpha")
    svg.text(frame.x.end - 2, frame.y(alpha) - 5, f"alpha {alpha:g}", "tick", anchor="end")
    for rate in rates:
        x = frame.x(rate.size)
        svg.line(x, frame.y(rate.low), x, frame.y(rate.high), "ci v-blocked")
        svg.add(
            '<circle class="est v-blocked full" cx="{}" cy="{}" r="4"><title>{}</title></circle>',
            num(x), num(frame.y(rate.rate)),
            f"size {rate.size}: {rate.rate:.3f} ({rate.low:.3f} to {rate.high:.3f}), {rate.n_controls} controls",
        )  # fmt: skip
    return svg.render()


def draw_power(case: str, plan: PowerPlan) -> Markup:
    """Draws the chance to support a true hypothesis against how strong the association truly is, with its error."""
    points = [(point.effect, point.power, point.stderr) for point in plan.curve if point.effect is not None]
    svg = Svg(_WIDTH, _HEIGHT, f"Power curve of case {case}: chance to support a true hypothesis by its association.")
    frame = Frame.inside(_WIDTH, _HEIGHT, pad([x for x, _, _ in points], around=(0.0,)), (0.0, 1.0))
    frame.draw(svg, "association beyond size", "power")
    svg.line(frame.x.start, frame.y(plan.target_power), frame.x.end, frame.y(plan.target_power), "alpha")
    svg.text(frame.x.start + 4, frame.y(plan.target_power) - 5, f"target {plan.target_power:g}", "tick")
    svg.polyline([(frame.x(x), frame.y(y)) for x, y, _ in points], "trend")
    for x, y, error in points:
        low, high = max(0.0, y - 2 * error), min(1.0, y + 2 * error)
        svg.line(frame.x(x), frame.y(low), frame.x(x), frame.y(high), "ci v-supported")
        svg.add(
            '<circle class="est v-supported full" cx="{}" cy="{}" r="4"><title>{}</title></circle>',
            num(frame.x(x)), num(frame.y(y)), f"association {x:.2f}: power {y:.2f}",
        )  # fmt: skip
    return svg.render()
