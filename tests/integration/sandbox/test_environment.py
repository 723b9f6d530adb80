# SPDX-License-Identifier: Apache-2.0
"""The Harbor environment itself: what agents and verifiers call."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from harbor.environments.base import SandboxBuildFailedError
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from metric_benchmark.execution.sandbox import LocalSandboxEnvironment, check_sandbox, running_sandboxes, tasks

pytestmark = pytest.mark.harbor

_NONE = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)
_PUBLIC = NetworkPolicy(network_mode=NetworkMode.PUBLIC)
Use = Callable[[LocalSandboxEnvironment], Awaitable[None]]


@pytest.fixture(autouse=True)
def _needs_a_sandbox():
    if reasons := check_sandbox():
        pytest.skip("; ".join(reasons))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "Dockerfile").write_text(
        "FROM debian:bookworm-slim\nENV FROM_IMAGE=image SHARED=image\nWORKDIR /app\n"
    )
    return tmp_path


def made(folder: Path, *, config: dict | None = None, policy=_NONE, **options) -> LocalSandboxEnvironment:
    paths = TrialPaths(trial_dir=folder / "trial")
    paths.mkdir()
    return LocalSandboxEnvironment(
        environment_dir=folder / "environment",
        environment_name="test",
        session_id="test__env",
        trial_paths=paths,
        task_env_config=EnvironmentConfig.model_validate({"network_mode": "no-network"} | (config or {})),
        network_policy=policy,
        auto_mounts=[{"type": "bind", "source": str(paths.agent_dir), "target": "/logs/agent"}],
        **options,
    )


def used(environment: LocalSandboxEnvironment, use: Use) -> None:
    async def _run() -> None:
        await environment.start(force_build=False)
        try:
            await use(environment)
        finally:
            await environment.stop(delete=True)

    asyncio.run(_run())


def test_environment_variables_are_merged_as_harbor_says(folder, monkeypatch):
    monkeypatch.setenv("HOST_SECRET", "s3cret")

    async def use(environment: LocalSandboxEnvironment) -> None:
        show = 'echo "$FROM_IMAGE $SHARED $TASK $TRIAL $CALL $HOST_SECRET $PWD"'
        first = await environment.exec(show, env={"CALL": "call"})
        assert first.stdout == "image task task trial call  /app\n"
        with environment.scoped_exec_env({"SHARED": "scope", "CALL": "scope"}):
            assert (await environment.exec(show, env={"CALL": "call"})).stdout == "image scope task trial scope  /app\n"

    config = {"env": {"SHARED": "task", "TASK": "task"}}
    used(made(folder, config=config, persistent_env={"TRIAL": "trial"}), use)


def test_folder_and_output(folder):
    async def use(environment: LocalSandboxEnvironment) -> None:
        assert (await environment.exec("pwd")).stdout == "/srv\n"
        assert (await environment.exec("pwd", cwd="/usr")).stdout == "/usr\n"
        silent = await environment.exec("true")
        assert (silent.stdout, silent.stderr, silent.return_code) == (None, None, 0)
        assert (await environment.exec(r"printf 'a\377b'; echo e >&2; exit 3")).stdout == "a\ufffdbe\n"
        assert (await environment.exec("stat -c %a /logs/agent")).stdout == "777\n"

    used(made(folder, config={"workdir": "/srv"}), use)


def test_a_timeout_is_what_harbors_docker_environment_raises(folder):
    async def use(environment: LocalSandboxEnvironment) -> None:
        with pytest.raises(RuntimeError) as caught:
            await environment.exec("setsid sleep 60 & sleep 60", timeout_sec=1)
        assert type(caught.value) is RuntimeError
        assert str(caught.value) == "Command timed out after 1 seconds"
        assert (await environment.exec("ps ax | grep -c '[s]leep'")).stdout == "0\n"

    used(made(folder), use)


def test_output_streams_in_whole_lines(folder):
    seen: list[tuple[str, str]] = []

    async def note(text: str, stream: str) -> None:
        seen.append((text, stream))

    async def fail(text: str, stream: str) -> None:
        raise ValueError("the callback's own")

    async def use(environment: LocalSandboxEnvironment) -> None:
        with environment.scoped_output_callback(note):
            result = await environment.exec("printf 'one\\ntw'; sleep 0.1; printf 'o\\nrest'")
        assert result.stdout == "one\ntwo\nrest"
        assert seen == [("one\n", "stdout"), ("two\n", "stdout"), ("rest", "stdout")]
        with environment.scoped_output_callback(fail), pytest.raises(ValueError, match="the callback's own"):
            await environment.exec("echo x; sleep 60")
        assert (await environment.exec("ps ax | grep -c '[s]leep'")).stdout == "0\n"

    used(made(folder), use)


def test_commands_run_side_by_side(folder):
    async def use(environment: LocalSandboxEnvironment) -> None:
        texts = await asyncio.gather(*(environment.exec(f"sleep 0.0{n % 9}; echo {n}") for n in range(30)))
        assert [text.stdout for text in texts] == [f"{n}\n" for n in range(30)]

    used(made(folder), use)


def test_network_follows_the_phase(folder):
    async def use(environment: LocalSandboxEnvironment) -> None:
        reach = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        assert (await environment.exec(reach)).stdout == "reached\n"
        await environment.set_network_policy(_NONE)
        assert "reached" not in ((await environment.exec(reach)).stdout or "")
        await environment.set_network_policy(_PUBLIC)
        assert (await environment.exec(reach)).stdout == "reached\n"

    with socket.create_server(("127.0.0.1", 0)) as server:
        used(made(folder, policy=_PUBLIC, phase_network_policies=[_NONE]), use)


def test_a_sandbox_without_network_cannot_be_given_one_later(folder):
    async def use(environment: LocalSandboxEnvironment) -> None:
        with pytest.raises(ValueError, match="was started with network 'none' and cannot change to 'host'"):
            await environment.set_network_policy(_PUBLIC)

    used(made(folder), use)


def test_stop_is_final_and_can_be_repeated(folder):
    environment = made(folder)

    async def use(environment: LocalSandboxEnvironment) -> None:
        await environment.stop(delete=False)
        with pytest.raises(RuntimeError, match="the sandbox is not running"):
            await environment.exec("true")

    before = running_sandboxes()
    used(environment, use)
    assert set(running_sandboxes()) <= set(before)


def test_a_failed_start_leaves_no_sandbox(folder):
    (folder / "environment" / "Dockerfile").write_text("FROM debian:bookworm-slim\nCOPY missing /x\n")
    environment = made(folder)

    async def use() -> None:
        with pytest.raises(SandboxBuildFailedError, match="COPY missing: not found in"):
            await environment.start(force_build=False)
        with pytest.raises(RuntimeError, match="the sandbox is not running"):
            await environment.exec("true")

    asyncio.run(use())


def test_copy_takes_files_folders_and_patterns(folder):
    context = folder / "environment"
    for name in ("a.txt", "b.txt", "c.log"):
        (context / name).write_text(name)
    (context / "tree" / "deep").mkdir(parents=True)
    (context / "tree" / "deep" / "file").write_text("deep")
    (context / "Dockerfile").write_text(
        "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY *.txt ./\nCOPY c.log renamed.log\nCOPY c.log /opt/\n"
        "COPY tree /app/tree\nCOPY --chmod=600 a.txt /private\nUSER root\nRUN cat renamed.log > built\n"
    )

    async def use(environment: LocalSandboxEnvironment) -> None:
        found = await environment.exec("find . -type f | sort; cat built; ls /opt; stat -c %a /private")
        assert found.stdout == "./a.txt\n./b.txt\n./built\n./renamed.log\n./tree/deep/file\nc.logc.log\n600\n"

    used(made(folder), use)


def test_what_a_copy_may_not_take(folder, tmp_path):
    (tmp_path / "outside").write_text("host")
    (folder / "environment" / "link").symlink_to(tmp_path / "outside")
    (folder / "environment" / "Dockerfile").write_text("FROM debian:bookworm-slim\nCOPY link /x\n")
    with pytest.raises(SandboxBuildFailedError, match="COPY link: not found in"):
        asyncio.run(made(folder).start(force_build=False))


def test_a_prebuilt_image_gets_the_environment_folder(folder):
    (folder / "environment" / "Dockerfile").unlink()
    (folder / "environment" / "input.txt").write_text("given")

    async def use(environment: LocalSandboxEnvironment) -> None:
        assert (await environment.exec("cat /srv/input.txt")).stdout == "given"

    used(made(folder, config={"docker_image": "debian:bookworm-slim", "workdir": "/srv"}), use)


def test_another_user_is_refused_where_there_is_none(folder, monkeypatch):
    monkeypatch.setattr(tasks, "only_root", lambda: True)
    monkeypatch.setattr("metric_benchmark.execution.sandbox.environment.only_root", lambda: True)

    async def use(environment: LocalSandboxEnvironment) -> None:
        with pytest.raises(
            SandboxBuildFailedError, match="user 'agent' is needed, but the sandbox of an ordinary user"
        ):
            await environment.exec("true", user="agent")
        with environment.with_default_user("agent"), pytest.raises(SandboxBuildFailedError):
            await environment.exec("true")
        assert (await environment.exec("id -u", user="root")).stdout == "0\n"

    used(made(folder), use)


def test_host_folders_are_not_mounted(folder):
    environment = made(folder, mounts=[{"type": "bind", "source": str(folder), "target": "/mine"}])
    with pytest.raises(SandboxBuildFailedError, match="mounts of host folders are not supported"):
        asyncio.run(environment.start(force_build=False))


def test_options_are_checked(folder):
    with pytest.raises(ValueError, match="Unknown option 'base_image'"):
        made(folder, base_image={})
    with pytest.raises(ValueError, match="max_processes"):
        made(folder, max_processes=5)


def test_the_disk_is_what_the_task_asks_for(folder):
    async def use(environment: LocalSandboxEnvironment) -> None:
        assert (await environment.exec("df -m --output=size / | tail -1")).stdout.strip() == "48"

    used(made(folder, config={"storage_mb": 48}), use)
    shutil.rmtree(folder / "trial")
    used(made(folder, config={"storage_mb": 999}, disk_mb=48), use)
