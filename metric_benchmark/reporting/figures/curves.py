# SPDX-License-Identifier: Apache-2.0
"""Curves over an axis of counts: the false-kill rate of controls by subset size, and power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

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


def draw_power(case: str, curves: Mapping[str, Sequence[tuple[float, float]]], x_title: str) -> Markup:
    """Draws power (0 to 1) against what a design could have more of, a line per named curve."""
    svg = Svg(_WIDTH, _HEIGHT, f"Power curve of case {case}: chance to support a true hypothesis against {x_title}.")
    values = [x for points in curves.values() for x, _ in points]
    frame = Frame.inside(_WIDTH, _HEIGHT, pad(values), (0.0, 1.0))
    frame.draw(svg, x_title, "power")
    svg.line(frame.x.start, frame.y(0.8), frame.x.end, frame.y(0.8), "alpha")
    for step, (name, points) in enumerate(curves.items()):
        line = [(frame.x(x), frame.y(y)) for x, y in points]
        svg.polyline(line, f"curve s{(step * 2 + 1) % 6}")
        if line:
            svg.text(line[-1][0], line[-1][1] - 6, name, "tick", anchor="end")
    return svg.render()
