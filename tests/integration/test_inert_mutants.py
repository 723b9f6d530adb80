# SPDX-License-Identifier: Apache-2.0
"""A mutant that never does anything else than the baseline is named inert: in scores, status, report and proof."""

from __future__ import annotations

import json

import pytest

from metric_benchmark.cli import main

pytestmark = pytest.mark.harbor

AGENT = '''
"""Writes the word its instruction asks for with one command, and a trajectory of it."""
import json
import time
import uuid

from harbor.agents.base import BaseAgent


class Writer(BaseAgent):
    @staticmethod
    def name():
        return "writer"

    def version(self):
        return "1"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        command = f"mkdir -p /app && echo {instruction.split()[3]} > /app/out.txt; ls /app"
        result = await environment.exec(command)
        key = str(uuid.uuid4())
        steps = [
            {"step_id": 1, "source": "user", "message": instruction},
            {"step_id": 2, "source": "agent", "message": "", "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
             "tool_calls": [{"tool_call_id": key, "function_name": "bash", "arguments": {"command": command}}],
             "observation": {"results": [{"source_call_id": key, "content": result.stdout or ""}]}},
        ]
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        (self.logs_dir / "trajectory.json").write_text(json.dumps(
            {"schema_version": "ATIF-v1.7", "session_id": key, "agent": {"name": "writer", "version": "1"},
             "steps": steps}))
'''


def test_an_inert_mutant_is_named_everywhere(tiny, tmp_path, capsys):
    (tiny.folder / "agent").mkdir()
    (tiny.folder / "agent" / "agent.py").write_text(AGENT)
    agent = {"bundle": {"path": "agent"}, "entry": "agent:Writer"}
    mutants = [
        {"id": "no-awk", "operator": {"name": "tool_removal", "params": {"commands": ["awk"]}}},
        {"id": "no-ls", "operator": {"name": "tool_removal", "params": {"commands": ["ls"]}}},
        # It fires, but what it changes is never seen: neither the trace nor the reward shows it.
        {"id": "twice", "operator": {"name": "duplicated_action"}},
    ]
    tiny.edit("case.yaml", lambda c: c.update(baseline={"agent": agent}, mutants=mutants))
    tiny.edit("analysis.yaml", lambda a: a.update(coverage=[{"name": "suite_size"}]))
    tiny.sign()
    out = str(tmp_path / "out")
    assert main(["run-experiment", str(tiny.path), "--output", out]) == 0
    scores = json.loads((tmp_path / "out/analysis/tiny/mutant-scores.json").read_text())
    assert {name: mutant["is_inert"] for name, mutant in scores["mutants"].items()} == {
        "no-awk": True,
        "no-ls": False,
        "twice": True,
    }
    assert scores["controls"]["control-1"]["is_inert"] is True
    assert scores["mutants"]["no-awk"]["effect"] == "no trajectory and no reward differs from the baseline's"

    capsys.readouterr()
    assert main(["status", str(tiny.path), "--output", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inert_mutants"] == {"tiny": ["no-awk", "twice"]}
    assert main(["status", str(tiny.path), "--output", out]) == 0
    assert "case tiny: inert, never unlike the baseline: no-awk, twice" in capsys.readouterr().out
    assert main(["score", str(tiny.path), "--results", out]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("no-awk")] == ["inert"]
    report = (tmp_path / "out/report.html").read_text()
    assert "inert: no trajectory and no reward differs" in report.replace("&#39;", "'")

    assert main(["verify", str(tiny.path), "--deep", "--output", out, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [(f["subject"], f["state"]) for f in findings if f["check"] == "inert"] == [
        ("no-awk", "warning"),
        ("twice", "warning"),
    ]
