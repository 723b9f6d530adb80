# SPDX-License-Identifier: Apache-2.0
"""A mutated run ends when its operator says so, whatever the agent does, and otherwise ends as the bare one would."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext

from metric_benchmark.mutants import session as session_module
from metric_benchmark.mutants.agent import mutate

BUDGET_1 = {"name": "action_budget", "params": {"max_actions": 1}}


class Recorder:
    """An environment that only takes notes."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.uploads: list[tuple[str, bytes]] = []
        self.services: list[str] = []

    async def exec(self, command: str, **_: Any) -> ExecResult:
        self.executed.append(command)
        await asyncio.sleep(0)
        return ExecResult(stdout="ok", return_code=0)

    async def service_exec(self, command: str, *, service: str | None = None, **_: Any) -> ExecResult:
        self.services.append(f"{service}: {command}")
        return ExecResult(return_code=0)

    async def upload_file(self, source_path: Path, target_path: str) -> None:
        self.uploads.append((target_path, Path(source_path).read_bytes()))

    async def upload_dir(self, source_dir: Path, target_dir: str) -> None:
        self.uploads.append((target_dir, b"folder"))


class FunctionAgent(BaseAgent):
    """An agent whose run is a function."""

    def __init__(self, logs_dir: Path, body: Any) -> None:
        super().__init__(logs_dir)
        self.body = body

    @staticmethod
    def name() -> str:
        return "function"

    def version(self) -> str:
        return "7"

    async def setup(self, environment: BaseEnvironment) -> None:
        await environment.exec("setup")

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await self.body(environment)


def run_agent(tmp_path: Path, body: Any, operator: dict[str, Any]) -> tuple[Recorder, AgentContext]:
    agent = mutate(FunctionAgent(tmp_path, body), label="m", operator=operator)
    environment, context = Recorder(), AgentContext()

    async def trial() -> None:
        await agent.setup(environment=environment)
        await agent.run(instruction="do it", environment=environment, context=context)

    asyncio.run(trial())
    agent.populate_context_post_run(context)
    return environment, context


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr(session_module, "GRACE_S", (0.3, 0.1))


def test_agent_that_swallows_exceptions_is_stopped_all_the_same(tmp_path):
    async def stubborn(environment):
        while True:
            try:
                await environment.exec("again")
            except Exception:  # noqa: BLE001
                continue

    environment, context = run_agent(tmp_path, stubborn, BUDGET_1)
    assert environment.executed == ["setup", "again"]
    assert context.metadata["mutation"]["stopped"] == "action budget used up"
    assert "abandoned" not in context.metadata["mutation"]


def test_agent_that_swallows_its_cancellation_is_left_behind(tmp_path):
    async def immortal(environment):
        while True:
            try:
                await environment.exec("again")
            except (Exception, asyncio.CancelledError):  # noqa: BLE001
                continue

    environment, context = run_agent(tmp_path, immortal, BUDGET_1)
    assert environment.executed == ["setup", "again"]
    assert context.metadata["mutation"]["abandoned"] is True


def test_what_a_stopped_agent_raises_is_no_agent_error(tmp_path):
    async def raising(environment):
        try:
            await environment.exec("one")
            await environment.exec("two")
        finally:
            raise ValueError("no result")

    environment, context = run_agent(tmp_path, raising, BUDGET_1)
    assert environment.executed == ["setup", "one"]
    assert context.metadata["mutation"]["fired"] == 1


def test_what_the_agent_raises_by_itself_stays_its_error(tmp_path):
    async def raising(environment):
        await environment.exec("one")
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        run_agent(tmp_path, raising, BUDGET_1)
    assert json.loads((tmp_path / "mutation.jsonl").read_text().splitlines()[0])["actions"] == 1


def test_cleaning_up_after_a_stop_changes_nothing_but_may_finish(tmp_path):
    async def tidy(environment):
        try:
            await environment.exec("one")
            await environment.exec("two")
        finally:
            answer = await environment.exec("rm -rf /")
            (tmp_path / "upload").write_text("x")
            await environment.upload_file(tmp_path / "upload", "/late")
            await environment.upload_dir(tmp_path, "/late")
            (tmp_path / "trajectory.json").write_text(str(answer.return_code))

    environment, _ = run_agent(tmp_path, tidy, BUDGET_1)
    assert environment.executed == ["setup", "one"]
    assert environment.uploads == []
    assert (tmp_path / "trajectory.json").read_text() == "125"


