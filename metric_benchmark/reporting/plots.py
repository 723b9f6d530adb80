# SPDX-License-Identifier: Apache-2.0
"""Small static pictures (PNG bytes) for Dagster's metadata: kills as a strip, coverage against mutant score.

Matplotlib is imported when a picture is drawn, and no global state of it is used, so runs beside each other
don't disturb one another.
"""

from __future__ import annotations

import io
from typing import Any

from metric_benchmark.records.base import Undefined
from metric_benchmark.records.correlation import Correlation
from metric_benchmark.records.coverage import MetricCoverage
from metric_benchmark.records.execution import RawResults
from metric_benchmark.records.scores import MutantKills, MutantScores

# Matplotlib's keyword arguments are untyped, which strict checking refuses at every call.
type Axes = Any
type Figure = Any

#: A picture in metadata is shown small and kept for good with every materialisation.
MAX_BYTES = 60_000

_COLORS = {"killed": "#c2410c", "survived": "#e2e8f0", "undetermined": "#64748b"}
_MAX_LABELS = 40


def plot_rewards(results: RawResults) -> bytes:
    """Draws a variant's mean reward by task; a task without a verdict is marked."""
    rewards = results.rewards()
    means = [sum(rewards[task]) / len(rewards[task]) if task in rewards else 0.0 for task in results.tasks]
    figure, axes = _figure(6.0, 2.2)
    colors = ["#0f766e" if task in rewards else "#dc2626" for task in results.tasks]
    axes.bar(range(len(means)), means, color=colors, width=0.8)
    for place, task in enumerate(results.tasks):
        if task not in rewards:
            axes.text(place, 0.02, "?", ha="center", color="#dc2626")
    _name_x(axes, list(results.tasks))
    axes.set_ylabel("mean reward")
    axes.set_title(_text(f"{results.case} | {results.variant}: {results.n_counted} attempts that count"))
    return _png(figure)


def plot_kills(kills: MutantKills) -> bytes:
    """Draws which tasks kill one mutant (or control), as a strip."""
    tasks = list(kills.tasks)
    figure, axes = _figure(6.0, 1.4)
    for place, task in enumerate(tasks):
        axes.bar(place, 1, width=0.92, color=_COLORS[kills.tasks[task].outcome])
    _name_x(axes, tasks)
    axes.set_yticks([])
    axes.set_title(_text(f"{kills.variant}: {kills.status}, by {len(kills.killed_by)} of {len(tasks)} tasks"))
    return _png(figure)


def plot_kill_matrix(scores: MutantScores) -> bytes:
    """Draws the kill matrix, tasks by mutants."""
    tasks, names = scores.eligible_tasks, list(scores.mutants)
    place = {task: i for i, task in enumerate(tasks)}
    cells = [["survived"] * len(names) for _ in tasks]
    for column, name in enumerate(names):
        for outcome, found in (
            ("killed", scores.mutants[name].killed_by),
            ("undetermined", scores.mutants[name].undetermined_tasks),
        ):
            for task in found:
                cells[place[task]][column] = outcome
    return _heat([[_rgb(_COLORS[cell]) for cell in row] for row in cells], tasks, names, "task x mutant: killed")


def plot_cover_matrix(name: str, metric: MetricCoverage) -> bytes:
    """Draws one metric's cover matrix, tasks by items; an opaque metric has its coverage by subset drawn instead."""
    if metric.kind == "opaque":
        values = [s.coverage for s in metric.subsets.values() if not isinstance(s.coverage, Undefined)]
        figure, axes = _figure(4.0, 2.2)
        axes.hist(values, bins=20, range=(0, 1), color="#1d4ed8")
        axes.set_xlabel("coverage of a subset")
        axes.set_title(_text(f"{name} (opaque)"))
        return _png(figure)
    tasks = list(metric.tasks)
    covered = [set(metric.tasks[task]) for task in tasks]
    on, off = _rgb("#1d4ed8"), _rgb("#e2e8f0")
    cells = [[on if item in found else off for item in metric.items] for found in covered]
    return _heat(cells, tasks, metric.items, f"task x item: {name}")


def plot_correlation(record: Correlation, labels: dict[str, str] | None = None) -> bytes:
    """Draws coverage against mutant score, a panel per metric (at most four), coloured by subset size."""
    names = list(record.metrics)[:4]
    figure, _ = _figure(3.0 * max(len(names), 1), 2.8, axes=False)
    for column, name in enumerate(names, start=1):
        axes = figure.add_subplot(1, len(names), column)
        _scatter(axes, record, name, (labels or {}).get(name, ""))
        if column == 1:
            axes.set_ylabel("mutant score")
    return _png(figure)


def _scatter(axes: Axes, record: Correlation, name: str, label: str) -> None:
    points = [
        (value, pair.mutant_score, pair.size)
        for pair in record.pairs
        if not isinstance(value := pair.coverage.get(name, Undefined(reason="")), Undefined)
    ]
    if points:
        x, y, size = zip(*points, strict=True)
        axes.scatter(x, y, c=size, cmap="viridis", s=14, alpha=0.8, linewidths=0)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("coverage")
    rho = record.metrics[name].estimates.partial_spearman_given_size
    shown = "undefined" if isinstance(rho, Undefined) else f"{rho.value:+.2f}"
    title = f"{name} ({label})" if label else name
    axes.set_title(_text(f"{title}\npartial rho {shown}"), fontsize=8)


def _figure(width: float, height: float, *, axes: bool = True) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot() if axes else None


def _heat(cells: list[list[tuple[float, ...]]], rows: list[str], columns: list[str], title: str) -> bytes:
    figure, axes = _figure(min(2.0 + 0.2 * len(columns), 9.0), min(1.2 + 0.16 * len(rows), 7.0))
    if cells and cells[0]:
        axes.imshow(cells, aspect="auto", interpolation="nearest")
    _name_x(axes, columns)
    if len(rows) <= _MAX_LABELS:
        axes.set_yticks(range(len(rows)), [_text(_short(row)) for row in rows], fontsize=6)
    axes.set_title(_text(title), fontsize=8)
    return _png(figure)


def _name_x(axes: Axes, names: list[str]) -> None:
    if len(names) <= _MAX_LABELS:
        axes.set_xticks(range(len(names)), [_text(_short(name)) for name in names], rotation=90, fontsize=6)
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(names)} of them, unnamed here")


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def _text(label: str) -> str:
    """Keeps a label from being read as mathematics; control characters have no glyph."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in label).replace("$", r"\$")


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _png(figure: Figure) -> bytes:
    """Encodes at the highest resolution that stays below `MAX_BYTES`."""
    for dpi in (100, 75, 50, 30):
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
        if stream.tell() <= MAX_BYTES:
            break
    return stream.getvalue()
