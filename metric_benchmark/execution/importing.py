# SPDX-License-Identifier: Apache-2.0
"""Judges Harbor jobs run elsewhere: which of their trials are a variant's, and in what they differ from ours."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metric_benchmark.errors import EvidenceError
from metric_benchmark.execution.inventory import JobOwner, read_json
from metric_benchmark.execution.outcomes import Json, Outcome, part, read_outcome
from metric_benchmark.execution.recorded import JOB_FILES
from metric_benchmark.execution.task_digests import TaskDigests
from metric_benchmark.execution.validation import check_trial_files, locked_trials
from metric_benchmark.execution.variant import Variant
from metric_benchmark.keys import harbor_version
from metric_benchmark.records.execution import COUNTED

#: Where a bundle lay and what a mutant is called are no part of what an agent does.
_NO_BEHAVIOUR = frozenset({"bundle_dir", "label"})
_IDENTITY = ("name", "import_path", "model_name", "kwargs")
#: What of a trial's configuration can change its outcome besides agent, environment and task.
_PLAIN: dict[str, Any] = {
    "timeout_multiplier": 1.0, "agent_timeout_multiplier": 1.0, "verifier_timeout_multiplier": 1.0,
    "agent_setup_timeout_multiplier": 1.0, "environment_build_timeout_multiplier": 1.0,
    "extra_instruction_paths": [], "extra_instructions": [], "user_agent": None, "source_trial": None,
    "override_error_policy": {},
}  # fmt: skip


@dataclass
class Adoption:
    """What is taken of a job, what is left out and why, and what is different about what is taken."""

    job: Path
    trials: list[tuple[str, Outcome]] = field(default_factory=lambda: [])
    left_out: list[str] = field(default_factory=lambda: [])
    deviations: list[str] = field(default_factory=lambda: [])

    @property
    def n_counted(self) -> int:
        """How many of the trials count as attempts."""
        return sum(outcome.status in COUNTED for _, outcome in self.trials)

    @property
    def attempts(self) -> int:
        """The most trials a task has."""
        return max(Counter(task for task, _ in self.trials).values(), default=0)

    def task_paths(self) -> dict[str, str]:
        """Returns the task's id by what the job called it."""
        return {outcome.task_path: task for task, outcome in self.trials}


def find_jobs(folder: Path) -> list[Path]:
    """Returns the Harbor job folders in a folder, or the folder itself if it is one.

    Raises:
        EvidenceError: there is none.
    """
    if not folder.is_dir():
        raise EvidenceError(f"{folder}: no such folder; --jobs names a Harbor job folder, or a folder of some")
    jobs = [path for path in (folder, *sorted(folder.iterdir())) if path.is_dir() and _is_job(path)]
    if not jobs:
        raise EvidenceError(
            f"{folder}: neither a Harbor job folder nor a folder of some; expected config.json with `agents`, and a "
            "folder per trial"
        )
    return jobs[:1] if jobs[0] == folder else jobs


def _is_job(path: Path) -> bool:
    return isinstance(read_json(path / "config.json").get("agents"), list)


def assess_job(job: Path, variant: Variant, tasks: Mapping[str, TaskDigests], reward_key: str) -> Adoption:
    """Decides which trials of a job are a variant's: the same agent is declared, and both digests are of its task.

    No reward is looked at: every finished trial of the variant is taken.

    Args:
        job: a Harbor job folder.
        variant: the variant.
        tasks: the digests of its tasks, from their folders.
        reward_key: the reward that counts.
    """
    found = Adoption(job)
    by_content = _by_content(tasks)
    settings: dict[str, Counter[str]] = {}
    owner, locked = JobOwner.read(job), locked_trials(job)
    for folder in sorted(path for path in job.iterdir() if path.is_dir()):
        if not (folder / "config.json").is_file():
            continue
        try:
            outcome = read_outcome(folder, reward_key)
        except EvidenceError as error:
            found.left_out.append(str(error))
            continue
        config = read_json(folder / "config.json")
        task = by_content.get(outcome.task_digest or "")
        reason = _why_not(folder, outcome, config, variant, tasks.get(task or "")) or _contradiction(
            folder, outcome, owner, locked
        )
        if reason is not None or task is None:
            found.left_out.append(f"{folder.name}: {reason}")
            continue
        found.trials.append((task, outcome))
        for difference in _differences(config, variant):
            settings.setdefault(difference, Counter())[task] += 1
    n = len(found.trials)
    found.deviations += [
        text if counts.total() == n else f"{text} (in {counts.total()} of {n} trials)"
        for text, counts in settings.items()
    ]
    found.deviations += _job_differences(job, variant, found)
    return found


