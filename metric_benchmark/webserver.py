# SPDX-License-Identifier: Apache-2.0
"""Asks a running web server over GraphQL: finds an experiment's assets there, launches and follows backfills."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.errors import ConfigError, ExecutionError

#: Where `metric_benchmark_dagster.dev` serves.
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 3000
DEFAULT_URL = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
EXPERIMENT_TAG = "metric_benchmark/experiment"
#: States of a backfill and of a run that is not over.
_BACKFILL_GOES_ON = ("REQUESTED", "CANCELING", "FAILING")
_RUN_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
#: How often in a row the server may fail to answer somebody who follows a backfill; a restart takes some seconds.
_MOST_UNANSWERED = 20
_PAUSE_S = 2.0
_ANSWERED_WITHIN_S = 60.0
_OBSERVED_WITHIN_S = 600.0

_ASSETS = """
{ assetNodes {
    assetKey { path } isObservable tags { key value }
    repository { name location { name } }
} }
"""
_KEYS = "query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { partitionKeys } } }"
_RESOURCE = """
query($selector: ResourceSelector!) { topLevelResourceDetailsOrError(resourceSelector: $selector) {
  ... on ResourceDetails { configuredValues { key value type } } } }
"""
_RELOAD = """
mutation($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) {
  __typename ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
  ... on PythonError { message } ... on ReloadNotSupported { message } ... on RepositoryLocationNotFound { message } } }
"""
_LAUNCH = """
mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  ... on UnauthorizedError { message } } }
"""
_RUN = """
mutation($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }
"""
_RUN_STATUS = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
_BACKFILL = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  __typename
  ... on PythonError { message } ... on BackfillNotFoundError { message }
  ... on PartitionBackfill { status error { message } assetBackfillData { assetBackfillStatuses {
    ... on AssetPartitionsStatusCounts { assetKey { path }
      numPartitionsTargeted numPartitionsInProgress numPartitionsMaterialized numPartitionsFailed }
    ... on UnpartitionedAssetStatus { assetKey { path } inProgress materialized failed }
  } } } } }
"""

type Key = tuple[str, ...]


@dataclass(frozen=True)
class Location:
    """The assets of one experiment: their keys by name, and the code location that has them."""

    experiment: str
    name: str
    repository: str
    assets: Mapping[str, Key]
    inputs: tuple[Key, ...]


@dataclass(frozen=True)
class Count:
    """How far an asset is in a backfill."""

    asset: str
    n_targeted: int
    n_done: int
    n_failed: int
    n_running: int


@dataclass(frozen=True)
class Progress:
    """How far a backfill is; `error` says why it failed as a whole."""

    status: str
    counts: tuple[Count, ...]
    error: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.status not in _BACKFILL_GOES_ON

    @property
    def n_targeted(self) -> int:
        """How many partitions were asked for."""
        return sum(count.n_targeted for count in self.counts)

    @property
    def n_done(self) -> int:
        """How many have been materialised."""
        return sum(count.n_done for count in self.counts)

    @property
    def n_failed(self) -> int:
        """How many failed, or wait for one that failed."""
        return sum(count.n_failed for count in self.counts)


