# SPDX-License-Identifier: Apache-2.0
"""The command for the matrices of other tools: `analyze-matrix`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metric_benchmark.cli.console import say_json
from metric_benchmark.cli.options import JsonOption, OutputOption
from metric_benchmark.cli.working import working

if TYPE_CHECKING:
    from metric_benchmark.config.models import AnalysisConfig
    from metric_benchmark.evidence.layout import EvidenceRoot
    from metric_benchmark.matrices import MatrixAnalysis


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        name="analyze-matrix",
        short_help="From matrices of any other tool to a verdict.",
        epilog="Example: metric-benchmark analyze-matrix --kills kills.csv --coverage coverage.csv --subsets "
        "subsets.csv --output out",
    )(analyze_matrix)


def _csv(what: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="FILE", help=what, show_default=False, exists=True, dir_okay=False)


def analyze_matrix(
    kills: Annotated[Path, _csv("CSV: header task,<mutant>...; cells 1, 0 or empty (undetermined).")],
    coverage: Annotated[Path, _csv("CSV: header task,<item>...; cells 1 or 0.")],
    subsets: Annotated[Path, _csv("CSV: header subset,<task>...; cells 1 or 0.")],
    output: OutputOption,
    analysis: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An analysis.yaml whose `correlation` counts; its hypotheses are about the metric `coverage`.",
            show_default=False,
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Judges a coverage table against a kill matrix that another tool made; no agent and no trial is needed.

    The case is called `matrix`, the metric `coverage`.
    """
    from metric_benchmark.cli.showing import report_json, say_report
    from metric_benchmark.config import parse_model, read_yaml
    from metric_benchmark.config.models import AnalysisConfig
    from metric_benchmark.evidence.layout import EvidenceRoot
    from metric_benchmark.matrices import DEFAULT_SETTINGS, read_matrices
    from metric_benchmark.matrices import analyze_matrix as analyze
    from metric_benchmark.reporting.data import load_report
    from metric_benchmark.reporting.html import write_report

    root = EvidenceRoot(output.absolute())
    _require_free(root)
    settings: AnalysisConfig | None = parse_model(read_yaml(analysis), AnalysisConfig) if analysis else None
    matrices = read_matrices(kills, coverage, subsets)
    with working("correlating"):
        found = analyze(*matrices, settings.correlation if settings else DEFAULT_SETTINGS)
        _write(root, found, {"kills": kills, "coverage": coverage, "subsets": subsets})
        html = write_report(root)
        data = load_report(root)
    if as_json:
        say_json(report_json(data, html))
    else:
        say_report(data, html)


def _require_free(root: EvidenceRoot) -> None:
    """Evidence of trials is worth more than what can be computed again from three files."""
    from metric_benchmark.errors import EvidenceError

    if root.execution_inputs.exists() or root.experiment_inputs.exists():
        raise EvidenceError(f"{root.path}: holds evidence of an experiment; give another --output")


def _write(root: EvidenceRoot, found: MatrixAnalysis, files: dict[str, Path]) -> None:
    from metric_benchmark.evidence.locks import lock_root
    from metric_benchmark.evidence.writes import write_record
    from metric_benchmark.hashing import digest_file
    from metric_benchmark.matrices import CASE
    from metric_benchmark.pipeline import implementation

    inputs = {name: digest_file(path) for name, path in files.items()}
    records = (
        (root.mutant_scores(CASE), "scoring", found.scores),
        (root.coverage(CASE), "coverage", found.coverage),
        (root.correlation(CASE), "correlation", found.correlation),
    )
    with lock_root(root, "exclusive"):
        for path, stage, record in records:
            write_record(path, record.model_copy(update={"inputs": inputs, "implementation": implementation(stage)}))
