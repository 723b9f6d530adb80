# SPDX-License-Identifier: Apache-2.0
"""Runs sandboxes in its own process, told what to do by JSON lines: so that tests can be another user, or kill it."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from pathlib import Path

from metric_benchmark.execution.sandbox import check_sandbox, running_sandboxes
from metric_benchmark.execution.sandbox.process import SandboxProcess, SandboxSpec
from metric_benchmark.execution.sandbox.transfer import download, upload

_processes: dict[int, SandboxProcess] = {}


async def _start(
    network="none", disk_mb=64, max_processes=512, folders=(), base="host", kill_seconds=6.0, pid_max=True
):
    spec = SandboxSpec(base, disk_mb, network, max_processes, pid_max, tuple(folders))
    process = await SandboxProcess.start(spec)
    process.kill_seconds = kill_seconds
    _processes[process.pid] = process
    return process.pid


async def _run(pid, command, **options):
    started = time.monotonic()
    ended = await _processes[pid].run(["/bin/bash", "-c", command], **options)
    return {
        "status": ended.status,
        "output": base64.b64encode(ended.output).decode(),
        "seconds": time.monotonic() - started,
    }


async def _cancel(pid, command, after):
    task = asyncio.create_task(_processes[pid].run(["/bin/bash", "-c", command]))
    await asyncio.sleep(after)
    task.cancel()
    await asyncio.wait({task})
    return task.cancelled()


async def _upload(pid, source, target, folder, **options):
    await upload(_processes[pid], Path(source), target, folder=folder, **options)


async def _download(pid, source, target, folder, max_bytes=1 << 24):
    return await download(_processes[pid], source, Path(target), folder=folder, max_bytes=max_bytes)


async def _stop(pid):
    await _processes.pop(pid).stop()


async def _check():
    return check_sandbox()


async def _running():
    return running_sandboxes()


_OPERATIONS = {
    "start": _start,
    "run": _run,
    "cancel": _cancel,
    "upload": _upload,
    "download": _download,
    "stop": _stop,
    "check": _check,
    "running": _running,
}


async def _main():
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        try:
            answer = {"value": await _OPERATIONS[request.pop("op")](**request)}
        except Exception as error:  # noqa: BLE001 - passed on to the test
            answer = {"error": type(error).__name__, "message": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


asyncio.run(_main())
