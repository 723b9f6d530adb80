# SPDX-License-Identifier: Apache-2.0
"""A comparison of two experiments for people and programs: rows, a table for a terminal, Markdown."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from metric_benchmark.reporting.compare import Comparison, Difference
from metric_benchmark.reporting.markdown import escape_markdown, markdown_table
from metric_benchmark.reporting.sentences import number, p_text
from metric_benchmark.reporting.table import Row, words


def comparison_rows(comparison: Comparison) -> list[Row]:
    """Returns one row per case and quantity, for `--json` and pandas."""
    return [
        {
            "case_id": found.case, "what": found.what, "a": found.a, "b": found.b, "estimate": found.estimate,
            "ci_low": found.ci_low, "ci_high": found.ci_high,
            "ci_level": None if found.ci_low is None else comparison.level, "p_value": found.p_value, "n": found.n,
            "unit": found.unit, "is_paired": found.is_paired, "note": found.note,
        }
        for case in comparison.cases
        for found in case.differences
    ]  # fmt: skip


def render_comparison(comparison: Comparison) -> Table:
    """Returns the differences as a table for a terminal of 80 columns."""
    names = f"A = {comparison.name_a}, B = {comparison.name_b}"
    table = Table(title=escape(names), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
                  caption=escape("\n".join(_remarks(comparison))) or None, caption_justify="left")  # fmt: skip
    table.add_column("case", overflow="fold")
    table.add_column("what", overflow="fold")
    for name in ("A", "B", "B - A", f"{comparison.level:.0%} interval", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in comparison.cases:
        for found in case.differences:
            table.add_row(escape(found.case), escape(found.what), *_numbers(found))
    return table


def comparison_markdown(comparison: Comparison) -> str:
    """Returns the comparison as Markdown."""
    heads = ["case", "what", "A", "B", "B - A", f"{comparison.level:.0%} interval", "p", "how"]
    rows = [
        [escape_markdown(found.case), escape_markdown(found.what), *_numbers(found), escape_markdown(found.note)]
        for case in comparison.cases
        for found in case.differences
    ]
    parts = [
        f"# A = {escape_markdown(comparison.name_a)} against B = {escape_markdown(comparison.name_b)}",
        markdown_table(heads, rows, right=range(2, 7)),
        "\n".join(f"- {escape_markdown(text)}" for text in _remarks(comparison)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _numbers(found: Difference) -> list[str]:
    interval = "–" if found.ci_low is None else f"{number(found.ci_low)} to {number(found.ci_high)}"
    p = p_text(found.p_value).removeprefix("= ")
    return [_plain(found.a), _plain(found.b), number(found.estimate), interval, p]


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")


def _remarks(comparison: Comparison) -> list[str]:
    lines: list[str] = []
    for case in comparison.cases:
        if case.gained:
            lines.append(f"{case.case}: only B kills {', '.join(case.gained)}")
        if case.lost:
            lines.append(f"{case.case}: only A kills {', '.join(case.lost)}")
        for old, new, verdict_a, verdict_b in case.verdicts:
            if verdict_a != verdict_b:
                name = old if old == new else f"{old} against {new}"
                lines.append(f"{case.case}: verdict of {name}: {words(verdict_a)} in A, {words(verdict_b)} in B")
        lines += [f"{case.case}: {note}" for note in case.notes]
    for name, cases in (("A", comparison.only_a), ("B", comparison.only_b)):
        if cases:
            lines.append(f"only in {name}: {', '.join(cases)}")
    return lines