def test_concurrent_actions_are_counted_and_stopped(tmp_path):
    async def parallel(environment):
        await asyncio.gather(*(environment.exec(str(number)) for number in range(5)))

    environment, context = run_agent(tmp_path, parallel, {"name": "action_budget", "params": {"max_actions": 3}})
    assert environment.executed == ["setup", "0", "1", "2"]
    assert context.metadata["mutation"]["stopped"]


def test_agent_that_acts_from_a_thread_is_stopped(tmp_path):
    async def threaded(environment):
        loop = asyncio.get_running_loop()

        def work():
            for number in range(3):
                asyncio.run_coroutine_threadsafe(environment.exec(str(number)), loop).result(timeout=0.2)

        with ThreadPoolExecutor() as pool:
            await loop.run_in_executor(pool, work)

    environment, context = run_agent(tmp_path, threaded, BUDGET_1)
    assert environment.executed == ["setup", "0"]
    assert context.metadata["mutation"]["stopped"]


def test_harbors_timeout_reaches_the_agent(tmp_path):
    ended = []

    async def slow(environment):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(await environment.exec("cleanup"))

    agent = mutate(FunctionAgent(tmp_path, slow), label="m", operator=BUDGET_1)
    environment = Recorder()
    with pytest.raises(TimeoutError):
        asyncio.run(
            asyncio.wait_for(agent.run(instruction="", environment=environment, context=AgentContext()), timeout=0.05)
        )
    assert environment.executed == ["cleanup"]
    assert ended[0].return_code == 0


def test_main_service_counts_and_others_do_not(tmp_path):
    async def mixed(environment):
        await environment.service_exec("query", service="db")
        await environment.service_exec("ls", service="main")
        await environment.service_exec("never")

    environment, _ = run_agent(tmp_path, mixed, BUDGET_1)
    assert environment.services == ["db: query"]
    assert environment.executed == ["setup", "ls"]


def test_upload_is_corrupted_on_a_copy(tmp_path):
    source = tmp_path / "report.txt"
    source.write_text("total 41\nend\n")

    async def upload(environment):
        await environment.upload_file(source, "/app/report.txt")

    operator = {"name": "write_corruption", "params": {"how": "drop_last_line"}}
    environment, context = run_agent(tmp_path, upload, operator)
    assert environment.uploads == [("/app/report.txt", b"total 41\n")]
    assert source.read_text() == "total 41\nend\n"
    assert context.metadata["mutation"]["fired"] == 1


def test_upload_that_is_not_text_is_left_alone(tmp_path):
    source = tmp_path / "image.bin"
    source.write_bytes(b"\xff\xfe\n1\n")

    async def upload(environment):
        await environment.upload_file(source, "/image.bin")

    environment, _ = run_agent(tmp_path, upload, {"name": "write_corruption", "params": {"how": "off_by_one"}})
    assert environment.uploads == [("/image.bin", b"\xff\xfe\n1\n")]


def test_environment_proxy_keeps_its_class_and_attributes(tmp_path):
    seen = {}

    async def look(environment):
        seen["is"] = isinstance(environment, Recorder)
        environment.note = "set on the real one"

    environment, _ = run_agent(tmp_path, look, BUDGET_1)
    assert seen["is"]
    assert environment.note == "set on the real one"


def test_two_runs_of_one_agent_start_counting_anew(tmp_path):
    async def two(environment):
        await environment.exec("a")
        await environment.exec("b")

    agent = mutate(FunctionAgent(tmp_path, two), label="m", operator=BUDGET_1)
    environment = Recorder()

    async def steps() -> None:
        for _ in range(2):
            await agent.run(instruction="", environment=environment, context=AgentContext())

    asyncio.run(steps())
    assert environment.executed == ["a", "a"]
    assert len((tmp_path / "mutation.jsonl").read_text().splitlines()) == 4
