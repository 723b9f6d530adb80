# SPDX-License-Identifier: Apache-2.0
"""Which partitions `backfill` launches, and what it says; a small server plays Dagster's part."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metric_benchmark.cli.backfilling import select
from metric_benchmark.pipeline.freshness import STAGES, PartitionStatus

STATUS = [
    PartitionStatus("raw_results", "desk|baseline", "fresh", ""),
    PartitionStatus("raw_results", "desk|short", "stale", "x"),
    PartitionStatus("raw_results", "desk|idle", "failed", "x"),
    PartitionStatus("raw_results", "shelf|baseline", "missing", "x"),
    PartitionStatus("mutant_scores", "desk|short", "stale", "x"),
    PartitionStatus("mutant_scores", "desk|idle", "missing", "x"),
    PartitionStatus("mutant_scores", "shelf|far", "missing", "x"),
    PartitionStatus("subset_scores", "desk", "stale", "x"),
    PartitionStatus("coverage", "desk", "fresh", ""),
    PartitionStatus("correlation", "desk", "stale", "x"),
]
END = {"execution_manifest": None, "report": None}
SELECTIONS = {
    "all that is not fresh": (
        [], [], [],
        {
            "raw_results": ["desk|short", "desk|idle", "shelf|baseline"],
            "mutant_scores": ["desk|short", "desk|idle", "shelf|far"],
            "subset_scores": ["desk"], "correlation": ["desk"], **END,
        },
    ),
    "failed, and what depends on it": (
        ["failed"], [], [],
        {
            "raw_results": ["desk|idle"], "mutant_scores": ["desk|idle"], "subset_scores": ["desk"],
            "correlation": ["desk"],
        },
    ),
    "one case": (
        [], ["shelf"], [], {"raw_results": ["shelf|baseline"], "mutant_scores": ["shelf|far"]},
    ),
    "one variant": (
        [], [], ["short"],
        {
            "raw_results": ["desk|short"], "mutant_scores": ["desk|short"], "subset_scores": ["desk"],
            "correlation": ["desk"],
        },
    ),
    "a baseline, and the kills that need it": (
        [], ["shelf"], ["baseline"], {"raw_results": ["shelf|baseline"], "mutant_scores": ["shelf|far"]},
    ),
    "fresh ones too": (
        ["all"], ["desk"], ["baseline"],
        {
            "raw_results": ["desk|baseline"], "mutant_scores": ["desk|short", "desk|idle"], "subset_scores": ["desk"],
            "correlation": ["desk"],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("states", "cases", "variants", "expected"), SELECTIONS.values(), ids=SELECTIONS)
def test_the_selection(states, cases, variants, expected):
    assert select(STATUS, states, cases, variants, sealed=False) == expected


def test_an_experiment_that_lacks_only_its_seal_gets_it_and_a_sealed_one_nothing():
    fresh = [found for found in STATUS if found.state == "fresh"]
    assert select(fresh, [], [], [], sealed=False) == END
    assert select(fresh, [], [], [], sealed=True) == {}


class Dagster(http.server.BaseHTTPRequestHandler):
    """Answers what the command asks; remembers what it was asked for."""

    asked: list[Any]
    ends: list[str]
    #: How the resource that names the evidence is configured.
    served: list[tuple[str, str, str]]
    #: What it answers instead, status and body, to the next who ask with this word in their query.
    fails: list[tuple[int, str]]
    fails_at: str = "partitionBackfillOrError"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(asked)
        if self.fails and self.fails_at in asked["query"]:
            status, text = self.fails.pop(0)
            body = text.encode()
        else:
            status, body = 200, json.dumps({"data": self.answer(asked["query"])}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, query: str) -> Any:
        if "assetNodes" in query:
            return {
                "assetNodes": [
                    node(name, "small") for name in (*STAGES, "execution_manifest", "report", "variant_inputs")
                ]
            }
        if "topLevelResourceDetailsOrError" in query:
            values = [dict(zip(("key", "value", "type"), one, strict=True)) for one in self.served]
            return {"topLevelResourceDetailsOrError": {"configuredValues": values}}
        if "partitionKeys" in query:
            return {"assetNodeOrError": {"partitionKeys": ["desk|baseline", "desk|control-1", "desk|short"]}}
        if "reloadRepositoryLocation" in query:
            return {"reloadRepositoryLocation": {"__typename": "WorkspaceLocationEntry", "locationOrLoadError": {}}}
        if "launchPipelineExecution" in query:
            return {"launchPipelineExecution": {"__typename": "LaunchRunSuccess", "run": {"runId": "r1"}}}
        if "runOrError" in query:
            return {"runOrError": {"status": "SUCCESS"}}
        if "launchPartitionBackfill" in query:
            return {"launchPartitionBackfill": {"__typename": "LaunchBackfillSuccess", "backfillId": "abc"}}
        counts = {"numPartitionsTargeted": 4, "numPartitionsInProgress": 0, "numPartitionsMaterialized": 3,
                  "numPartitionsFailed": 1, "assetKey": {"path": ["raw_results"]}}  # fmt: skip
        status = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        data = {"assetBackfillStatuses": [counts]}
        return {
            "partitionBackfillOrError": {
                "__typename": "PartitionBackfill", "status": status, "error": None, "assetBackfillData": data,
            }
        }  # fmt: skip

    def log_message(self, *_: Any) -> None:
        pass


def node(name: str, experiment: str) -> dict[str, Any]:
    tags = [] if name.endswith("_inputs") else [{"key": "metric_benchmark/experiment", "value": experiment}]
    return {
        "assetKey": {"path": [name]}, "isObservable": not tags, "tags": tags,
        "repository": {"name": "__repository__", "location": {"name": "here"}},
    }  # fmt: skip


@pytest.fixture
def dagster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    handler = type("Handler", (Dagster,), {"asked": [], "ends": ["REQUESTED", "COMPLETED_SUCCESS"], "fails": []})
    handler.served = [("output", json.dumps(str(Path("out").absolute())), "VALUE")]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("metric_benchmark.webserver.time.sleep", lambda _: None)
    handler.url = f"http://127.0.0.1:{server.server_port}"
    yield handler
    server.shutdown()
    server.server_close()


def test_it_reloads_for_a_new_variant_observes_launches_and_follows(run, project, dagster, execute):
    ended = run("backfill", "exp", "--output", "out", "--variant", "idle", "--url", dagster.url, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["status"] == "COMPLETED_SUCCESS"
    assert ended.json["assets"][0]["n_done"] == 3
    words = (
        "assetNodes",
        "topLevelResource",
        "partitionKeys",
        "reload",
        "launchPipeline",
        "runOrError",
        "launchPartition",
        "partitionBack",
    )
    kinds = [next(word for word in words if word in asked["query"]) for asked in dagster.asked]
    assert kinds == [
        "assetNodes", "topLevelResource", "partitionKeys", "reload", "launchPipeline", "runOrError", "launchPartition",
        "partitionBack", "partitionBack",
    ]  # fmt: skip
    params = dagster.asked[6]["variables"]["params"]
    assert params["partitionsByAssets"][0] == {
        "assetKey": {"path": ["raw_results"]},
        "partitions": {"ranges": [{"start": "desk|idle", "end": "desk|idle"}]},
    }


def test_a_backfill_with_failures_ends_with_the_status_of_incomplete_execution(run, project, dagster):
    dagster.ends[:] = ["COMPLETED_FAILED"]
    ended = run("backfill", "exp", "--output", "out", "--variant", "idle", "--url", dagster.url)
    assert ended.status == 4
    assert "ended as COMPLETED_FAILED: 1 of 4 partitions failed" in ended.err
    assert ended.out.splitlines()[1].split() == ["raw_results", "4", "3", "1"]


OTHER = "http://x: has this experiment's evidence in /srv/out, not in {out}, which says nothing about what is missing "
SERVED = {
    "another folder": (
        [("output", '"/srv/out"', "VALUE")],
        [f"{OTHER}there; give --output /srv/out, on the machine or in the container that has it"],
    ),
    "another run": (
        [("output", '"{out}"', "VALUE"), ("run_id", '"mine"', "VALUE")],
        ["http://x: runs this experiment as 'mine', not as 'small'; give --run-id mine"],
    ),
    "a link to the folder": ([("output", '"{out}-link"', "VALUE")], []),
    "what its environment says": ([("output", "OUT", "ENV_VAR"), ("run_id", "RUN", "ENV_VAR")], []),
}


@pytest.mark.parametrize(("served", "expected"), SERVED.values(), ids=SERVED)
def test_a_server_of_other_evidence_is_refused(run, project, dagster, served, expected):
    out = Path("out").absolute()
    Path("out-link").symlink_to("out")
    dagster.served = [(key, value.format(out=out), kind) for key, value, kind in served]
    ended = run("backfill", "exp", "--output", "out", "--url", dagster.url)
    assert ended.errors == [text.format(out=out).replace("http://x", dagster.url) for text in expected]
    assert ended.status == (2 if expected else 0)
    assert any("launchPartitionBackfill" in asked["query"] for asked in dagster.asked) is not bool(expected)


def test_a_run_of_another_name_is_refused_by_a_server_that_names_none(run, project, dagster):
    ended = run("backfill", "exp", "--output", "out", "--run-id", "mine", "--url", dagster.url)
    assert ended.errors == [f"{dagster.url}: runs this experiment as 'small', not as 'mine'; give --run-id small"]


def test_a_dry_run_asks_nobody(run, project):
    ended = run("backfill", "exp", "--output", "out", "--dry-run", "--json", "--url", "http://127.0.0.1:1")
    assert ended.status == 0
    assert ended.json["partitions"]["raw_results"] == ["desk|baseline", "desk|control-1", "desk|short", "desk|idle"]


def test_a_server_that_is_not_there_and_names_that_are_not_are_said_in_one_line(run, project):
    ended = run("backfill", "exp", "--output", "out", "--url", "http://127.0.0.1:1")
    assert ended.status == 2
    assert "no web server of the platform answers" in ended.err
    ended = run("backfill", "exp", "--output", "out", "--case", "dusk", "--variant", "idel")
    assert ended.status == 2
    assert ended.errors == [
        "no case 'dusk'; the experiment has: desk",
        "no variant 'idel'; there are: baseline, control-1, idle, short",
    ]


def test_an_experiment_the_server_does_not_serve_is_named_with_those_it_does(run, project, dagster):
    project.edit("experiment.yaml", ("name: small", "name: other"))
    ended = run("backfill", "exp", "--output", "out", "--url", dagster.url)
    assert ended.status == 2
    assert "serves no experiment called 'other'; it has: small" in ended.err


@pytest.mark.parametrize("status", [400, 500])
def test_what_is_wrong_with_a_query_is_said_as_the_server_says_it(run, project, dagster, status):
    """Dagster answers errors of GraphQL with these statuses; that is no server that is not there."""
    dagster.fails_at = "assetNodes"
    dagster.fails.append((status, json.dumps({"data": None, "errors": [{"message": "no field 'assetNodes'"}]})))
    ended = run("backfill", "exp", "--output", "out", "--url", dagster.url)
    assert (ended.status, ended.errors) == (2, [f"{dagster.url}: refused the query: no field 'assetNodes'"])


def test_what_answers_and_is_no_web_server_of_dagster_is_none(run, project, dagster):
    dagster.fails_at = "assetNodes"
    for status, body in ((502, "<html>Bad Gateway</html>"), (200, "[]")):
        dagster.fails.append((status, body))
        ended = run("backfill", "exp", "--output", "out", "--url", dagster.url)
        assert ended.status == 2
        assert "no web server of the platform answers" in ended.err


HICCUPS = [(500, json.dumps({"data": None, "errors": [{"message": "the database restarts"}]})), (502, "<html>")]


def test_a_server_that_fails_for_a_moment_is_asked_again(run, project, dagster):
    dagster.fails += HICCUPS * 5
    ended = run("backfill", "exp", "--output", "out", "--variant", "idle", "--url", dagster.url, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["status"] == "COMPLETED_SUCCESS"


def test_who_cannot_follow_any_more_is_told_that_the_backfill_goes_on(run, project, dagster):
    dagster.fails += HICCUPS * 50
    ended = run("backfill", "exp", "--output", "out", "--variant", "idle", "--url", dagster.url)
    assert ended.status == 4
    assert ended.errors[0].endswith(
        "It was asked 20 times; the backfill goes on where the daemon runs, and can be watched at "
        f"{dagster.url}/runs/b/abc"
    )
