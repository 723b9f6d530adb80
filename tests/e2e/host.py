# SPDX-License-Identifier: Apache-2.0
"""A real Dagster host for tests: `python -m metric_benchmark_dagster.dev`, asked over GraphQL."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from metric_benchmark.errors import ConfigError
from metric_benchmark.webserver import WebServer

LOCATION = "metric_benchmark_dagster"
ASSETS = (
    "raw_results", "execution_manifest", "mutant_scores", "subset_scores", "coverage", "correlation", "report",
)  # fmt: skip
_REPOSITORY = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__"}


def wait_for[T](condition: Callable[[], T], within_s: float, what: str, every_s: float = 0.5) -> T:
    """Waits until a condition gives something true, and returns that."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {within_s} s"
        time.sleep(every_s)
    return found


class Web(WebServer):
    """A running web server of Dagster: what the shipped one asks, and what a person does in the UI."""

    def launch_backfill(self, assets: Iterable[str] = ASSETS, **params: Any) -> str:
        """Launches a backfill, of all partitions unless told otherwise, and returns its id."""
        params = {"allPartitions": True} | params
        params["assetSelection"] = [{"path": [asset]} for asset in assets]
        answer = self.ask(
            """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
                 __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }""",
            params=params,
        )["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return answer["backfillId"]

    def follow_backfill(self, backfill: str, within_s: float = 600) -> str:
        """Waits for the end of a backfill and returns its status."""
        deadline = time.monotonic() + within_s
        status = ""
        for progress in self.follow(backfill):
            status = progress.status
            assert time.monotonic() < deadline, f"backfill {backfill}: not within {within_s} s: {progress}"
        return status

    def launch(self, asset: str, key: str | None) -> str:
        """Launches one materialisation and returns the run's id."""
        tags = [{"key": "dagster/partition", "value": key}] if key else []
        selector = {**_REPOSITORY, "jobName": "__ASSET_JOB", "assetSelection": [{"path": [asset]}]}
        answer = self.ask(
            """mutation($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
                 __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
            params={"selector": selector, "executionMetadata": {"tags": tags}},
        )["launchPipelineExecution"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def terminate(self, run: str) -> None:
        """Asks a run to stop, like the button in the UI."""
        answer = self.ask(
            "mutation($id: String!) { terminateRun(runId: $id) { __typename ... on PythonError { message } } }", id=run
        )["terminateRun"]
        assert answer["__typename"] == "TerminateRunSuccess", answer

    def run_status(self, run: str) -> str:
        """The status of a run."""
        return self.ask("query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", id=run)["runOrError"][
            "status"
        ]

    def follow_run(self, run: str, within_s: float = 200) -> str:
        """Waits for the end of a run and returns its status."""
        ended = ("SUCCESS", "FAILURE", "CANCELED")
        return wait_for(lambda: status if (status := self.run_status(run)) in ended else "", within_s, f"run {run}")

    def run_log(self, run: str) -> str:
        """All messages of a run."""
        answer = self.ask(
            """query($id: ID!) { runOrError(runId: $id) { ... on Run { eventConnection(limit: 1000) {
                 events { __typename ... on MessageEvent { message } } } } } }""",
            id=run,
        )
        events = answer["runOrError"]["eventConnection"]["events"]
        return "\n".join(event.get("message") or "" for event in events)

    def materialised(self) -> dict[str, set[str]]:
        """Materialised partitions by asset; an asset without partitions has the one key ''."""
        nodes = self.ask(
            """{ assetNodes { assetKey { path } isMaterializable isPartitioned
                 assetMaterializations(limit: 1) { runId }
                 assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions } } } }"""
        )["assetNodes"]
        found: dict[str, set[str]] = {}
        for node in nodes:
            if node["isPartitioned"]:
                keys = set(node["assetPartitionStatuses"]["materializedPartitions"])
            else:
                keys = {""} if node["assetMaterializations"] else set()
            if node["isMaterializable"]:
                found[node["assetKey"]["path"][-1]] = keys
        return found

    def switch_sensor(self, name: str, *, on: bool) -> bool:
        """Switches a sensor, like the switch in the UI; returns whether it was on before."""
        selector = {**_REPOSITORY, "sensorName": name}
        state = self.ask(
            """query($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) {
                 ... on Sensor { sensorState { id status } } } }""",
            selector=selector,
        )["sensorOrError"]["sensorState"]
        was_on = state["status"] == "RUNNING"
        if on and not was_on:
            self.ask(
                "mutation($selector: SensorSelector!) { startSensor(sensorSelector: $selector) { __typename } }",
                selector=selector,
            )
        elif was_on and not on:
            self.ask("mutation($id: String!) { stopSensor(id: $id) { __typename } }", id=state["id"])
        return was_on

    @contextlib.contextmanager
    def without_sensor(self, name: str) -> Generator[None]:
        """Has a sensor stopped for a while, if it is on."""
        was_on = self.switch_sensor(name, on=False)
        try:
            yield
        finally:
            self.switch_sensor(name, on=was_on)


class Host(Web):
    """A running `dagster dev` of one experiment."""

    def __init__(self, experiment: Path, output: Path, log: Path, processes: ModuleType) -> None:
        self._processes = processes
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.experiment, self.output, self.log = experiment, output, log
        super().__init__(f"http://127.0.0.1:{self.port}")
        command = [sys.executable, "-m", "metric_benchmark_dagster.dev", "--experiment", str(experiment)]
        command += ["--output", str(output), "--port", str(self.port)]
        # Popen and not a shell's `&`, which would make it deaf to SIGINT and SIGTERM.
        with log.open("wb") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=stream, cwd=output.parent)

    def __enter__(self) -> Self:
        try:
            wait_for(self._is_ready, 400, f"dagster dev (see {self.log})")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        started = self._processes.started_by(self.process.pid)
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        # A loaded machine can make it too slow to end its servers, which would then stay.
        for pid, start in started:
            if self._processes.is_running(pid, start):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, f"dagster dev ended; see {self.log}"
        with contextlib.suppress(ConfigError):
            return bool(self.ask("{ assetNodes { assetKey { path } } }")["assetNodes"])
        return False


def screenshot_folder() -> Path:
    """Where screenshots go: a folder that git ignores."""
    folder = Path(os.environ.get("METRIC_BENCHMARK_SCREENSHOTS", Path(__file__).parents[2] / "screenshots"))
    folder.mkdir(exist_ok=True)
    return folder
