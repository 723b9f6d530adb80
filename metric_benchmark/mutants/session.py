# SPDX-License-Identifier: Apache-2.0
"""Runs an agent under an operator: counts its actions, lets the operator change them or end the run."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext

from metric_benchmark.mutants.environment import intercepted
from metric_benchmark.mutants.operator import Call, Observation, Operator, Stop

#: How long a stopped agent may take to write its trajectory; after a second, shorter round it is left.
GRACE_S = (10.0, 2.0)
#: How many calls a stopped agent may still try while it cleans up; each fails at once. Further ones never
#: return, so that an agent which swallows its cancellation cannot spin.
CLEANUP_CALLS = 20
LOG_NAME = "mutation.jsonl"

Run = Callable[..., Coroutine[Any, Any, None]]


class Session:
    """The mutated runs of one agent instance: one per task, or one per step of a multi-step task.

    Args:
        agent: the inner agent, whose `run` is driven here.
        make_operator: makes the operator anew for each run.
    """

    def __init__(self, agent: BaseAgent, make_operator: Callable[[], Operator[Any]]) -> None:
        self._agent = agent
        self._make_operator = make_operator
        self._operator = make_operator()
        self._begin_run("")
        self._running = False

    def _begin_run(self, instruction: str) -> None:
        self._operator = self._make_operator()
        self._operator.begin(instruction)
        self._actions = 0
        self._cleanups = 0
        self._logged = 0
        self._abandoned = False
        self._stop: Stop | None = None
        self._stopped = asyncio.Event()

    def environment(self, real: BaseEnvironment) -> BaseEnvironment:
        """Returns the environment the agent is given; a fault of the prompt alone needs no interception."""
        return real if self._operator.needs == "instruction" else intercepted(real, self)

    async def drive(self, run: Run, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Runs the agent's `run`, `resume` or `load` once.

        A stop ends it without an error, even when the agent swallows exceptions: its call never returns, it
        is cancelled, and what it does after that no longer reaches the environment.
        """
        if self._running:  # the agent's own resume() calling its run()
            await run(instruction=instruction, environment=environment, context=context)
            return
        self._begin_run(instruction)
        self._running = True
        given = self._operator.on_instruction(instruction)
        inner = asyncio.create_task(run(instruction=given, environment=self.environment(environment), context=context))
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({inner, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop is None:
                await inner
            else:
                await self._end(inner)
        finally:
            stopped.cancel()
            if not inner.done() and self._stop is None:  # Harbor's timeout: as without us, the agent may clean up
                inner.cancel()
                await asyncio.gather(inner, return_exceptions=True)
            self._running = False
            self._write_log()
            if not context.is_empty():  # else Harbor has the agent fill it first, which it does only if empty
                self.annotate(context)

    async def _end(self, inner: asyncio.Task[None]) -> None:
        for grace_s in GRACE_S:
            if not inner.done():
                inner.cancel()
                await asyncio.wait({inner}, timeout=grace_s)
        # What a stopped agent raises is an effect of the stop, and nobody else will ask for it.
        inner.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not inner.done():
            self._abandoned = True
            # Else the event loop, when it closes, waits for ever for a task that swallows its cancellation.
            asyncio._unregister_task(inner)  # pyright: ignore[reportPrivateUsage] - documented for such cases

    def annotate(self, context: AgentContext) -> None:
        """Says in the context's metadata what the operator did."""
        operator = self._operator
        mutation: dict[str, Any] = {
            "operator": operator.name,
            "seed": operator.seed,
            "fired": len(operator.fired),
            "actions": self._actions,
            "stopped": self._stop.reason if self._stop else None,
        }
        if self._abandoned:
            mutation["abandoned"] = True
        metadata = dict(context.metadata or {})
        if "mutation" in metadata:  # a mutant of a mutant
            mutation["inner"] = metadata["mutation"]
        context.metadata = {**metadata, "mutation": mutation}

    def _write_log(self) -> None:
        lines = [json.dumps({"operator": self._operator.name, "actions": self._actions})]
        lines += [json.dumps(dataclasses.asdict(firing)) for firing in self._operator.fired]
        self._agent.logs_dir.mkdir(parents=True, exist_ok=True)
        # Written when the run is over: where the folder is mounted, the agent could read it.
        with (self._agent.logs_dir / LOG_NAME).open("a", encoding="utf-8") as log:
            log.write("\n".join(lines) + "\n")

    async def act(self, real: BaseEnvironment, command: str, **where: Any) -> ExecResult:
        """Carries out one action of the agent under the operator; what is done in `setup` is none."""
        if self._stop is not None:
            return await self._refuse()
        if not self._running:
            return await real.exec(command, **where)
        self._actions += 1
        call = Call(self._actions, command)
        decided = self._operator.before_exec(call)
        if isinstance(decided, Call):
            result = await self._execute(real, decided, where)
            seen = self._operator.after_exec(call, Observation(result.stdout, result.stderr, result.return_code))
        else:
            result, seen = None, decided
        if isinstance(seen, Stop):
            return await self._halt(seen)
        self._operator.after_action(call, self._agent)
        changed = dataclasses.asdict(seen)
        return ExecResult(**changed) if result is None else result.model_copy(update=changed)

    async def _execute(self, real: BaseEnvironment, call: Call, where: dict[str, Any]) -> ExecResult:
        for _ in range(call.times - 1):
            await real.exec(call.command, **where)
        return await real.exec(call.command, **where)

    async def upload(self, real: BaseEnvironment, source: Path, target: str) -> None:
        """Uploads a file as the operator leaves it."""
        if not self._running or not await self.pass_through():
            if self._stop is None:
                await real.upload_file(source, target)
            return
        content = source.read_bytes()
        changed = self._operator.on_upload(target, content)
        if changed == content:
            await real.upload_file(source, target)
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / source.name
            copy.write_bytes(changed)
            copy.chmod(source.stat().st_mode)
            await real.upload_file(copy, target)

    async def pass_through(self) -> bool:
        """Tells whether the run has not been stopped."""
        return self._stop is None

    async def _halt(self, stop: Stop) -> ExecResult:
        self._stop = stop
        self._stopped.set()
        return await self._never()

    async def _refuse(self) -> ExecResult:
        self._cleanups += 1
        if self._cleanups > CLEANUP_CALLS:
            return await self._never()
        return ExecResult(stdout="", stderr="the run was stopped\n", return_code=125)

    async def _never(self) -> ExecResult:
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets was set")
