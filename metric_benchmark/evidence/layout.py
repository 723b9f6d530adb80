# SPDX-License-Identifier: Apache-2.0
"""Where everything is below an evidence root: paths only, no reading or writing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: How many hex digits of a config hash name its folder.
FOLDER_DIGITS = 16
#: Trials of a proof that are none of the experiment's have a root of their own below it.
PROBES = "proof"


@dataclass(frozen=True)
class EvidenceRoot:
    """The folder that holds one experiment's evidence (1-domain, "Evidence on disk").

    Attributes:
        path: the folder.
        execution_path: another root whose execution is analysed here; `None` where it is this one's own. Nothing is
            ever written below it.
    """

    path: Path
    execution_path: Path | None = None

    @property
    def execution_root(self) -> Path:
        """The folder that holds the execution: manifest, indices, native jobs."""
        return self.execution_path or self.path

    @property
    def execution_inputs(self) -> Path:
        """Names the run."""
        return self.execution_root / "execution-inputs.json"

    @property
    def execution_pointer(self) -> Path:
        """Says which other root's execution is analysed here."""
        return self.path / "execution-from.json"

    @property
    def ledger(self) -> Path:
        """Append-only: budget, hypothesis digest at the first trial, seals."""
        return self.path / "ledger.jsonl"

    @property
    def manifest(self) -> Path:
        """The execution manifest."""
        return self.execution_root / "execution.json"

    @property
    def experiment_inputs(self) -> Path:
        """The guard of the analysis."""
        return self.path / "experiment-inputs.json"

    @property
    def experiment(self) -> Path:
        """The seal of the whole experiment; its presence means complete."""
        return self.path / "experiment.json"

    @property
    def validation(self) -> Path:
        """What a native validation found; it holds for one manifest."""
        return self.path / "validation.json"

    @property
    def report(self) -> Path:
        """The report for people."""
        return self.path / "report.html"

    @property
    def power(self) -> Path:
        """What the cases' designs could show, by simulation."""
        return self.path / "power.json"

    @property
    def is_evidence(self) -> bool:
        """Whether the folder holds anything of ours, however little: it says so by a file, not by its name."""
        marks = (self.path / self.execution_inputs.name, self.execution_pointer, self.experiment_inputs, self.ledger)
        marks = (*marks, self.power, self.locks)
        return any(mark.exists() or (self.path / PROBES / mark.name).exists() for mark in marks)

    @property
    def locks(self) -> Path:
        """Lock files; nothing in them matters once no process runs."""
        return self.path / ".locks"

    def case(self, case_id: str) -> Path:
        """A case's raw results."""
        return self.execution_root / "execution" / case_id

    def index(self, case_id: str) -> Path:
        """A case's index."""
        return self.case(case_id) / "results.json"

    def variant(self, case_id: str, variant_id: str) -> Path:
        """All of a variant's runs, current and superseded."""
        return self.case(case_id) / variant_id

    def config(self, case_id: str, variant_id: str, config_hash: str) -> Path:
        """A variant's runs under one configuration."""
        return self.variant(case_id, variant_id) / config_hash[:FOLDER_DIGITS]

    def trial(self, case_id: str, variant_id: str, folder: str, run: str, trial: str) -> Path:
        """Harbor's native folder of one trial."""
        return self.variant(case_id, variant_id) / folder / "jobs" / run / trial

    def analysis(self, case_id: str) -> Path:
        """A case's analysis: frozen inputs and the records of stages 2 to 4."""
        return self.path / "analysis" / case_id

    def mutant_kills(self, case_id: str, variant_id: str) -> Path:
        """One mutant's or control's kills."""
        return self.analysis(case_id) / "mutants" / f"{variant_id}.json"

    def mutant_scores(self, case_id: str) -> Path:
        """A case's mutant scores."""
        return self.analysis(case_id) / "mutant-scores.json"

    def coverage(self, case_id: str) -> Path:
        """A case's coverage."""
        return self.analysis(case_id) / "coverage.json"

    def answers(self, case_id: str) -> Path:
        """Answers coverage metrics gave, by request digest."""
        return self.path / "coverage-cache" / case_id

    def correlation(self, case_id: str) -> Path:
        """A case's correlation."""
        return self.analysis(case_id) / "correlation.json"

    def relative(self, path: Path) -> str:
        """Names a path the way records do: relative to the root, or to that of the execution."""
        text, execution = str(path), str(self.execution_root)
        # Asked for every trial; comparing the parts of paths would take longer than reading the trial.
        if text.startswith(f"{execution}/execution/"):
            return text[len(execution) + 1 :]
        return path.relative_to(self.path).as_posix()
