# SPDX-License-Identifier: Apache-2.0
"""Decides what is missing, failed, stale or fresh: a pure function of what is wanted and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from metric_benchmark.hashing import digest_json

type State = Literal["missing", "failed", "stale", "fresh"]
type Stage = Literal["raw_results", "mutant_scores", "subset_scores", "coverage", "correlation"]
#: A partition: its stage and its key, `case|variant` or `case`.
type Place = tuple[Stage, str]

STAGES: tuple[Stage, ...] = ("raw_results", "mutant_scores", "subset_scores", "coverage", "correlation")
#: How many names a reason lists.
_MAX_NAMES = 3
#: What the name of an input means to a reader.
_WORDS = {
    "agent": "the agent's settings",
    "code": "the code of the agent or its operator",
    "operator": "the operator or its parameters",
    "environment": "the environment",
    "timeouts": "the timeouts",
    "reward_key": "the reward key",
    "harbor": "Harbor's version",
    "scoring": "the scoring settings",
    "tasks": "the list of tasks",
    "subsets": "the subsets",
    "metrics": "the metric settings",
    "description": "the case's description",
    "correlation": "the correlation settings",
    "n_cases": "the number of cases, over which claims are adjusted,",
}


@dataclass(frozen=True)
class PartitionStatus:
    """One partition of one stage: its key (`case|variant` or `case`), its state and the reason.

    Of one that is not fresh, `wanted` digests all it would be made from now: while that stays, what failed would fail
    again.
    """

    stage: Stage
    key: str
    state: State
    reason: str
    n_superseded: int = 0
    wanted: str = ""


@dataclass(frozen=True)
class Wanted:
    """What a partition's record must have been made from to be current.

    Attributes:
        place: the partition.
        inputs: digests of settings and pinned files, by name.
        evidence: digests of the records it is computed from, as they are on disk now.
        summary: where given, one digest of all that decides; equal, the inputs are not compared.
        code: digest of the stage's source; None where the inputs already hold what of the code matters.
        upstream: the partitions it is computed from.
    """

    place: Place
    inputs: Mapping[str, str]
    evidence: Mapping[str, str]
    summary: str | None = None
    code: str | None = None
    upstream: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Found:
    """What is on disk of a partition; `problem` says why it cannot be used, `note` what else a reader should know."""

    inputs: Mapping[str, str]
    evidence: Mapping[str, str]
    summary: str | None = None
    code: str | None = None
    problem: str | None = None
    note: str = ""
    n_superseded: int = 0


def classify(wanted: Iterable[Wanted], found: Mapping[Place, Found]) -> tuple[PartitionStatus, ...]:
    """Compares what is wanted with what was found.

    A partition is `missing` when there is nothing, `failed` when what there is cannot be used, `stale` when it was made
    from something else than it would be made from now or when something upstream is not fresh, else `fresh`.

    Args:
        wanted: every partition, upstream first.
        found: what there is.
    """
    states: dict[Place, State] = {}
    items: dict[Place, Wanted] = {}
    digests: dict[Place, str] = {}
    statuses: list[PartitionStatus] = []
    for item in wanted:
        stage, key = item.place
        record = found.get(item.place)
        state, reason = _classify(item, record, states)
        states[item.place] = state
        items[item.place] = item
        digest = "" if state == "fresh" else _digest(item, items, digests)
        statuses.append(PartitionStatus(stage, key, state, reason, record.n_superseded if record else 0, digest))
    return tuple(statuses)


def _digest(wanted: Wanted, items: Mapping[Place, Wanted], known: dict[Place, str]) -> str:
    """Digests what a partition would be made from, down to the raw results; `known` has what was digested before.

    Records of the analysis stand for what they are computed from, so that computing one changes nothing downstream.
    """
    if wanted.summary is not None:
        return wanted.summary
    if wanted.place not in known:
        is_first = all(stage == "raw_results" for stage, _ in wanted.upstream)
        evidence = dict(wanted.evidence) if is_first else {}
        upstream = [_digest(items[place], items, known) for place in wanted.upstream]
        known[wanted.place] = digest_json([dict(wanted.inputs), evidence, wanted.code, upstream])[:16]
    return known[wanted.place]


def _classify(wanted: Wanted, found: Found | None, states: Mapping[Place, State]) -> tuple[State, str]:
    if found is None:
        return "missing", "never run" if wanted.place[0] == "raw_results" else "never computed"
    if found.problem is not None:
        return "failed", found.problem
    reasons = [*_changes(wanted, found), *_other_evidence(wanted, found), *_not_fresh(wanted, states)]
    return ("stale", "; ".join(reasons)) if reasons else ("fresh", found.note)


def _changes(wanted: Wanted, found: Found) -> Iterable[str]:
    if wanted.code is not None and found.code != wanted.code:
        yield f"the implementation of stage {wanted.place[0]} has changed"
    if wanted.summary is not None and wanted.summary == found.summary:
        return
    reasons = list(_changed_inputs(wanted.inputs, found.inputs, is_summed=wanted.summary is not None))
    yield from reasons
    if wanted.summary is not None and not reasons:
        yield "the agent, its operator, their code or the timeouts have changed"


def _changed_inputs(wanted: Mapping[str, str], found: Mapping[str, str], *, is_summed: bool) -> Iterable[str]:
    """Names what differs; of what is summed up, an input that a record does not know says nothing."""
    if wanted.get("attempts") != found.get("attempts") and "attempts" in found:
        old, new = int(found["attempts"]), int(wanted["attempts"])
        yield f"attempts {'raised' if new > old else 'lowered'} from {old} to {new}"
    tasks = {name for name in (*wanted, *found) if name.startswith("task:")}
    changed = sorted(name.removeprefix("task:") for name in tasks if name in wanted and name in found)
    changed = [task for task in changed if wanted[f"task:{task}"] != found[f"task:{task}"]]
    for verb, names in (
        ("changed", changed),
        ("added", sorted(name.removeprefix("task:") for name in tasks if name not in found)),
        ("removed", sorted(name.removeprefix("task:") for name in tasks if name not in wanted)),
    ):
        if names:
            yield f"{'task' if len(names) == 1 else 'tasks'} {verb}: {_listed(names)}"
    for name, digest in wanted.items():
        # A metric that is new shows in the metric settings already.
        is_told = name in found or not (is_summed or ":" in name)
        if name != "attempts" and name not in tasks and found.get(name) != digest and is_told:
            yield f"{_words(name)} changed"


def _words(name: str) -> str:
    kind, _, metric = name.partition(":")
    if metric:
        return f"the {'code' if kind == 'code' else 'files'} of metric {metric}"
    return _WORDS.get(name, name)


def _other_evidence(wanted: Wanted, found: Found) -> Iterable[str]:
    gone = sorted(set(found.evidence) - set(wanted.evidence))
    changed = sorted(name for name in set(found.evidence) - set(gone) if wanted.evidence[name] != found.evidence[name])
    if changed:
        yield f"computed from older evidence of {_listed(changed)}"
    if gone:
        yield f"computed with {_listed(gone)}, which {'is' if len(gone) == 1 else 'are'} no longer there"
    lacking = sorted(set(wanted.evidence) - set(found.evidence))
    if lacking:
        yield f"computed without {_listed(lacking)}"


def _not_fresh(wanted: Wanted, states: Mapping[Place, State]) -> Iterable[str]:
    waiting: dict[tuple[Stage, State], list[str]] = {}
    for stage, key in wanted.upstream:
        state = states[stage, key]
        if state != "fresh":
            waiting.setdefault((stage, state), []).append(key)
    for (stage, state), keys in waiting.items():
        yield f"{stage} of {_listed(keys)} {'is' if len(keys) == 1 else 'are'} {state}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