def _by_content(tasks: Mapping[str, TaskDigests]) -> dict[str, str]:
    """Returns task ids by content digest; of two tasks of one content nobody could tell whose a trial is."""
    counts = Counter(digests.content for digests in tasks.values())
    return {d.content: task for task, d in tasks.items() if d.content is not None and counts[d.content] == 1}


def _why_not(folder: Path, outcome: Outcome, config: Json, variant: Variant, task: TaskDigests | None) -> str | None:
    """Says why a trial is not taken; None when it is."""
    if config.get("install_only"):
        return "only installed its agent"
    differing = _agent_differences(part(config, "agent"), variant.agent)
    if differing:
        return f"its agent is declared otherwise: {', '.join(differing)}"
    if outcome.task_digest is None:
        return "its lock.json is missing or has no task digest"
    if task is None:
        return f"its task {outcome.task_path} has digest {outcome.task_digest[7:23]}..., which no task of the case has"
    if outcome.result_sha256 is None or (outcome.reason or "").startswith("result.json is"):
        return "it has no finished result.json"
    wrong = next(task.check(f"{folder.name}/result.json", "checksum", outcome.task_checksum), None)
    if wrong is not None:
        return wrong.message
    if outcome.native_name not in (None, folder.name):
        return f"is the trial {outcome.native_name} under another name"
    link = next((path for path in folder.rglob("*") if path.is_symlink() and not _stays(path, folder)), None)
    return None if link is None else f"{link.relative_to(folder)} is a link that leads out of it"


def _contradiction(folder: Path, outcome: Outcome, owner: JobOwner, locked: set[str] | None) -> str | None:
    """Says in what a trial's files contradict one another or their job; the evidence would be refused with them."""
    disowned = owner.disowns(outcome.job_id, outcome.agent)
    if disowned is not None:
        return disowned
    if locked is None:
        return "the lock.json of its job is missing or damaged"
    counts = outcome.status in COUNTED
    found = next(check_trial_files("", os.fspath(folder), folder.parent.name, locked, counts=counts), None)
    return None if found is None else f"{found.place.removeprefix('/')} {found.message}"


def _stays(link: Path, folder: Path) -> bool:
    return link.resolve().is_relative_to(folder.resolve())


def _agent_differences(theirs: Json, ours: Mapping[str, Any]) -> list[str]:
    """Returns in which declared fields two agents differ, deepest first, without their values."""
    return [path for key in _IDENTITY for path in _paths(key, _behaviour(theirs.get(key)), _behaviour(ours.get(key)))]


def _behaviour(value: Any) -> Any:
    if isinstance(value, dict):
        items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {k: found for k, v in items.items() if k not in _NO_BEHAVIOUR and (found := _behaviour(v)) is not None}
    if isinstance(value, list):
        return [_behaviour(item) for item in value] or None  # pyright: ignore[reportUnknownVariableType]
    return None if value == "" else value


def _paths(where: str, one: Any, other: Any) -> Iterator[str]:
    if (one or None) == (other or None):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        ones: Json = one  # pyright: ignore[reportUnknownVariableType]
        others: Json = other  # pyright: ignore[reportUnknownVariableType]
        for key in sorted({*ones, *others}):
            yield from _paths(f"{where}.{key}", ones.get(key), others.get(key))
        return
    yield where


