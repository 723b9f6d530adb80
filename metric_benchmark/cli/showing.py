# SPDX-License-Identifier: Apache-2.0
"""Shows a finished experiment: its table, and where evidence and report are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metric_benchmark.cli.console import say
from metric_benchmark.reporting.data import ReportData
from metric_benchmark.reporting.pooled import pooled_lines, pooled_rows
from metric_benchmark.reporting.table import render_table, summary_rows


def say_report(data: ReportData, html: Path) -> None:
    """Prints the summary table of an evidence root and the paths that matter."""
    from rich.console import Console

    rows = summary_rows(data)
    say()
    Console().print(render_table(rows, title=f"Experiment {data.name}"))
    for line in pooled_lines(pooled_rows(data)):
        say(line)
    say(data.completeness)
    if data.root.execution_path is not None:
        say(f"execution: {data.root.execution_path}")
    say(f"evidence:  {data.root.path}")
    say(f"report:    {html}")


def report_json(data: ReportData, html: Path) -> dict[str, Any]:
    """Returns what `--json` prints of an evidence root."""
    return {
        "experiment": data.name,
        "run_id": data.run_id,
        "evidence": str(data.root.path),
        "execution": str(data.root.execution_root),
        "report": str(html),
        "is_complete": data.is_sealed,
        "completeness": data.completeness,
        "rows": summary_rows(data),
        "pooled": pooled_rows(data),
    }


def shorten(names: Sequence[str], most: int = 8) -> str:
    """Returns names in one line; `-` for none."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "-"
