# SPDX-License-Identifier: Apache-2.0
"""Coverage against mutant score, a point per subset, coloured by size; and what is left of both beyond size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from metric_benchmark.reporting.figures.svg import Frame, Svg, num, pad

#: How many steps the colour scale of sizes has (`--s0` to `--s5` in the style).
N_COLORS = 6
_WIDTH, _HEIGHT = 420, 320


@dataclass(frozen=True)
class Point:
    """One subset in a scatter; `index` is its place among the case's pairs."""

    index: int
    x: float
    y: float
    size: int


def size_class(size: int, sizes: Sequence[int]) -> int:
    """Returns the step of the colour scale a size has among the distinct sizes of a case."""
    distinct = sorted(set(sizes))
    if len(distinct) < 2:
        return N_COLORS - 1
    return round(distinct.index(size) * (N_COLORS - 1) / (len(distinct) - 1))


def draw_scatter(
    metric: str,
    points: Sequence[Point],
    sizes: Sequence[int],
    expectation: Sequence[tuple[int, float, float]],
    *,
    case: str,
) -> Markup:
    """Draws coverage (x) against mutant score (y).

    Args:
        metric: name of the metric.
        points: one per subset the metric could measure.
        sizes: sizes of all subsets of the case, so that colours agree between its metrics.
        expectation: (size, expected coverage, expected mutant score) of a random subset of each size.
        case: id of the case.
    """
    label = f"Scatter plot for case {case}: coverage by {metric} against mutant score of {len(points)} subsets."
    svg = Svg(_WIDTH, _HEIGHT, label, data={"fig": "scatter", "case": case, "metric": metric})
    frame = Frame.inside(
        _WIDTH, _HEIGHT,
        _unit([*(p.x for p in points), *(x for _, x, _ in expectation)]),
        _unit([*(p.y for p in points), *(y for _, _, y in expectation)]),
    )  # fmt: skip
    frame.draw(svg, "coverage of the subset", "mutant score")
    _points(svg, frame, points, sizes)
    line = [(frame.x(x), frame.y(y)) for _, x, y in expectation]
    svg.polyline(line, "expect")
    for (size, _, _), (x, y) in zip(expectation, line, strict=True):
        svg.add(
            '<path class="expect-dot" d="M{} {}h6v6h-6z"><title>size {}</title></path>', num(x - 3), num(y - 3), size
        )
    return svg.render()


def draw_residuals(metric: str, points: Sequence[Point], sizes: Sequence[int], *, case: str) -> Markup:
    """Draws what is left of the ranks of coverage (x) and score (y) once size has explained its part.

    The correlation of these points is the partial Spearman correlation given size.
    """
    label = f"Partial residual plot for case {case}: ranks of {metric} and of mutant score, less what size explains."
    svg = Svg(_WIDTH, _HEIGHT, label, data={"fig": "residuals", "case": case, "metric": metric})
    frame = Frame.inside(
        _WIDTH, _HEIGHT, pad([p.x for p in points], around=(0.0,)), pad([p.y for p in points], around=(0.0,))
    )  # fmt: skip
    frame.draw(svg, "rank of coverage beyond size", "rank of mutant score beyond size")
    svg.line(frame.x(0), frame.y.start, frame.x(0), frame.y.end, "zero")
    svg.line(frame.x.start, frame.y(0), frame.x.end, frame.y(0), "zero")
    _points(svg, frame, points, sizes)
    slope = _slope(points)
    if slope is not None:
        left, right = min(p.x for p in points), max(p.x for p in points)
        svg.line(frame.x(left), frame.y(slope * left), frame.x(right), frame.y(slope * right), "trend")
    return svg.render()


def _points(svg: Svg, frame: Frame, points: Sequence[Point], sizes: Sequence[int]) -> None:
    # Many subsets fall on one spot; a halo keeps their number from being overlooked.
    spots = Counter((num(frame.x(point.x)), num(frame.y(point.y))) for point in points)
    for (x, y), n in spots.items():
        if n > 1:
            svg.add('<circle class="halo" cx="{}" cy="{}" r="{}"/>', x, y, num(4 + 1.7 * math.sqrt(n)))
    for point in points:
        step = size_class(point.size, sizes)
        svg.add(
            '<circle class="p s{}" data-i="{}" cx="{}" cy="{}" r="{}"/>',
            step, point.index, num(frame.x(point.x)), num(frame.y(point.y)), num(3 + step * 0.35),
        )  # fmt: skip


def _unit(values: Sequence[float]) -> tuple[float, float]:
    """Shares are shown on their whole range unless that wastes most of the figure."""
    low, high = pad(list(values))
    if high - low > 0.4:
        return -0.02, 1.02
    return max(low, -0.02), min(high, 1.02)


def _slope(points: Sequence[Point]) -> float | None:
    """Least squares through the origin: residuals have mean 0."""
    square = sum(p.x * p.x for p in points)
    return sum(p.x * p.y for p in points) / square if square > 0 else None