def _differences(config: Json, variant: Variant) -> Iterator[str]:
    """Yields in what a trial was run otherwise than this experiment would run it."""
    from harbor.models.trial.config import AgentConfig, EnvironmentConfig

    theirs = part(config, "environment")
    ours = EnvironmentConfig.model_validate(dict(variant.environment.harbor)).model_dump(mode="json")
    if (place := environment_name(theirs)) != (mine := environment_name(ours)):
        yield f"ran in environment {place}; this experiment uses {mine}"
    else:
        keys = [key for key in theirs if key in ours and (theirs[key] or None) != (ours[key] or None)]
        keys = [key for key in keys if key not in ("extra_docker_compose", "env")]
        if keys:
            yield f"its environment is set otherwise: {', '.join(sorted(keys))}"
    if {*part(theirs, "env")} != {*part(ours, "env")}:
        yield "other variables were set in its environment"
    agent = part(config, "agent")
    mine_agent = AgentConfig.model_validate(dict(variant.agent)).model_dump(mode="json")
    more = [key for key in agent if key not in (*_IDENTITY, "env", "n_concurrent", "concurrency_group")]
    other = [key for key in more if (agent[key] or None) != (mine_agent.get(key) or None)]
    if other:
        yield f"its agent is set otherwise: {', '.join(sorted(other))}"
    if {*part(agent, "env")} != {*part(mine_agent, "env")}:
        yield "its agent was given other variables"
    for key, plain in _PLAIN.items():
        found = config.get(key, plain)
        if (found if found is not None else plain) != plain:
            yield f"{key} was {json.dumps(found)[:80]}; a run of this experiment has {json.dumps(plain)}"
    verifier = part(config, "verifier")
    if any(verifier.values()):
        yield f"its verifier is set otherwise: {', '.join(sorted(key for key, value in verifier.items() if value))}"


def environment_name(config: Mapping[str, Any]) -> str:
    """Names the environment of a configuration of Harbor's."""
    return str(config.get("import_path") or config.get("type") or "docker")


def _job_differences(job: Path, variant: Variant, found: Adoption) -> Iterator[str]:
    """Yields what is peculiar about a job as a whole."""
    config, lock, result = (read_json(job / name) for name in JOB_FILES)
    version = part(lock, "harbor").get("version")
    if version != harbor_version():
        yield f"Harbor was {version or 'of an unknown version'}; this is {harbor_version()}"
    if part(config, "retry").get("max_retries"):
        yield "Harbor's own retry was on, which deletes the folders of failed attempts"
    if result.get("finished_at") is None:
        yield "the job has not finished, or its result.json is missing; it may still be running"
    digests = {outcome.task_digest for _, outcome in found.trials}
    planned = sum(
        part(trial, "task").get("digest") in digests and not _agent_differences(part(trial, "agent"), variant.agent)
        for trial in _objects(lock.get("trials"))
    )
    if planned > len(found.trials):
        yield f"the job asked for {planned} trials of this agent on these tasks, but {len(found.trials)} can be taken"
    if variant.agent.get("name") is None and "bundle_sha256" not in json.dumps(dict(variant.agent)):
        yield "what the agent's code was is not on record; it is taken to be today's"


def _objects(value: Any) -> list[Json]:
    """Returns the objects in a list; none where it is no list."""
    items: list[Any] = list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]
    return [item for item in items if isinstance(item, dict)]


def copy_job(found: Adoption, target: Path) -> None:
    """Copies a job's own files and the trials that are taken, byte by byte.

    Raises:
        EvidenceError: a copy differs from what was judged.
    """
    target.mkdir(parents=True)
    for path in found.job.iterdir():
        if path.is_file() and not path.is_symlink():
            shutil.copy2(path, target / path.name)
    for _, outcome in found.trials:
        copy = target / outcome.trial
        shutil.copytree(found.job / outcome.trial, copy, symlinks=True)
        again = read_outcome(copy, "reward")
        digests = [(o.result_sha256, o.trajectory_sha256, o.files_sha256) for o in (outcome, again)]
        if digests[0] != digests[1]:
            raise EvidenceError(f"{found.job / outcome.trial}: changed while it was copied; is the job still running?")
