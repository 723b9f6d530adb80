# SPDX-License-Identifier: Apache-2.0
"""What the one reader of traces makes of good, odd, newer, damaged and missing trajectories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from metric_benchmark.coverage import traces as traces_module
from metric_benchmark.coverage.atif import UnreadableTraceError
from metric_benchmark.coverage.traces import BaselineTrial, read_trace, read_traces
from metric_benchmark.errors import EvidenceError
from metric_benchmark.records.trajectories import digest_trajectory


def tools(trace):
    return [call.name for step in trace.steps for call in step.tool_calls]


def test_reads_calls_arguments_messages_and_observations(trial):
    seen = {"results": [{"source_call_id": "c0", "content": "a.txt"}]}
    content = trial.atif(
        trial.step(source="user", message="List the files."),
        trial.step(("list", {"path": "."}), message="looking", observation=seen),
    )
    trace = read_trace(trial("t", content))
    user, agent = trace.steps
    assert (user.source, user.message, user.tool_calls) == ("user", "List the files.", ())
    assert agent.tool_calls[0].arguments == {"path": "."}
    assert (agent.observations[0].text, agent.observations[0].call_id) == ("a.txt", "c0")
    assert trace.notes == ()


def test_copied_context_is_skipped(trial):
    content = trial.atif(trial.step("old", is_copied_context=True), trial.step("new"))
    assert tools(read_trace(trial("t", content))) == ["new"]


def test_embedded_subagents_are_walked_at_any_depth(trial):
    inner = {**trial.atif(trial.step("deep")), "trajectory_id": "inner"}
    outer = {
        **trial.atif(trial.step("mid")),
        "trajectory_id": "outer",
        "subagent_trajectories": [inner],
    }
    ref = {"results": [{"subagent_trajectory_ref": [{"trajectory_id": "outer"}]}]}
    content = trial.atif(trial.step("top", observation=ref), subagent_trajectories=[outer])
    trace = read_trace(trial("t", content))
    assert [(s.thread, s.tool_calls[0].name) for s in trace.steps] == [
        ("", "top"),
        ("/outer", "mid"),
        ("/outer/inner", "deep"),
    ]


def test_continuations_and_subagent_files_are_followed(trial):
    ref = {"results": [{"subagent_trajectory_ref": [{"trajectory_path": "trajectory.sub.json"}]}]}
    written = trial(
        "t",
        trial.atif(trial.step("a", observation=ref), continued_trajectory_ref="trajectory.cont-1.json"),
        files={
            "agent/trajectory.cont-1.json": trial.atif(trial.step("a", is_copied_context=True), trial.step("b")),
            "agent/trajectory.sub.json": trial.atif(trial.step("s")),
        },
    )
    trace = read_trace(written)
    assert [(s.thread, s.tool_calls[0].name) for s in trace.steps] == [("", "a"), ("/1.1", "s"), ("", "b")]
    assert [p.name for p in trace.files] == [
        "trajectory.json",
        "trajectory.sub.json",
        "trajectory.cont-1.json",
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"continued_trajectory_ref": "trajectory.cont-1.json"}, "continues in 'trajectory.cont-1.json'"),
        ({"continued_trajectory_ref": "../../../secret.json"}, "which is not in agent"),
        ({"continued_trajectory_ref": "trajectory.json"}, "referred to twice"),
    ],
)
def test_a_missing_or_circular_part_makes_the_trace_unreadable(trial, more, message):
    with pytest.raises(UnreadableTraceError, match=message):
        read_trace(trial("t", trial.atif(trial.step("a"), **more)))


def test_a_subagent_that_is_nowhere_makes_the_trace_unreadable(trial):
    ref = {"results": [{"subagent_trajectory_ref": [{"trajectory_id": "gone"}]}]}
    with pytest.raises(UnreadableTraceError, match="subagent gone is not in the file"):
        read_trace(trial("t", trial.atif(trial.step("a", observation=ref))))


def test_the_steps_of_a_multi_step_task_are_threads(trial):
    written = trial(
        "t",
        files={
            "steps/02-fix/agent/trajectory.json": trial.atif(trial.step("write")),
            "steps/01-find/agent/trajectory.json": trial.atif(trial.step("search")),
        },
    )
    recorded = digest_trajectory(written.folder)
    trace = read_trace(BaselineTrial("t", 1, "valid", written.folder, recorded))
    assert [(s.thread, s.tool_calls[0].name) for s in trace.steps] == [
        ("01-find", "search"),
        ("02-fix", "write"),
    ]
    assert trace.digest == recorded


def test_unknown_fields_and_newer_versions_are_read_and_named(trial):
    content = trial.atif(
        trial.step("a", mood="good"),
        trial.step("b", mood="bad", message=[{"type": "video", "source": {"path": "x.mp4"}}]),
        version="ATIF-v1.9",
        galaxy=1,
    )
    trace = read_trace(trial("t", content))
    assert tools(trace) == ["a", "b"]
    assert trace.steps[1].message == "[video]"
    assert set(trace.notes) == {
        "agent/trajectory.json: ATIF-v1.9 is newer than ATIF-v1.8, read as that",
        "agent/trajectory.json: content of unknown type video in steps[].message",
        "agent/trajectory.json: unknown field galaxy",
        "agent/trajectory.json: unknown field steps[].mood (2 times)",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON"),
        (b"[]", "a JSON object was expected, found list"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"schema_version": "ATIF-v1.8", "steps": []}', "not valid ATIF"),
        (b'{"schema_version": "elsewhere", "agent": {"name": "x", "version": "1"}}', "not valid ATIF"),
    ],
)
def test_an_invalid_trace_makes_its_task_unmeasured(trial, content, message):
    found = read_traces([trial("t", content)], ["t"])
    assert found.traces == ()
    assert message in found.unmeasured["t"]


def test_a_task_with_one_readable_attempt_is_measured_and_the_other_named(trial):
    trials = [
        trial("t", trial.atif(trial.step("a"))),
        trial("t", b"{", attempt=2),
        trial("u", trial.atif(trial.step("a")), status="infrastructure"),
        trial("v", None),
    ]
    found = read_traces(trials, ["t", "u", "v", "w"])
    assert [(t.task, t.attempt) for t in found.traces] == [("t", 1)]
    assert found.unmeasured == {
        "u": "the baseline's trial ended as infrastructure",
        "v": "the agent wrote no trajectory",
        "w": "no baseline trial",
    }
    assert len(found.notes) == 1
    assert found.notes[0].startswith("task t, attempt 2: not read: agent/trajectory.json: not JSON")


def test_changed_bytes_are_damaged_evidence_and_name_the_file(trial):
    written = trial("t", trial.atif(trial.step("a")))
    path = written.folder / "agent" / "trajectory.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(EvidenceError, match=str(path)):
        read_trace(written)


def test_a_recorded_trajectory_that_is_gone_is_damaged_evidence(trial):
    written = trial("t", trial.atif(trial.step("a")))
    (written.folder / "agent" / "trajectory.json").unlink()
    with pytest.raises(EvidenceError, match=r"trajectory\.json: missing, expected"):
        read_trace(written)


def test_a_changed_continuation_is_noticed_when_all_files_were_digested(trial):
    written = trial(
        "t",
        trial.atif(trial.step("a"), continued_trajectory_ref="trajectory.cont-1.json"),
        files={"agent/trajectory.cont-1.json": trial.atif(trial.step("b"))},
    )
    recorded = BaselineTrial("t", 1, "valid", written.folder, digest_trajectory(written.folder))
    assert tools(read_trace(recorded)) == ["a", "b"]
    other = written.folder / "agent" / "trajectory.cont-1.json"
    other.write_bytes(other.read_bytes() + b" ")
    with pytest.raises(EvidenceError, match="2 trajectory files"):
        read_trace(recorded)


def test_a_link_out_of_the_trial_folder_is_refused(trial, tmp_path: Path):
    written = trial("t", trial.atif(trial.step("a")))
    path = written.folder / "agent" / "trajectory.json"
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(EvidenceError, match="leaves the trial folder"):
        read_trace(written)


def test_a_long_trace_is_read_again_and_checked_again(trial, monkeypatch):
    monkeypatch.setattr(traces_module, "_KEEP_BYTES", 10)
    written = trial("t", trial.atif(trial.step("a")))
    trace = read_trace(written)
    assert tools(trace) == ["a"]
    (written.folder / "agent" / "trajectory.json").write_text("{}")
    with pytest.raises(EvidenceError, match="changed while it was being analysed"):
        _ = trace.steps


def test_reading_traces_loads_neither_litellm_nor_harbors_agents(trial):
    written = trial("t", trial.atif(trial.step("a")))
    code = (
        "import sys; from pathlib import Path; import metric_benchmark.coverage.traces as t\n"
        "assert not [m for m in sys.modules if m.startswith('harbor')]\n"
        f"sha256, folder = {written.trajectory_sha256!r}, Path({str(written.folder)!r})\n"
        "t.read_trace(t.BaselineTrial('t', 1, 'valid', folder, sha256))\n"
        "for name in ('litellm', 'harbor.agents', 'harbor.models.trajectories'): print(name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
