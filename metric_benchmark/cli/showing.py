# SPDX-License-Identifier: Apache-2.0
"""Shows a finished experiment: its table, and where evidence and report are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metric_benchmark.cli.console import say
from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.pipeline import ExperimentRun
from metric_benchmark.reporting.data import ReportData, load_report
from metric_benchmark.reporting.table import render_table, summary_rows


def say_experiment(run: ExperimentRun) -> None:
    """Prints the summary table of a run and the paths of its evidence and report."""
    say_report(load_report(run.root))


def say_report(data: ReportData) -> None:
    """Prints the summary table of an evidence root and the paths that matter."""
    from rich.console import Console

    rows = summary_rows(data)
    say()
    Console().print(render_table(rows, title=f"Experiment {data.name}"))
    say(data.completeness)
    if data.root.execution_path is not None:
        say(f"execution: {data.root.execution_path}")
    say(f"evidence:  {data.root.path}")
    if data.root.report.exists():
        say(f"report:    {data.root.report}")


def experiment_json(run: ExperimentRun) -> dict[str, Any]:
    """Returns what `--json` prints of a run."""
    return report_json(load_report(run.root))


def report_json(data: ReportData) -> dict[str, Any]:
    """Returns what `--json` prints of an evidence root."""
    return {
        "experiment": data.name,
        "run_id": data.run_id,
        "evidence": str(data.root.path),
        "execution": str(data.root.execution_root),
        "report": _existing(data.root),
        "is_complete": data.is_sealed,
        "completeness": data.completeness,
        "rows": summary_rows(data),
    }


def shorten(names: Sequence[str], most: int = 8) -> str:
    """Returns names in one line; `-` for none."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "-"


def _existing(root: EvidenceRoot) -> str | None:
    return str(root.report) if root.report.exists() else None