class WebServer:
    """A running web server, by its address."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        self.url = url.rstrip("/")

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Runs a query.

        Raises:
            ConfigError: nobody answers there, or the server refuses the query or fails at it.
        """
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        try:
            answer = self._send(request)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ConfigError(
                f"{self.url}: no web server of the platform answers ({error}); start one with `make dev`, or name its "
                "address with --url"
            ) from None
        if answer.get("errors"):
            raise ConfigError(f"{self.url}: refused the query: {answer['errors'][0].get('message')}")
        return answer["data"]

    def _send(self, request: urllib.request.Request) -> dict[str, Any]:
        """Returns what the server answers; errors of GraphQL come with a status of 400 or 500, and are answers, too."""
        try:
            with urllib.request.urlopen(request, timeout=_ANSWERED_WITHIN_S) as response:
                answer = _read_answer(response.read())
        except urllib.error.HTTPError as error:
            with error:
                answer = _read_answer(error.read())
            if answer is None or not answer.get("errors"):
                raise
        if answer is None:
            raise ValueError("what answers there is no GraphQL")
        return answer

    def find(self, experiment: str) -> Location:
        """Finds the assets of an experiment in the workspace.

        Raises:
            ConfigError: the workspace has none of this name.
        """
        nodes: list[dict[str, Any]] = self.ask(_ASSETS)["assetNodes"]
        tagged = [node for node in nodes if _tag(node, EXPERIMENT_TAG) == experiment]
        if not tagged:
            known = sorted({name for node in nodes if (name := _tag(node, EXPERIMENT_TAG))})
            raise ConfigError(
                f"{self.url}: serves no experiment called {experiment!r}; it has: {', '.join(known) or 'none'}"
            )
        repository: dict[str, Any] = tagged[0]["repository"]
        location = repository["location"]["name"]
        own = [node for node in nodes if node["repository"]["location"]["name"] == location]
        prefix: Key = tuple(tagged[0]["assetKey"]["path"][:-1])
        own = [node for node in own if tuple(node["assetKey"]["path"][:-1]) == prefix]
        keys = {node["assetKey"]["path"][-1]: tuple(node["assetKey"]["path"]) for node in own}
        inputs = tuple(tuple(node["assetKey"]["path"]) for node in own if node["isObservable"])
        return Location(
            experiment,
            location,
            repository["name"],
            {name: key for name, key in keys.items() if key not in inputs},
            inputs,
        )

    def check_evidence(self, location: Location, output: Path, run_id: str) -> None:
        """Checks that what is launched writes this evidence, and under this run's id.

        Settings the host takes from its own environment are not known here, and are not compared.

        Raises:
            ConfigError: it is other evidence or another run.
        """
        selector = {
            "repositoryLocationName": location.name,
            "repositoryName": location.repository,
            "resourceName": "experiment",
        }
        answer: dict[str, Any] = self.ask(_RESOURCE, selector=selector)["topLevelResourceDetailsOrError"]
        values: list[dict[str, str]] = answer.get("configuredValues") or []
        served: dict[str, Any] = {v["key"]: json.loads(v["value"]) for v in values if v["type"] == "VALUE"}
        problems: list[str] = []
        theirs = served.get("output")
        if theirs is not None and os.path.realpath(theirs) != os.path.realpath(output):
            problems.append(
                f"{self.url}: has this experiment's evidence in {theirs}, not in {output}, which says nothing about "
                f"what is missing there; give --output {theirs}, on the machine or in the container that has it"
            )
        if "run_id" not in {v["key"] for v in values} and values:
            served["run_id"] = location.experiment
        if (theirs := served.get("run_id")) is not None and theirs != run_id:
            problems.append(
                f"{self.url}: runs this experiment as {theirs!r}, not as {run_id!r}; give --run-id {theirs}"
            )
        if problems:
            raise ConfigError(problems)

    def partition_keys(self, key: Key) -> list[str]:
        """Returns the partition keys of an asset as the server knows them."""
        return self.ask(_KEYS, key={"path": list(key)})["assetNodeOrError"]["partitionKeys"]

    def reload(self, location: Location) -> None:
        """Has a code location loaded again, so that new cases and variants are known.

        Raises:
            ConfigError: it cannot be loaded.
        """
        answer: dict[str, Any] = self.ask(_RELOAD, name=location.name)["reloadRepositoryLocation"]
        loaded: dict[str, Any] = answer.get("locationOrLoadError") or answer
        if "message" in loaded:
            raise ConfigError(f"{self.url}: code location {location.name}: {loaded['message'].strip()}")

    def observe(self, location: Location) -> None:
        """Has the inputs observed, so that what is materialised next records which version of them it was made from.

        Raises:
            ExecutionError: a run that observes them failed or did not end in time.
        """
        runs = [self._launch(location, key) for key in location.inputs]
        deadline = time.monotonic() + _OBSERVED_WITHIN_S
        for run in runs:
            while (status := self.ask(_RUN_STATUS, id=run)["runOrError"].get("status")) not in _RUN_ENDED:
                if time.monotonic() > deadline:
                    raise ExecutionError(
                        f"{self.url}/runs/{run}: observing inputs has not ended after {_OBSERVED_WITHIN_S:g} s"
                    )
                time.sleep(_PAUSE_S)
            if status != "SUCCESS":
                raise ExecutionError(f"{self.url}/runs/{run}: observing inputs ended as {status}; its log says why")

    def _launch(self, location: Location, key: Key) -> str:
        selector = {
            "repositoryLocationName": location.name,
            "repositoryName": location.repository,
            "jobName": "__ASSET_JOB",
            "assetSelection": [{"path": list(key)}],
        }
        answer: dict[str, Any] = self.ask(_RUN, params={"selector": selector})["launchPipelineExecution"]
        if "run" not in answer:
            raise ExecutionError(f"{self.url}: {answer.get('message', answer['__typename'])}")
        return answer["run"]["runId"]

    def launch_backfill(
        self,
        location: Location,
        selection: Mapping[str, Sequence[str] | None],
        *,
        title: str,
        tags: Mapping[str, str],
    ) -> str:
        """Launches one backfill over several assets, each with partitions of its own, and returns its id.

        Args:
            location: whose assets.
            selection: partition keys by asset; None for one without partitions.
            title: shown in the UI.
            tags: of the backfill and all its runs.

        Raises:
            ExecutionError: the server refused it.
        """
        by_asset: list[dict[str, Any]] = []
        for name, keys in selection.items():
            entry: dict[str, Any] = {"assetKey": {"path": list(location.assets[name])}}
            if keys is not None:
                entry["partitions"] = {"ranges": [{"start": key, "end": key} for key in keys]}
            by_asset.append(entry)
        params = {
            "partitionsByAssets": by_asset,
            "title": title,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        answer: dict[str, Any] = self.ask(_LAUNCH, params=params)["launchPartitionBackfill"]
        if "backfillId" not in answer:
            raise ExecutionError(f"{self.url}: {answer.get('message', answer['__typename'])}")
        return answer["backfillId"]

    def progress(self, backfill: str) -> Progress:
        """Says how far a backfill is.

        Raises:
            ExecutionError: the server knows no such backfill.
        """
        answer: dict[str, Any] = self.ask(_BACKFILL, id=backfill)["partitionBackfillOrError"]
        if answer["__typename"] != "PartitionBackfill":
            raise ExecutionError(f"{self.url}: {answer.get('message', answer['__typename'])}")
        data: dict[str, Any] = answer["assetBackfillData"] or {"assetBackfillStatuses": []}
        counts = tuple(_count(status) for status in data["assetBackfillStatuses"])
        error = answer.get("error")
        return Progress(answer["status"], counts, error["message"] if error else None)

    def follow(self, backfill: str) -> Iterator[Progress]:
        """Yields how far a backfill is until it is over; a server that does not answer for a moment is asked again.

        Raises:
            ExecutionError: the server has not answered for long, or knows no such backfill.
        """
        n_unanswered = 0
        while True:
            try:
                found = self.progress(backfill)
            except ConfigError as error:
                n_unanswered += 1
                if n_unanswered == _MOST_UNANSWERED:
                    raise ExecutionError(
                        f"{error}. It was asked {n_unanswered} times; the backfill goes on where the daemon runs, and "
                        f"can be watched at {self.url}/runs/b/{backfill}"
                    ) from None
            else:
                n_unanswered = 0
                yield found
                if found.is_over:
                    return
            time.sleep(_PAUSE_S)


def _read_answer(body: bytes) -> dict[str, Any] | None:
    """Reads what GraphQL answers; None where it is something else, such as a proxy's page."""
    try:
        value: Any = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) and {"data", "errors"} & value.keys() else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _tag(node: Mapping[str, Any], key: str) -> str | None:
    return next((tag["value"] for tag in node["tags"] if tag["key"] == key), None)


def _count(status: Mapping[str, Any]) -> Count:
    asset: str = status["assetKey"]["path"][-1]
    if "numPartitionsTargeted" in status:
        return Count(
            asset,
            status["numPartitionsTargeted"],
            status["numPartitionsMaterialized"],
            status["numPartitionsFailed"],
            status["numPartitionsInProgress"],
        )
    return Count(asset, 1, int(status["materialized"]), int(status["failed"]), int(status["inProgress"]))
