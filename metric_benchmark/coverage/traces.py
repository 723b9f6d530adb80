# SPDX-License-Identifier: Apache-2.0
"""Reads the baseline's trajectories into traces: checked against their recorded digest, one trace per trial.

Subagents, continuations and the steps of multi-step tasks are followed. A part that is referred to but not
there makes the task unmeasured, as nobody can say what the agent did not do in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.atif import UnreadableTraceError, load_json, parse_atif
from metric_benchmark.coverage.protocol import Observation, ToolCall, Trace, TraceStep
from metric_benchmark.errors import EvidenceError
from metric_benchmark.hashing import digest_bytes
from metric_benchmark.records.trajectories import combine_digests, root_trajectories, trajectory_files

#: A trial with one of these has run to an end that counts: what its agent did is what the baseline does.
_MEASURABLE = frozenset({"valid", "agent_error"})
#: Traces up to this many bytes stay in memory; longer ones are read again by each metric that asks.
_KEEP_BYTES = 128 * 1024
_MAX_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class BaselineTrial:
    """One attempt of the baseline, as the evidence has it.

    Args:
        task: task id.
        attempt: rank of the attempt, from 1.
        status: the trial's status, see 1-domain.
        folder: the native trial folder.
        trajectory_sha256: recorded digest of the trajectory; None where the agent wrote none.
    """

    task: str
    attempt: int
    status: str
    folder: Path
    trajectory_sha256: str | None


@dataclass(frozen=True)
class TraceSet:
    """All readable traces, and why the tasks without one have none.

    Args:
        traces: sorted by task and attempt.
        unmeasured: task -> reason.
        notes: what was left out of the traces that could be read.
    """

    traces: tuple[Trace, ...]
    unmeasured: Mapping[str, str]
    notes: tuple[str, ...]


NO_TRACES = TraceSet((), {}, ())


def read_traces(trials: Iterable[BaselineTrial], tasks: Iterable[str]) -> TraceSet:
    """Reads the trajectories of the baseline's trials.

    A task with at least one readable trace is measured; attempts without one are named in the notes.

    Raises:
        EvidenceError: a recorded trajectory is gone or differs from its recorded digest.
    """
    traces: list[Trace] = []
    failures: dict[str, list[tuple[int, str]]] = {task: [] for task in sorted(tasks)}
    notes: list[str] = []
    for trial in sorted(trials, key=lambda t: (t.task, t.attempt)):
        if trial.task not in failures:
            continue
        try:
            trace = read_trace(trial)
        except UnreadableTraceError as error:
            failures[trial.task].append((trial.attempt, str(error)))
            continue
        traces.append(trace)
        notes += [f"task {trial.task}, attempt {trial.attempt}: {note}" for note in trace.notes]
    measured = {trace.task for trace in traces}
    unmeasured: dict[str, str] = {}
    for task, reasons in failures.items():
        if task not in measured:
            unmeasured[task] = "; ".join(dict.fromkeys(why for _, why in reasons)) or "no baseline trial"
        else:
            notes += [f"task {task}, attempt {attempt}: not read: {why}" for attempt, why in reasons]
    return TraceSet(tuple(traces), unmeasured, tuple(notes))


def read_trace(trial: BaselineTrial) -> Trace:
    """Reads the trajectory of one trial.

    Raises:
        UnreadableTraceError: there is none, or it is invalid.
        EvidenceError: it differs from what was recorded.
    """
    if trial.status not in _MEASURABLE:
        raise UnreadableTraceError(f"the baseline's trial ended as {trial.status}")
    if trial.trajectory_sha256 is None:
        raise UnreadableTraceError("the agent wrote no trajectory")
    roots = root_trajectories(trial.folder)
    if not roots:
        raise EvidenceError(
            f"{trial.folder / 'agent' / 'trajectory.json'}: missing, expected a trajectory with SHA-256 "
            f"{trial.trajectory_sha256}; restore the job folder or run the baseline again"
        )
    contents = _read_files(trial.folder)
    digests = {name: digest_bytes(data) for name, data in contents.items()}
    root_names = tuple(path.relative_to(trial.folder).as_posix() for path in roots)
    found = combine_digests(digests)
    # A recorder that knows of one file only has digested the root alone.
    if trial.trajectory_sha256 not in (found, digests[root_names[0]]):
        named = roots[0] if len(digests) == 1 else f"{trial.folder} ({len(digests)} trajectory files)"
        raise EvidenceError(
            f"{named}: the trajectory was changed after its job ended: found SHA-256 {found}, expected "
            f"{trial.trajectory_sha256}; restore the job folder or run the baseline again"
        )
    walk = _Walk(contents)
    steps = walk.run(root_names)
    small = sum(map(len, contents.values())) <= _KEEP_BYTES
    return Trace(
        task=trial.task,
        attempt=trial.attempt,
        path=roots[0],
        sha256=digests[root_names[0]],
        digest=trial.trajectory_sha256,
        folder=trial.folder,
        load=partial(_kept, steps) if small else partial(_read_again, trial.folder, root_names, digests),
        files=tuple(trial.folder / name for name in walk.read),
        notes=tuple(walk.notes),
    )


def _read_files(folder: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for path in trajectory_files(folder):
        name = path.relative_to(folder).as_posix()
        if not path.resolve().is_relative_to(folder.resolve()):
            raise EvidenceError(f"{path}: a link that leaves the trial folder; evidence must hold the file itself")
        if path.stat().st_size > _MAX_BYTES:
            raise UnreadableTraceError(f"{name} has more than {_MAX_BYTES >> 20} MiB")
        try:
            contents[name] = path.read_bytes()
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be read: {error.strerror}") from error
    return contents


def _kept(steps: tuple[TraceStep, ...]) -> tuple[TraceStep, ...]:
    return steps


def _read_again(folder: Path, roots: tuple[str, ...], digests: Mapping[str, str]) -> tuple[TraceStep, ...]:
    contents = _read_files(folder)
    if {name: digest_bytes(data) for name, data in contents.items()} != digests:
        raise EvidenceError(f"{folder}: the trajectory was changed while it was being analysed; run again")
    return _Walk(contents, is_validated=True).run(roots)


@dataclass
class _Walk:
    """One walk over the files of a trajectory, collecting steps.

    Works on JSON values whose shape Harbor's model has validated: its objects would take ten times the time and room.
    """

    contents: Mapping[str, bytes]
    is_validated: bool = False
    notes: list[str] = field(default_factory=list[str])
    read: list[str] = field(default_factory=list[str])

    def run(self, roots: Sequence[str]) -> tuple[TraceStep, ...]:
        steps: list[TraceStep] = []
        for name in roots:
            # steps/<name>/agent/trajectory.json: each step of a multi-step task is a thread of its own.
            thread = name.split("/")[1] if name.startswith("steps/") else ""
            steps += self._file(name, thread)
        return tuple(steps)

    def _file(self, name: str, thread: str) -> Iterator[TraceStep]:
        """Yields the steps of a file and of its continuations."""
        following: str | None = name
        while following is not None:
            name = following
            if name in self.read:
                raise UnreadableTraceError(f"{name} is referred to twice")
            self.read.append(name)
            trajectory = self._parse(name)
            yield from self._trajectory(trajectory, name, thread, frozenset())
            ref: str | None = trajectory.get("continued_trajectory_ref")
            following = None if ref is None else self._resolve(ref, name, "continues in")

    def _parse(self, name: str) -> dict[str, Any]:
        if self.is_validated:
            return load_json(self.contents[name])
        try:
            trajectory, notes = parse_atif(self.contents[name])
        except UnreadableTraceError as error:
            raise UnreadableTraceError(f"{name}: {error}") from None
        self.notes += [f"{name}: {note}" for note in notes]
        return trajectory

    def _trajectory(
        self, trajectory: dict[str, Any], name: str, thread: str, known: frozenset[str | None]
    ) -> Iterator[TraceStep]:
        embedded: list[dict[str, Any]] = trajectory.get("subagent_trajectories") or []
        known = known | {sub["trajectory_id"] for sub in embedded}
        for step in trajectory["steps"]:
            if step.get("is_copied_context"):
                continue
            yield _convert(step, thread)
            for number, ref in enumerate(_subagent_refs(step), start=1):
                # An embedded one is walked below, whether or not anything refers to it.
                if ref.get("trajectory_id") in known:
                    continue
                if ref.get("trajectory_path") is None:
                    raise UnreadableTraceError(f"{name}: subagent {ref.get('trajectory_id')} is not in the file")
                other = self._resolve(ref["trajectory_path"], name, "has a subagent in")
                if other not in self.read:
                    yield from self._file(other, f"{thread}/{step['step_id']}.{number}")
        for sub in embedded:
            yield from self._trajectory(sub, name, f"{thread}/{sub['trajectory_id']}", known)

    def _resolve(self, ref: str, name: str, relation: str) -> str:
        """Returns the name of a file that `name` refers to; paths are relative to its folder."""
        folder = name.rpartition("/")[0]
        other = f"{folder}/{ref}"
        if other not in self.contents:
            raise UnreadableTraceError(f"{name} {relation} {ref!r}, which is not in {folder}")
        return other


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    observation: dict[str, Any] = step.get("observation") or {}
    return observation.get("results") or []


def _subagent_refs(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for result in _results(step):
        yield from result.get("subagent_trajectory_ref") or ()


def _convert(step: dict[str, Any], thread: str) -> TraceStep:
    calls: list[dict[str, Any]] = step.get("tool_calls") or []
    return TraceStep(
        source=step["source"],
        message=_text(step["message"]),
        tool_calls=tuple(ToolCall(c["function_name"], c["arguments"], c["tool_call_id"]) for c in calls),
        observations=tuple(
            Observation(_text(result.get("content")), result.get("source_call_id"), result.get("extra") or {})
            for result in _results(step)
            # A bare reference to a subagent is no observation of the agent's.
            if result.get("content") is not None or not result.get("subagent_trajectory_ref")
        ),
        thread=thread,
        extra=step.get("extra") or {},
    )


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = (part.get("text") for part in content)
    return "\n".join(f"[{content[i]['type']}]" if text is None else text for i, text in enumerate(parts))
