# SPDX-License-Identifier: Apache-2.0
"""A real Dagster host for tests: `python -m metric_benchmark_dagster.dev`, asked over GraphQL."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Self

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


class Web:
    """A running web server of Dagster, asked over GraphQL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """Runs a query; an error fails the test."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def launch_backfill(self, assets: Iterable[str] = ASSETS, **params: Any) -> str:
        """Launches a backfill, of all partitions unless told otherwise, and returns its id."""
        params = {"allPartitions": True} | params
        params["assetSelection"] = [{"path": [asset]} for asset in assets]
        answer = self.graphql(
            """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
                 __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }""",
            params=params,
        )["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return answer["backfillId"]

    def backfill_status(self, backfill: str) -> str:
        """The status of a backfill."""
        return self.graphql(
            """query($id: String!) { partitionBackfillOrError(backfillId: $id) {
                 ... on PartitionBackfill { status } } }""",
            id=backfill,
        )["partitionBackfillOrError"]["status"]

    def follow_backfill(self, backfill: str, within_s: float = 600) -> str:
        """Waits for the end of a backfill and returns its status."""
        running = ("REQUESTED", "CANCELING", "FAILING")
        return wait_for(
            lambda: status if (status := self.backfill_status(backfill)) not in running else "",
            within_s,
            f"backfill {backfill}",
            2,
        )

    def launch(self, asset: str, key: str | None) -> str:
        """Launches one materialisation and returns the run's id."""
        tags = [{"key": "dagster/partition", "value": key}] if key else []
        selector = {**_REPOSITORY, "jobName": "__ASSET_JOB", "assetSelection": [{"path": [asset]}]}
        answer = self.graphql(
            """mutation($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
                 __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
            params={"selector": selector, "executionMetadata": {"tags": tags}},
        )["launchPipelineExecution"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def terminate(self, run: str) -> None:
        """Asks a run to stop, like the button in the UI."""
        answer = self.graphql(
            "mutation($id: String!) { terminateRun(runId: $id) { __typename ... on PythonError { message } } }", id=run
        )["terminateRun"]
        assert answer["__typename"] == "TerminateRunSuccess", answer

    def run_status(self, run: str) -> str:
        """The status of a run."""
        return self.graphql("query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", id=run)[
            "runOrError"
        ]["status"]

    def follow_run(self, run: str, within_s: float = 200) -> str:
        """Waits for the end of a run and returns its status."""
        ended = ("SUCCESS", "FAILURE", "CANCELED")
        return wait_for(lambda: status if (status := self.run_status(run)) in ended else "", within_s, f"run {run}")

    def run_log(self, run: str) -> str:
        """All messages of a run."""
        answer = self.graphql(
            """query($id: ID!) { runOrError(runId: $id) { ... on Run { eventConnection(limit: 1000) {
                 events { __typename ... on MessageEvent { message } } } } } }""",
            id=run,
        )
        events = answer["runOrError"]["eventConnection"]["events"]
        return "\n".join(event.get("message") or "" for event in events)

    def materialised(self) -> dict[str, set[str]]:
        """Materialised partitions by asset; an asset without partitions has the one key ''."""
        nodes = self.graphql(
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

    def stop_sensor(self, name: str) -> None:
        """Stops a sensor, like the switch in the UI."""
        found = self.graphql(
            """query($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) {
                 ... on Sensor { sensorState { id } } } }""",
            selector={**_REPOSITORY, "sensorName": name},
        )["sensorOrError"]
        self.graphql("mutation($id: String!) { stopSensor(id: $id) { __typename } }", id=found["sensorState"]["id"])

    def observe_inputs(self) -> None:
        """Observes both inputs and waits for it."""
        for run in [self.launch(asset, None) for asset in ("variant_inputs", "case_inputs")]:
            assert self.follow_run(run) == "SUCCESS", self.run_log(run)


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
        with contextlib.suppress(OSError, AssertionError):
            return bool(self.graphql("{ assetNodes { assetKey { path } } }")["assetNodes"])
        return False


def screenshot_folder() -> Path:
    """Where screenshots go: a folder that git ignores."""
    folder = Path(os.environ.get("METRIC_BENCHMARK_SCREENSHOTS", Path(__file__).parents[2] / "screenshots"))
    folder.mkdir(exist_ok=True)
    return folder
