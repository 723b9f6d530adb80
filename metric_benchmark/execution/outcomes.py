# SPDX-License-Identifier: Apache-2.0
"""Classifies what came of a native Harbor trial folder: is there a verdict, and what did it score (4-harbor)."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pydantic.dataclasses

from metric_benchmark.errors import EvidenceError
from metric_benchmark.execution.storage import full_disk_message, is_sandbox_full
from metric_benchmark.hashing import digest_bytes, digest_file
from metric_benchmark.records.execution import Status
from metric_benchmark.records.trajectories import combine_digests, trajectory_names

#: Failures of the machinery around the agent: they say nothing about the agent and are run again.
INFRASTRUCTURE = frozenset(
    {
        "EnvironmentStartTimeoutError", "SandboxBuildFailedError", "AgentSetupTimeoutError", "HealthcheckError",
        "SandboxLikelyOutOfMemoryError", "MemoryLimitExceededError", "SSHAccessError", "GKEExecStreamClosedError",
        "GKEPodNotFoundError", "RuntimeRequestError", "AddTestsDirError", "DownloadVerifierDirError", "ApiError",
        "ApiRateLimitError", "ApiInternalServerError", "ApiOverloadedError", "ApiConnectionClosedError",
        "ApiResponseStalledError", "UnknownApiError", "NetworkConnectionError", "ApiConnectionError",
        "ApiUsageLimitError", "RateLimitError", "InternalServerError", "ServiceUnavailableError",
        "APIConnectionError", "APIError", "Timeout", "UnsupportedModelParametersError", "BadRequestError",
        "UnprocessableEntityError", "UnsupportedParamsError", "APIResponseValidationError", "BudgetExceededError",
        "AgentAuthenticationError", "ModelNotFoundError", "ApiProviderResourceNotFoundError", "AuthenticationError",
        "PermissionDeniedError", "NotFoundError", "ServiceOperationsUnsupportedError", "VercelScopeError",
        "DspyImportError", "MissingExtraError", "RegradeError",
    }
)  # fmt: skip
#: The verifier gave no usable answer.
NO_VERDICT = frozenset(
    {"VerifierTimeoutError", "RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError"}
)
#: The agent's own doing; Harbor grades what it left behind, and that grade counts.
GRADED_AGENT_ERRORS = frozenset(
    {
        "NonZeroAgentExitCodeError", "AgentTimeoutError", "ContextWindowExceededError", "OutputTokenExceededError",
        "ContextLengthExceededError", "OutputLengthExceededError", "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
    }
)  # fmt: skip
#: How `classify` words it when no usable reward stands under the key.
_NO_REWARD = re.compile(r"no finite reward under key '(?P<key>.*)'; rewards found: (?P<found>.*)")
type Json = dict[str, Any]

_EXEC_TIMEOUT = "Command timed out after"
_ENVIRONMENT_CODE = ("harbor/environments/", "metric_benchmark/execution/sandbox")


@pydantic.dataclasses.dataclass(frozen=True)
class Outcome:
    """What a native trial folder says, before it is given a rank among its task's attempts.

    `reward`, `task_checksum` and `task_digest` follow `records.execution.Trial`; `task_path` is the task Harbor was
    given: a folder, or the name of a published task. `native_name`, `job_id` and `agent` are what the trial's own
    config.json says it is.
    """

    trial: str
    task_path: str
    status: Status
    reason: str | None
    reward: float | None
    native_reward: float | None
    started_at: str | None
    duration_s: float | None
    cost_usd: float | None
    n_input_tokens: int | None
    n_output_tokens: int | None
    exception: str | None
    flags: tuple[str, ...]
    task_checksum: str | None
    result_sha256: str | None
    trajectory_sha256: str | None
    files_sha256: dict[str, str]
    task_digest: str | None = None
    native_name: str | None = None
    job_id: str | None = None
    agent: Json = field(default_factory=lambda: {})

    @property
    def lacks_reward_key(self) -> bool:
        """Whether the verifier wrote rewards, but not the one that counts."""
        found = _NO_REWARD.fullmatch(self.reason or "")
        return found is not None and found["key"] not in (names := found["found"].split(", ")) and names != ["none"]


def read_outcome(trial_dir: Path, reward_key: str) -> Outcome:
    """Reads and classifies one native trial folder.

    A reward file without a finished result.json is not a result.

    Raises:
        EvidenceError: the folder names no task (its config.json is missing or damaged), or a file is not of the form
            Harbor writes.
    """
    try:
        return _read_outcome(trial_dir, reward_key)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = " ".join(str(error).split())[:200]
        raise EvidenceError(
            f"{trial_dir}/result.json: not of the form Harbor writes ({type(error).__name__}: {what}); restore it "
            "from a backup, or move the trial's folder away"
        ) from error


def _read_outcome(trial_dir: Path, reward_key: str) -> Outcome:
    data = {name: _read(f"{trial_dir}/{name}") for name in ("config.json", "lock.json", "result.json")}
    config = _parse(data["config.json"]) or {}
    task_path = _task_path(part(config, "task"))
    if not task_path:
        raise EvidenceError(
            f"{trial_dir}/config.json: missing or damaged, so the trial belongs to no task; move the folder away if it "
            "is not part of this run"
        )
    files = native_files(trial_dir)
    digests = {name: digest_bytes(data[name]) for name in ("config.json", "lock.json") if data[name]}
    digests |= {name: digest_file(trial_dir / name) for name in files.others}
    trajectories = {name: digest_file(trial_dir / name) for name in files.trajectories}
    result = _parse(data["result.json"])
    is_finished = result is not None and result.get("finished_at") is not None
    status, reason, reward, native, flags = _judge(result or {}, reward_key, is_finished, bool(data["result.json"]))
    if is_finished and files.has_two_rewards:
        flags = (*flags, "two_reward_files")
    contexts = _contexts(result or {})
    exceptions = _exceptions(result or {})
    return Outcome(
        trial=trial_dir.name,
        task_path=task_path,
        status=status,
        reason=reason,
        reward=reward,
        native_reward=native,
        started_at=(result or {}).get("started_at"),
        duration_s=_duration(result or {}),
        cost_usd=_total(contexts, "cost_usd"),
        n_input_tokens=_whole(_total(contexts, "n_input_tokens")),
        n_output_tokens=_whole(_total(contexts, "n_output_tokens")),
        exception=exceptions[0]["exception_type"] if exceptions else None,
        flags=flags,
        task_checksum=(result or {}).get("task_checksum"),
        result_sha256=digest_bytes(data["result.json"]) if data["result.json"] else None,
        trajectory_sha256=combine_digests(trajectories),
        # The usual single trajectory has its digest in `trajectory_sha256`; several are listed, to say which differs.
        files_sha256=dict(sorted((digests | (trajectories if len(trajectories) > 1 else {})).items())),
        task_digest=part(_parse(data["lock.json"]) or {}, "task").get("digest"),
        native_name=config.get("trial_name"),
        job_id=config.get("job_id"),
        agent=part(config, "agent"),
    )


def _judge(
    result: Json, reward_key: str, is_finished: bool, is_there: bool
) -> tuple[Status, str | None, float | None, float | None, tuple[str, ...]]:
    """Classifies a result; a reward file without a finished result.json is not a result."""
    if is_finished:
        return classify(result, reward_key)
    reason = "result.json is unfinished or damaged" if is_there else "result.json is missing"
    return "cancelled", reason, None, None, ()


def _task_path(task: Json) -> str:
    """Names the task as a trial's configuration does: its folder, or the name it is published under."""
    if task.get("path"):
        return str(task["path"])
    return "@".join(str(task[key]) for key in ("name", "ref") if task.get(key))


