# SPDX-License-Identifier: Apache-2.0
"""What became of a trial, told from the folder Harbor left: the table of 4-harbor on results made by hand."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import traceback

import pytest

from metric_benchmark.errors import EvidenceError
from metric_benchmark.execution.outcomes import GRADED_AGENT_ERRORS, INFRASTRUCTURE, NO_VERDICT, classify, read_outcome
from metric_benchmark.execution.sandbox.process import TransferError
from metric_benchmark.execution.sandbox.transfer import upload

START, END = "2025-03-01T10:00:00.000000Z", "2025-03-01T10:00:12.500000Z"
AGENT_FRAME = 'Traceback\n  File "/x/my_agent.py", line 3, in run\n    raise X\n'
SANDBOX_FRAME = (
    'Traceback\n  File "/x/my_agent.py", line 3, in run\n'
    '  File "/x/metric_benchmark/execution/sandbox/environment.py", line 9, in exec\nX\n'
)


def exception(kind: str, message: str = "it broke", trace: str = AGENT_FRAME) -> dict[str, str]:
    return {"exception_type": kind, "exception_message": message, "exception_traceback": trace, "occurred_at": END}


def result(rewards=None, error: dict[str, str] | None = None, *, started=True, valid=True, **more):
    """A finished `TrialResult` as Harbor writes it, cut down to what counts."""
    return {
        "started_at": START, "finished_at": END, "task_checksum": "t" * 64,
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "reward_valid": valid and rewards is not None,
        "exception_info": error,
        "agent_execution": {"started_at": START, "finished_at": END} if started else None,
        "agent_result": None, "step_results": None, **more,
    }  # fmt: skip


def step(error: dict[str, str] | None = None, *, started=True):
    return {"exception_info": error, "agent_execution": {"started_at": START} if started else None}


#: What happens: (native result, status, reward that counts, native reward).
TABLE = {
    "solved": (result({"reward": 1.0}), "valid", 1.0, 1.0),
    "not solved": (result({"reward": 0.0}), "valid", 0.0, 0.0),
    "partial credit": (result({"reward": 0.25}), "valid", 0.25, 0.25),
    "a negative reward": (result({"reward": -3}), "valid", -3.0, -3.0),
    "another key as well": (result({"speed": 9.0, "reward": 0.5}), "valid", 0.5, 0.5),
    "only another key": (result({"speed": 9.0}), "no_verdict", None, None),
    "an empty reward.json": (result({}), "no_verdict", None, None),
    "a reward that is a text": (result({"reward": "1"}), "no_verdict", None, None),
    "a reward that is not a number": (result({"reward": float("nan")}), "no_verdict", None, None),
    "an agent's unknown exception": (result({"reward": 0.0}, exception("ZeroDivisionError")), "agent_error", 0.0, 0.0),
    "the same, solved before": (result({"reward": 1.0}, exception("ZeroDivisionError")), "agent_error", 0.0, 1.0),
    "an agent's timeout, graded": (result({"reward": 0.8}, exception("AgentTimeoutError")), "valid", 0.8, 0.8),
    "an agent's exit status, graded": (
        result({"reward": 1.0}, exception("NonZeroAgentExitCodeError")), "valid", 1.0, 1.0,
    ),
    "an agent's timeout, not graded": (result(None, exception("AgentTimeoutError")), "no_verdict", None, None),
    "no reward file": (result(None, exception("RewardFileNotFoundError")), "no_verdict", None, None),
    "an empty reward file": (result(None, exception("RewardFileEmptyError")), "no_verdict", None, None),
    "a verifier that hangs": (result(None, exception("VerifierTimeoutError")), "no_verdict", None, None),
    "an environment that does not start": (
        result(None, exception("EnvironmentStartTimeoutError"), started=False), "infrastructure", None, None,
    ),
    "an environment that refuses": (
        result(None, exception("SandboxBuildFailedError"), started=False), "infrastructure", None, None,
    ),
    "a provider's limit, though graded": (
        result({"reward": 0.0}, exception("RateLimitError")), "infrastructure", None, 0.0,
    ),
    "an environment that breaks in mid-run": (
        result({"reward": 0.0}, exception("RuntimeError", trace=SANDBOX_FRAME)), "infrastructure", None, 0.0,
    ),
    "a command of the agent's that took too long": (
        result({"reward": 0.0}, exception("RuntimeError", "Command timed out after 5 s", SANDBOX_FRAME)),
        "agent_error", 0.0, 0.0,
    ),
    "something before the agent started": (
        result(None, exception("OSError", "no space"), started=False), "infrastructure", None, None,
    ),
    "cancelled": (result(None, exception("CancelledError")), "cancelled", None, None),
    "cancelled, though graded": (result({"reward": 1.0}, exception("CancelledError")), "cancelled", None, 1.0),
    "a reward that Harbor does not believe": (result({"reward": 1.0}, valid=False), "no_verdict", None, 1.0),
    "an error in a step only": (
        result({"reward": 0.0}, started=False, step_results=[step(), step(exception("KeyError"))]),
        "agent_error", 0.0, 0.0,
    ),
    "a timeout in a step only": (
        result({"reward": 0.5}, started=False, step_results=[step(exception("AgentTimeoutError"))]), "valid", 0.5, 0.5,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("native", "status", "reward", "native_reward"), TABLE.values(), ids=TABLE)
def test_the_table(native, status, reward, native_reward):
    found = classify(native, "reward")
    assert (found[0], found[2], found[3]) == (status, reward, native_reward)


@pytest.mark.parametrize(
    ("native", "reason", "flags"),
    [
        (TABLE["solved"][0], None, ()),
        (TABLE["only another key"][0], "no finite reward under key 'reward'; rewards found: speed", ()),
        (TABLE["an empty reward.json"][0], "no finite reward under key 'reward'; rewards found: none", ()),
        (TABLE["an agent's timeout, graded"][0], "AgentTimeoutError", ()),
        (TABLE["no reward file"][0], "RewardFileNotFoundError: it broke", ()),
        (TABLE["an agent's unknown exception"][0], "ZeroDivisionError: it broke", ("unknown_exception",)),
        (
            TABLE["something before the agent started"][0],
            "OSError before the agent started: no space", ("unknown_exception",),
        ),
        (result(None, exception("RateLimitError", "429\nmore")), "RateLimitError: 429", ()),
        (result(None, exception("RateLimitError", "")), "RateLimitError: no message", ()),
        (TABLE["cancelled"][0], "the trial was cancelled", ()),
    ],
)  # fmt: skip
def test_reasons_name_what_happened_and_unknown_exceptions_are_flagged(native, reason, flags):
    found = classify(native, "reward")
    assert (found[1], found[4]) == (reason, flags)


def test_no_other_key_than_the_configured_one_ever_counts():
    assert classify(result({"a": 1.0, "b": 0.0}), "b")[2] == 0.0
    assert classify(result({"a": 1.0, "b": 0.0}), "c")[0] == "no_verdict"


def test_every_exception_harbor_knows_is_of_one_kind():
    kinds = [INFRASTRUCTURE, NO_VERDICT, GRADED_AGENT_ERRORS]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))


@pytest.fixture
def folder(tmp_path):
    """A native trial folder of a task at /tasks/one."""
    found = tmp_path / "one__abc123"
    for name in ("agent", "verifier"):
        (found / name).mkdir(parents=True)
    (found / "config.json").write_text(json.dumps({"task": {"path": "/tasks/one"}}))
    (found / "lock.json").write_text("{}")
    (found / "verifier/reward.txt").write_text("1")
    return found


def write(folder, native) -> bytes:
    data = json.dumps(native).encode()
    (folder / "result.json").write_bytes(data)
    return data


def test_a_finished_trial_is_read_with_its_digests_and_costs(folder):
    context = {"cost_usd": 0.25, "n_input_tokens": 100, "n_output_tokens": 7}
    data = write(folder, result({"reward": 1.0}, agent_result=context))
    (folder / "agent/trajectory.json").write_text("[]")
    found = read_outcome(folder, "reward")
    assert (found.trial, found.task_path, found.status) == ("one__abc123", "/tasks/one", "valid")
    assert (found.started_at, found.duration_s) == (START, 12.5)
    assert (found.cost_usd, found.n_input_tokens, found.n_output_tokens) == (0.25, 100, 7)
    assert found.result_sha256 == hashlib.sha256(data).hexdigest()
    assert found.trajectory_sha256 == hashlib.sha256(b"[]").hexdigest()
    assert found.files_sha256.keys() == {"config.json", "lock.json", "verifier/reward.txt"}
    assert found.files_sha256["verifier/reward.txt"] == hashlib.sha256(b"1").hexdigest()
    assert (found.task_checksum, found.exception, found.flags) == ("t" * 64, None, ())


def test_costs_of_steps_are_added_and_absent_ones_are_not_zero(folder):
    steps = [{"agent_result": {"cost_usd": 0.1, "n_input_tokens": 5}}, {"agent_result": {"cost_usd": 0.2}}]
    write(folder, result({"reward": 1.0}, step_results=steps))
    found = read_outcome(folder, "reward")
    assert found.cost_usd == pytest.approx(0.3)
    assert (found.n_input_tokens, found.n_output_tokens) == (5, None)


def test_two_reward_files_are_flagged(folder):
    write(folder, result({"reward": 1.0}))
    (folder / "verifier/reward.json").write_text('{"reward": 1}')
    assert read_outcome(folder, "reward").flags == ("two_reward_files",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "result.json is missing"),
        (b"", "result.json is missing"),
        (b'{"finished_at": "2025', "result.json is unfinished or damaged"),
        (b"[]", "result.json is unfinished or damaged"),
        (json.dumps({"started_at": START, "finished_at": None}).encode(), "result.json is unfinished or damaged"),
    ],
)
def test_a_reward_file_without_a_finished_result_is_not_a_result(folder, data, reason):
    if data is not None:
        (folder / "result.json").write_bytes(data)
    found = read_outcome(folder, "reward")
    assert (found.status, found.reason, found.reward, found.native_reward) == ("cancelled", reason, None, None)
    assert found.task_path == "/tasks/one"


@pytest.mark.parametrize("config", [None, "{", "{}", '{"task": {"path": null}}', '{"task": []}'])
def test_a_trial_of_no_task_is_refused(folder, config):
    (folder / "config.json").unlink()
    if config is not None:
        (folder / "config.json").write_text(config)
    with pytest.raises(EvidenceError, match=r"config\.json: missing or damaged, so the trial belongs to no task; move"):
        read_outcome(folder, "reward")


@pytest.mark.parametrize(
    ("rewards", "lacks"),
    [({"speed": 9.0}, True), ({"reward": float("nan")}, False), ({}, False), (None, False), ({"reward": 1.0}, False)],
)
def test_a_missing_key_is_told_from_a_reward_that_may_come_next_time(tmp_path, rewards, lacks):
    trial = tmp_path / "trial"
    trial.mkdir()
    (trial / "config.json").write_text(json.dumps({"task": {"path": "/tasks/a"}}))
    (trial / "result.json").write_text(json.dumps(result(rewards)))
    assert read_outcome(trial, "reward").lacks_reward_key is lacks


def test_what_an_upload_into_a_full_sandbox_raises_is_the_agents_doing(tmp_path):
    class Full:
        async def copy(self, *_: object, **__: object) -> list[str]:
            raise TransferError(f"/tests/test.sh: {os.strerror(errno.ENOSPC)}", missing=False)

    with pytest.raises(RuntimeError) as raised:
        asyncio.run(upload(Full(), tmp_path, "/tests", folder=True))
    trace = "".join(traceback.format_exception(raised.value))
    full = exception("AddTestsDirError", "Failed to add tests directory to environment.", trace)
    assert classify(result(None, full), "reward")[0::2] == ("agent_error", 0.0, ())


def test_a_disk_the_agent_filled_is_the_agents_and_one_it_was_given_full_is_not():
    trace = (
        f"{AGENT_FRAME}metric_benchmark.execution.sandbox.transfer.SandboxFullError: the sandbox's own disk is full; "
        "upload of /t/tests to /tests failed: /tests/test.sh: No space left on device\n"
    )
    full = exception("AddTestsDirError", "Failed to add tests directory to environment.", trace)
    assert classify(result(None, full), "reward")[0::2] == ("agent_error", 0.0, ())
    assert classify(result(None, full, started=False), "reward")[0] == "infrastructure"
    assert classify(result(None, exception("AddTestsDirError")), "reward")[0] == "infrastructure"
    host = exception("OSError", "[Errno 28] No space left on device: '/out/x'")
    assert classify(result(None, host), "reward")[0] == "infrastructure"
