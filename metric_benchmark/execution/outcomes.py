# SPDX-License-Identifier: Apache-2.0
"""Classifies what came of a native Harbor trial folder: is there a verdict, and what did it score (4-harbor)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from metric_benchmark.errors import EvidenceError
from metric_benchmark.hashing import digest_bytes, digest_file
from metric_benchmark.records.execution import Status
from metric_benchmark.records.trajectories import digest_trajectory

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
type Json = dict[str, Any]

_EXEC_TIMEOUT = "Command timed out after"
_ENVIRONMENT_CODE = ("harbor/environments/", "metric_benchmark/execution/sandbox")


@dataclass(frozen=True)
class Outcome:
    """What a native trial folder says, before it is given a rank among its task's attempts.

    `reward` follows `records.execution.Trial`; `task_path` is the task folder Harbor was given.
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


def read_outcome(trial_dir: Path, reward_key: str) -> Outcome:
    """Reads and classifies one native trial folder.

    A reward file without a finished result.json is not a result.

    Raises:
        EvidenceError: the folder names no task (its config.json is missing or damaged).
    """
    config = _read_json(trial_dir / "config.json")
    task_path = str(_part(config or {}, "task").get("path") or "")
    if not task_path:
        raise EvidenceError(
            f"{trial_dir}/config.json: missing or damaged, so the trial belongs to no task; move the folder away if it "
            "is not part of this run"
        )
    result_file = trial_dir / "result.json"
    data = result_file.read_bytes() if result_file.is_file() else b""
    result = _parse(data)
    if result is None or result.get("finished_at") is None:
        reason = "result.json is missing" if not data else "result.json is unfinished or damaged"
        return Outcome(
            trial=trial_dir.name, task_path=task_path, status="cancelled", reason=reason, reward=None,
            native_reward=None,
            started_at=(result or {}).get("started_at"), duration_s=None, cost_usd=None, n_input_tokens=None,
            n_output_tokens=None, exception=None, flags=(), task_checksum=None,
            result_sha256=digest_bytes(data) if data else None, trajectory_sha256=None, files_sha256={},
        )  # fmt: skip
    status, reason, reward, native, flags = classify(result, reward_key)
    if (trial_dir / "verifier" / "reward.txt").is_file() and (trial_dir / "verifier" / "reward.json").is_file():
        flags = (*flags, "two_reward_files")
    contexts = _contexts(result)
    exceptions = _exceptions(result)
    return Outcome(
        trial=trial_dir.name,
        task_path=task_path,
        status=status,
        reason=reason,
        reward=reward,
        native_reward=native,
        started_at=result.get("started_at"),
        duration_s=_duration(result),
        cost_usd=_total(contexts, "cost_usd"),
        n_input_tokens=_whole(_total(contexts, "n_input_tokens")),
        n_output_tokens=_whole(_total(contexts, "n_output_tokens")),
        exception=exceptions[0]["exception_type"] if exceptions else None,
        flags=flags,
        task_checksum=result.get("task_checksum"),
        result_sha256=digest_bytes(data),
        trajectory_sha256=digest_trajectory(trial_dir),
        files_sha256=_file_digests(trial_dir),
    )


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
    rewards = _part(_part(result, "verifier_result"), "rewards")
    native = _finite(rewards.get(reward_key))
    if "CancelledError" in types:
        return "cancelled", "the trial was cancelled", None, native, ()
    for item in exceptions:
        kind = item["exception_type"]
        if kind in INFRASTRUCTURE or _is_environment_failure(item):
            flags = () if kind in INFRASTRUCTURE else ("unknown_exception",)
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


def _part(result: Json, key: str) -> Json:
    value: Any = result.get(key)
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _exceptions(result: Json) -> list[Json]:
    return [found for phase in _phases(result) if (found := _part(phase, "exception_info"))]


def _is_environment_failure(item: Json) -> bool:
    """An exception from an environment's code is not the agent's, unless it is the exec timeout it asked for."""
    if item["exception_type"] in GRADED_AGENT_ERRORS | NO_VERDICT or item["exception_message"].startswith(
        _EXEC_TIMEOUT
    ):
        return False
    frames = [line for line in item.get("exception_traceback", "").splitlines() if line.lstrip().startswith("File ")]
    return bool(frames) and any(part in frames[-1] for part in _ENVIRONMENT_CODE)


def _agent_started(result: Json) -> bool:
    return any(_part(phase, "agent_execution").get("started_at") for phase in _phases(result))


def _contexts(result: Json) -> list[Json]:
    return [found for phase in _phases(result) if (found := _part(phase, "agent_result"))]


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


def _file_digests(trial_dir: Path) -> dict[str, str]:
    """Digests the native files a verdict rests on, by path below the trial folder."""
    wanted = ["config.json", "lock.json", "verifier/reward.txt", "verifier/reward.json"]
    wanted += sorted(p.relative_to(trial_dir).as_posix() for p in trial_dir.glob("steps/*/agent/trajectory.json"))
    return {name: digest_file(trial_dir / name) for name in wanted if (trial_dir / name).is_file()}


def _read_json(path: Path) -> Json | None:
    try:
        return _parse(path.read_bytes())
    except OSError:
        return None


def _parse(data: bytes) -> Json | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