@dataclass(frozen=True)
class NativeFiles:
    """The files of a trial a verdict or a coverage rests on, by path below its folder.

    Left out are result.json, config.json and lock.json, which are always read, and what nothing is computed from: logs,
    what the agent wrote besides its trajectory, the verifier's output besides the reward, artifacts.
    """

    others: tuple[str, ...]
    trajectories: tuple[str, ...]

    @property
    def has_two_rewards(self) -> bool:
        """Whether a verifier left both reward.txt and reward.json; an agent can write one of them."""
        return any(name.endswith("reward.txt") and f"{name[:-4]}.json" in self.others for name in self.others)


def native_files(trial_dir: Path) -> NativeFiles:
    """Lists the files of a trial that records cover by digest."""
    base = os.fspath(trial_dir)
    verifiers = ["verifier"]
    if os.path.isdir(f"{base}/steps"):  # noqa: PTH112 - see below
        verifiers += sorted(path.relative_to(trial_dir).as_posix() for path in trial_dir.glob("steps/*/verifier"))
    names = ["exception.txt", *(f"{folder}/reward.{kind}" for folder in verifiers for kind in ("json", "txt"))]
    # Asked of every trial, often; pathlib would take longer than reading the files does.
    there = tuple(name for name in names if os.path.isfile(f"{base}/{name}"))  # noqa: PTH113
    return NativeFiles(there, trajectory_names(trial_dir))


