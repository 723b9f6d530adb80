# SPDX-License-Identifier: Apache-2.0
"""What all figures share: an SVG builder that escapes every text, linear scales, and a frame with axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True)
class Scale:
    """Maps values from [low, high] to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Returns the pixel of a value; a scale without extent puts everything in its middle."""
        if self.high <= self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Returns round values inside the scale, `about` that many."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        raw = span / about
        power = 10 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [round(k * step, 10) + 0.0 for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


class Svg:
    """Collects the parts of one figure.

    Args:
        width: of the view box, in pixels.
        height: of the view box.
        label: what a reader who cannot see the figure is told.
        is_fixed: whether it keeps its size and scrolls, instead of shrinking with the page.
        data: attributes `data-...` by which the page's script finds the figure.
    """

    def __init__(
        self, width: float, height: float, label: str, *, is_fixed: bool = False, data: dict[str, str] | None = None
    ) -> None:
        self.width, self.height = width, height
        self._parts: list[Markup] = []
        attributes = Markup("").join(Markup(' data-{}="{}"').format(k, v) for k, v in (data or {}).items())
        if is_fixed:
            attributes += Markup(' width="{}" height="{}" class="fixed"').format(num(width), num(height))
        else:
            # Shrinks with the page, and does not grow until its text looks out of proportion.
            attributes += Markup(' style="max-width:{}px"').format(num(width * 1.12))
        if data:
            attributes += Markup(' tabindex="0"')
        self._head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}"{}>').format(
            num(width), num(height), label, attributes
        )

    def add(self, template: str, *values: object, **named: object) -> None:
        """Adds an element; every value is escaped."""
        self._parts.append(Markup(template).format(*values, **named))

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """Adds a line."""
        self.add('<path class="{}" d="M{} {}L{} {}"/>', css, num(x1), num(y1), num(x2), num(y2))

    def polyline(self, points: list[tuple[float, float]], css: str) -> None:
        """Adds a line through points."""
        if points:
            path = "L".join(f"{num(x)} {num(y)}" for x, y in points)
            self.add('<path class="{}" d="M{}"/>', css, path)

    def text(self, x: float, y: float, text: str, css: str = "", *, anchor: str = "start", turn: float = 0) -> None:
        """Adds a text, turned about its own point."""
        place = Markup(' transform="rotate({} {} {})"').format(num(turn), num(x), num(y)) if turn else Markup("")
        self.add(
            '<text x="{}" y="{}" class="{}" text-anchor="{}"{}>{}</text>', num(x), num(y), css, anchor, place, text
        )

    def render(self) -> Markup:
        """Returns the figure."""
        return self._head + Markup("").join(self._parts) + Markup("</svg>")


@dataclass(frozen=True)
class Frame:
    """A plot's area inside a figure, with its two scales."""

    x: Scale
    y: Scale

    @classmethod
    def inside(
        cls, width: float, height: float, x: tuple[float, float], y: tuple[float, float], *, left: float = 46
    ) -> Frame:
        """Leaves room for tick labels and titles around the plot's area."""
        return cls(Scale(*x, left, width - 12), Scale(*y, height - 40, 12))

    def draw(self, svg: Svg, x_title: str, y_title: str, *, x_ticks: list[float] | None = None) -> None:
        """Draws grid, tick labels and titles; a label too near to the one before is left out."""
        bottom, left = self.y.start, self.x.start
        last = -math.inf
        for tick in self.x.ticks() if x_ticks is None else x_ticks:
            svg.line(self.x(tick), bottom, self.x(tick), self.y.end, "grid")
            if self.x(tick) - last > 7 * len(short(tick)) + 4:
                svg.text(self.x(tick), bottom + 15, short(tick), "tick", anchor="middle")
                last = self.x(tick)
        for tick in self.y.ticks():
            svg.line(left, self.y(tick), self.x.end, self.y(tick), "grid")
            svg.text(left - 6, self.y(tick) + 4, short(tick), "tick", anchor="end")
        svg.line(left, bottom, self.x.end, bottom, "axis")
        svg.line(left, bottom, left, self.y.end, "axis")
        svg.text((left + self.x.end) / 2, bottom + 33, x_title, "title", anchor="middle")
        svg.text(13, (bottom + self.y.end) / 2, y_title, "title", anchor="middle", turn=-90)


def num(value: float) -> str:
    """Returns a coordinate in few characters."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def short(value: float) -> str:
    """Returns a tick's label: no superfluous zeros, a true minus."""
    return f"{value:g}".replace("-", "−")


def cut(label: str, length: int = 26) -> str:
    """Shortens a label in its middle, so that names which differ at either end stay apart."""
    if len(label) <= length:
        return label
    half = (length - 1) // 2
    return f"{label[: length - 1 - half]}…{label[-half:]}"


def pad(values: list[float], *, share: float = 0.05, around: tuple[float, ...] = ()) -> tuple[float, float]:
    """Returns the range of values and some air; without values, 0 to 1."""
    known = [*values, *around]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    air = (high - low) * share or 0.5
    return low - air, high + air


__all__ = ["Frame", "Scale", "Svg", "cut", "escape", "num", "pad", "short"]
