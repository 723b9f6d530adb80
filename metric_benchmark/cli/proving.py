# SPDX-License-Identifier: Apache-2.0
"""`verify --deep`: proves an experiment's cases by trials and shows what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import typer

from metric_benchmark.cli.console import note, plural, say, say_json, say_table, warn
from metric_benchmark.errors import ConfigError, ExecutionError

_ORDER = ("failed", "unknown", "warning", "skipped", "ok")
_COLORS = {"failed": "red", "unknown": "red", "warning": "yellow", "skipped": "yellow", "ok": "green"}


def verify_deep(
    experiment: Path, output: Path | None, case_id: str | None, *, accept_changes: bool, as_json: bool
) -> None:
    """Runs the trials of a proof, of all cases or one, and prints its findings.

    Raises:
        typer.Exit: with status 2 when a case is not sound, 4 when a trial has no verdict.
    """
    from metric_benchmark.cli.checks import prepare_all
    from metric_benchmark.cli.progress import note_runtimes, show_progress
    from metric_benchmark.experiment import name_run
    from metric_benchmark.proof import proof_root, prove
    from metric_benchmark.proof.prove import count_trials

    ready = prepare_all(experiment)
    for message in ready.checked.warnings:
        warn(message)
    run = name_run(ready.run.experiment, proof_root(ready.run.experiment, output).path)
    note(f"evidence: {run.root.path}")
    note_runtimes(ready.checked.variants)
    with show_progress(*count_trials(run, case_id)) as sink:
        # The cache is ours: what is in it of an older experiment is in nobody's way.
        proof = prove(run, sink, case_id=case_id, accept_changes=accept_changes or output is None)
    found = sorted(proof.findings, key=lambda finding: (finding.case, _ORDER.index(finding.state)))
    counts = Counter(finding.state for finding in found)
    if as_json:
        say_json(
            {
                "experiment": run.experiment.name,
                "evidence": str(run.root.path),
                "is_sound": proof.is_sound,
                "n_run": proof.n_run,
                "n_kept": proof.n_kept,
                "counts": {state: counts[state] for state in _ORDER},
                "findings": [asdict(finding) for finding in found],
            }
        )
    else:
        rows = [[f.case, f.check, f.state, f.subject or "-", f.found] for f in found]
        say_table(["case", "check", "state", "subject", "found"], rows)
        remedies = dict.fromkeys(f"{f.check}: {f.remedy}" for f in found if f.remedy)
        if remedies:
            say()
            say("what to do:")
        for remedy in remedies:
            say(f"  {remedy}")
        say()
        say(f"{plural(proof.n_run, 'trial')} run, {proof.n_kept} kept")
        shown = ", ".join(
            typer.style(f"{counts[state]} {state}", fg=_COLORS[state]) for state in _ORDER if counts[state]
        )
        what = f"experiment {run.experiment.name}" if case_id is None else f"case {case_id}"
        say(f"{what}: {'sound' if proof.is_sound else 'not sound'} ({shown})")
    if not proof.is_sound:
        raise typer.Exit(ConfigError.exit_status if counts["failed"] else ExecutionError.exit_status)
