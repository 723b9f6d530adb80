# SPDX-License-Identifier: Apache-2.0
"""Kill and cover matrices as heat maps: one path per outcome, so that thousands of cells stay small."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from metric_benchmark.reporting.figures.svg import Svg, cut, num

#: More columns or rows than this are not drawn; the tables hold all of them.
MAX_LINES = 160


def draw_kill_matrix(
    case: str, tasks: Sequence[str], mutants: Sequence[str], outcome: Callable[[int, int], str]
) -> Markup:
    """Draws tasks (rows) by mutants (columns), in the order given.

    Args:
        case: id of the case.
        tasks: names of the rows.
        mutants: names of the columns.
        outcome: (row, column) -> `killed`, `survived` or `undetermined`.
    """
    label = f"Kill matrix of case {case}: which of {len(tasks)} tasks kill which of {len(mutants)} mutants."
    return _heat(label, {"fig": "kills", "case": case}, tasks, mutants, outcome, "survived")


def draw_cover_matrix(
    case: str, metric: str, tasks: Sequence[str], items: Sequence[str], covers: Callable[[int, int], bool]
) -> Markup:
    """Draws tasks (rows) by items (columns): what the baseline exercises on which task."""
    label = (
        f"Cover matrix of case {case} by {metric}: which of {len(tasks)} tasks exercise which of {len(items)} items."
    )
    return _heat(
        label, {"fig": "cover", "case": case, "metric": metric}, tasks, items,
        lambda row, column: "covered" if covers(row, column) else "uncovered", "uncovered",
    )  # fmt: skip


def _heat(
    label: str,
    data: Mapping[str, str],
    rows: Sequence[str],
    columns: Sequence[str],
    outcome: Callable[[int, int], str],
    ground: str,
) -> Markup:
    cell = 18 if max(len(rows), len(columns)) <= 30 else 14 if max(len(rows), len(columns)) <= 60 else 11
    left = 14 + 6.4 * min(max((len(r) for r in rows), default=0), 26)
    turn = -55 if cell > 14 else -90
    top = 14 + (5.0 if turn == -55 else 5.8) * min(max((len(c) for c in columns), default=0), 26)
    width, height = left + cell * len(columns) + (70 if turn == -55 else 8), top + cell * len(rows) + 6
    grid = {"x": num(left), "y": num(top), "cell": str(cell), "rows": str(len(rows)), "columns": str(len(columns))}
    svg = Svg(width, height, label, is_fixed=True, data={**data, **grid})
    for column, name in enumerate(columns):
        svg.text(left + (column + 0.5) * cell + 3, top - 6, cut(name), "cell-name", turn=turn)
    paths: dict[str, list[str]] = {}
    for row, name in enumerate(rows):
        svg.text(left - 6, top + (row + 0.5) * cell + 4, cut(name), "cell-name", anchor="end")
        for column, length, found in _runs(row, len(columns), outcome):
            if found != ground:
                paths.setdefault(found, []).append(
                    "".join(
                        f"M{num(left + (column + k) * cell)} {num(top + row * cell)}h{cell - 1}v{cell - 1}h-{cell - 1}z"
                        for k in range(length)
                    )
                )
    svg.add(
        '<rect class="c-{}" x="{}" y="{}" width="{}" height="{}"/>',
        ground, num(left), num(top), num(cell * len(columns)), num(cell * len(rows)),
    )  # fmt: skip
    for found, parts in sorted(paths.items()):
        svg.add('<path class="c-{}" d="{}"/>', found, "".join(parts))
    svg.add('<path class="cursor" d=""/>')
    return svg.render()


def _runs(row: int, n: int, outcome: Callable[[int, int], str]) -> list[tuple[int, int, str]]:
    """Returns (first column, length, outcome) of equal neighbours in a row."""
    runs: list[tuple[int, int, str]] = []
    for column in range(n):
        found = outcome(row, column)
        if runs and runs[-1][2] == found:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, found)
        else:
            runs.append((column, 1, found))
    return runs
