# SPDX-License-Identifier: Apache-2.0
"""Where things are; and that an analysis kept elsewhere writes nothing below the evidence it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.evidence.layout import EvidenceRoot


def test_the_tree_other_programs_rely_on():
    root = EvidenceRoot(Path("/r"))
    assert root.trial("desk", "short", "c" * 16, "run-2", "one__x") == Path(
        f"/r/execution/desk/short/{'c' * 16}/jobs/run-2/one__x"
    )
    assert root.config("desk", "short", "c" * 64) == Path(f"/r/execution/desk/short/{'c' * 16}")
    assert root.index("desk") == Path("/r/execution/desk/results.json")
    assert root.mutant_kills("desk", "short") == Path("/r/analysis/desk/mutants/short.json")
    assert root.relative(root.index("desk")) == "execution/desk/results.json"
    assert root.relative(root.coverage("desk")) == "analysis/desk/coverage.json"


@pytest.mark.parametrize(("output", "results"), [("/out", "/r"), ("/r/out", "/r"), ("/out", "/out/r")])
def test_reading_and_writing_are_kept_apart(output, results):
    root = EvidenceRoot(Path(output), execution_path=Path(results))
    read = [root.execution_inputs, root.manifest, root.index("desk"), root.variant("desk", "short")]
    written = [
        root.ledger, root.experiment_inputs, root.experiment, root.report, root.locks, root.execution_pointer,
        root.analysis("desk"), root.mutant_kills("desk", "m"), root.coverage("desk"), root.answers("desk"),
    ]  # fmt: skip
    own = EvidenceRoot(Path(results))
    assert read == [own.execution_inputs, own.manifest, own.index("desk"), own.variant("desk", "short")]
    assert all(path.is_relative_to(output) for path in written)
    assert root.relative(root.index("desk")) == "execution/desk/results.json"
    assert root.relative(root.coverage("desk")) == "analysis/desk/coverage.json"