def classify(result: Json, reward_key: str) -> tuple[Status, str | None, float | None, float | None, tuple[str, ...]]:
    """Classifies a finished native result.

    Args:
        result: the JSON of Harbor's `TrialResult`.
        reward_key: the configured key; no other is ever used.

    Returns:
        Status, reason (None when plainly valid), the reward that counts, the native reward, flags.
    """
    exceptions = _exceptions(result)
    types = [item["exception_type"] for item in exceptions]
    rewards = part(part(result, "verifier_result"), "rewards")
    native = _finite(rewards.get(reward_key))
    if "CancelledError" in types:
        return "cancelled", "the trial was cancelled", None, native, ()
    if _agent_started(result) and any(is_sandbox_full(item.get("exception_traceback", "")) for item in exceptions):
        return "agent_error", "the agent filled the disk of its sandbox; its tests could not be added", 0.0, native, ()
    for item in exceptions:
        kind = item["exception_type"]
        is_known = kind in INFRASTRUCTURE or full_disk_message(kind, item["exception_message"]) is not None
        if is_known or _is_environment_failure(item):
            flags = () if is_known else ("unknown_exception",)
            return "infrastructure", f"{kind}: {_first_line(item)}", None, native, flags
    for item in exceptions:
        if item["exception_type"] in NO_VERDICT:
            return "no_verdict", f"{item['exception_type']}: {_first_line(item)}", None, native, ()
    unknown = [item for item in exceptions if item["exception_type"] not in GRADED_AGENT_ERRORS]
    if unknown and not _agent_started(result):
        item = unknown[0]
        reason = f"{item['exception_type']} before the agent started: {_first_line(item)}"
        return "infrastructure", reason, None, native, ("unknown_exception",)
    if unknown:
        item = unknown[0]
        return (
            "agent_error",
            f"{item['exception_type']}: {_first_line(item)}",
            0.0,
            native,
            ("unknown_exception",),
        )
    if native is None:
        found = ", ".join(sorted(rewards)) or "none"
        return (
            "no_verdict",
            f"no finite reward under key {reward_key!r}; rewards found: {found}",
            None,
            None,
            (),
        )
    if result.get("reward_valid") is False:
        return "no_verdict", "Harbor marks the reward as not valid", None, native, ()
    return "valid", types[0] if types else None, native, native, ()


def _phases(result: Json) -> list[Json]:
    """Returns the trial and its steps: multi-step trials record on the step what others record on the trial."""
    steps: list[Any] = result.get("step_results") or []
    return [result, *steps]


def part(result: Json, key: str) -> Json:
    """Returns an object within an object; an empty one where there is none."""
    value: Any = result.get(key)
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _exceptions(result: Json) -> list[Json]:
    return [found for phase in _phases(result) if (found := part(phase, "exception_info"))]


def _is_environment_failure(item: Json) -> bool:
    """An exception from an environment's code is not the agent's, unless it is the exec timeout it asked for."""
    if item["exception_type"] in GRADED_AGENT_ERRORS | NO_VERDICT or item["exception_message"].startswith(
        _EXEC_TIMEOUT
    ):
        return False
    frames = [line for line in item.get("exception_traceback", "").splitlines() if line.lstrip().startswith("File ")]
    return bool(frames) and any(part in frames[-1] for part in _ENVIRONMENT_CODE)


def _agent_started(result: Json) -> bool:
    return any(part(phase, "agent_execution").get("started_at") for phase in _phases(result))


def _contexts(result: Json) -> list[Json]:
    return [found for phase in _phases(result) if (found := part(phase, "agent_result"))]


def _total(contexts: list[Json], key: str) -> float | None:
    values = [context[key] for context in contexts if context.get(key) is not None]
    return float(sum(values)) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _finite(value: Any) -> float | None:
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def _first_line(item: Json) -> str:
    lines = str(item.get("exception_message") or "").strip().splitlines()
    return lines[0][:300] if lines else "no message"


def _duration(result: Json) -> float | None:
    start, end = result.get("started_at"), result.get("finished_at")
    if not start or not end:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - see `native_files`
            return stream.read()
    except FileNotFoundError:
        return b""


def _parse(data: bytes) -> Json | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
