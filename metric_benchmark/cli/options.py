# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ExperimentArgument = Annotated[
    Path, typer.Argument(metavar="EXPERIMENT", help="experiment.yaml, or the folder that holds it.", show_default=False)
]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="The evidence root.", show_default=False, file_okay=False)
]
ResultsOption = Annotated[
    Path,
    typer.Option(
        "--results", metavar="DIR", help="The evidence root of an earlier run.", show_default=False, file_okay=False
    ),
]
AnalysisOutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Where the analysis is written (default: into the evidence itself).",
        show_default=False,
        file_okay=False,
    ),
]
RunIdOption = Annotated[
    str | None,
    typer.Option("--run-id", metavar="ID", help="Names the run (default: the experiment's name).", show_default=False),
]
CaseOption = Annotated[
    str | None,
    typer.Option("--case", metavar="ID", help="Only this case (default: all).", show_default=False),
]
ReplayOption = Annotated[
    bool,
    typer.Option("--replay", help="Launch no metric command or model: only answers given before count."),
]
AcceptOption = Annotated[
    bool,
    typer.Option("--accept-changes", help="Run what changed inputs ask for; what was paid for before stays on disk."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
