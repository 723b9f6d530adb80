# SPDX-License-Identifier: Apache-2.0
"""The sensor that watches inputs, and the hook for failures."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Generator
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from metric_benchmark.errors import ConfigError
from metric_benchmark.hashing import digest_file
from metric_benchmark.variants import resolve_variants
from metric_benchmark_dagster import elsewhere, looks, sensors
from metric_benchmark_dagster.hooks import post, resolve_hook

VERSION = "dagster/data_version"


def look(shell: Any, cursor: str | None = None) -> dg.SensorResult:
    """Evaluates the sensor and records its events, as the daemon does."""
    repository = shell.definitions.get_repository_def()
    sensor = repository.get_sensor_def("watch_inputs")
    context = dg.build_sensor_context(
        instance=shell.instance, cursor=cursor, repository_def=repository, resources=shell.definitions.resources
    )
    done = sensor.evaluate_tick(context)
    for event in done.asset_events:
        shell.instance.report_runless_asset_event(event)
    return done


def observed(done: Any) -> dict[str, str]:
    return {
        f"{event.asset_key.path[-1]} {event.partition}": event.tags[VERSION]
        for event in done.asset_events
        if isinstance(event, dg.AssetObservation)
    }


def freshness(done: Any) -> dg.AssetCheckEvaluation:
    (found,) = [event for event in done.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    return found


def test_the_first_look_observes_everything_and_the_next_one_nothing(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = look(shell)
    resource = shell.definitions.resources["experiment"]
    hashes = {variant.key: variant.config_hash for variant in resolve_variants(resource.open().experiment)}
    found = observed(first)
    assert {key: found[f"variant_inputs {key}"] for key in hashes} == hashes
    assert len(found) == len(hashes) + 1
    assert freshness(first).passed is False
    assert freshness(first).metadata["n_missing"].value == 11
    again = look(shell, first.cursor)
    assert again.asset_events == []
    assert "nothing has changed" in (again.skip_message or "")
    # A look at everything finds nothing new either, and says nothing twice.
    monkeypatch.setattr(looks, "FULL_LOOK_S", 0)
    assert look(shell, first.cursor).asset_events == []


def test_a_changed_mutant_is_observed_anew(shell: Any) -> None:
    first = look(shell)
    shell.edit("tiny/case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    second = look(shell, first.cursor)
    before, after = observed(first), observed(second)
    assert {key for key, version in after.items() if version != before[key]} == {"variant_inputs tiny|lazy"}


def test_what_is_materialised_after_a_look_records_the_observed_version(shell: Any) -> None:
    done = look(shell)
    shell.instance.report_runless_asset_event(dg.AssetMaterialization("raw_results", partition="tiny|baseline"))
    record = shell.instance.get_latest_data_version_record(
        dg.AssetKey("variant_inputs"), is_source=True, partition_key="tiny|baseline"
    )
    assert record is not None
    observation = record.event_log_entry.asset_observation
    assert observation is not None
    assert observation.tags[VERSION] == observed(done)["variant_inputs tiny|baseline"]


def test_an_edit_in_the_making_is_skipped_with_the_reason(shell: Any) -> None:
    first = look(shell)
    shell.edit("tiny/case.yaml", "id: lazy", "id: idle", sign=False)
    done = look(shell, first.cursor)
    assert observed(done) == {}
    assert not freshness(done).passed
    assert "has changed" in (done.skip_message or "")


def test_a_new_mutant_has_the_location_loaded_again(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reloads: list[Any] = []
    monkeypatch.setattr(sensors, "reload_soon", reloads.append)
    first = look(shell)
    assert reloads == []
    shell.edit("tiny/case.yaml", "mutants:\n", "mutants:\n  - {id: new, operator: external/n, agent: {name: nop}}\n")
    done = look(shell, first.cursor)
    assert len(reloads) == 1
    # Dagster does not know its partition yet.
    assert "variant_inputs tiny|new" not in observed(done)


def test_observations_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "MAX_EVENTS", 3)
    versions = {f"variant_inputs:{case}": {f"{case}|x": "1", f"{case}|y": "1"} for case in "abc"}
    known: dict[str, str] = {}
    taken: list[list[str | None]] = []
    for _ in range(4):
        events, known = sensors.observations(versions, known, ["small"])
        taken.append([event.partition for event in events])
    assert taken == [["a|x", "a|y"], ["b|x", "b|y"], ["c|x", "c|y"], []]


def test_the_check_is_made_again_for_a_report_that_came_after_it(copied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All was fresh before the report was materialised, and stays so."""
    monkeypatch.setattr(looks, "EVIDENCE_PAUSE_S", 0)
    monkeypatch.setattr(looks, "EVIDENCE_SHARE", float("inf"))
    done = look(copied)
    assert freshness(done).passed
    done = look(copied, done.cursor)
    copied.instance.report_runless_asset_event(dg.AssetMaterialization("report", tags={VERSION: "new"}))
    done = look(copied, done.cursor)
    assert freshness(done).passed


def test_what_was_recorded_elsewhere_is_shown_in_portions_and_once(
    copied: Any, finished: Any, small: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence is finished, and this instance of Dagster has never materialised anything."""
    raw = copied.instance.get_materialized_partitions
    monkeypatch.setattr(elsewhere, "MAX_EVENTS", 4)
    monkeypatch.setattr(looks, "EVIDENCE_PAUSE_S", 0)
    monkeypatch.setattr(looks, "EVIDENCE_SHARE", float("inf"))
    done = look(copied)
    assert raw(dg.AssetKey("raw_results")) == set(small.VARIANTS[:4])
    for _ in range(10):
        done = look(copied, done.cursor)
    assert raw(dg.AssetKey("raw_results")) == set(small.VARIANTS)
    assert raw(dg.AssetKey("mutant_scores")) == set(small.SCORED)
    for asset in ("subset_scores", "coverage", "correlation"):
        assert raw(dg.AssetKey(asset)) == set(small.TWO_CASES)
    for asset in ("execution_manifest", "report"):
        (here,), (there,) = (
            shell.instance.fetch_materializations(dg.AssetKey(asset), limit=2).records for shell in (copied, finished)
        )
        assert here.asset_materialization.tags[VERSION] == there.asset_materialization.tags[VERSION]
    assert "nothing has changed" in (done.skip_message or "")


def test_what_was_computed_again_elsewhere_is_shown_anew(
    copied: Any, small: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "EVIDENCE_PAUSE_S", 0)
    monkeypatch.setattr(looks, "EVIDENCE_SHARE", float("inf"))
    first = look(copied)
    copied.edit("analysis.yaml", "seed: 1", "seed: 2")
    with dg.instance_for_test() as instance:
        other = type(copied)(copied.experiment, copied.output, instance)
        for key in small.SCORED[:3]:
            assert other.run("mutant_scores", key=key).success
        assert other.run("subset_scores", "coverage", "correlation", key="tiny").success
    done = look(copied, first.cursor)
    shown = {(event.asset_key.path[-1], event.partition): event for event in done.asset_events}
    assert ("correlation", "tiny") in shown
    assert ("correlation", "other") not in shown
    digest = digest_file(copied.output / "analysis" / "tiny" / "correlation.json")
    assert shown["correlation", "tiny"].tags[VERSION] == digest
    assert [event for event in look(copied, done.cursor).asset_events if event.asset_key.path[-1] != "report"] == []


def test_what_is_at_work_or_out_of_date_reports_for_itself(copied: Any, small: ModuleType) -> None:
    copied.edit("tiny/case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    copied.instance.create_run_for_job(
        copied.definitions.resolve_implicit_global_asset_job_def(),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": "tiny|same"},
        asset_selection=frozenset({dg.AssetKey("raw_results")}),
    )
    look(copied)
    shown = copied.instance.get_materialized_partitions(dg.AssetKey("raw_results"))
    assert shown == set(small.VARIANTS) - {"tiny|same", "tiny|lazy"}
    assert copied.instance.get_latest_materialization_event(dg.AssetKey("report")) is None


class _Receiver(http.server.BaseHTTPRequestHandler):
    got: list[Any] = []
    answers: list[int] = []

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.answers.pop(0))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def fail(shell: Any) -> Any:
    """Has a run fail and its failure told."""
    result = shell.run("raw_results", key="tiny|lazy")
    assert not result.success
    sensor = shell.definitions.get_repository_def().get_sensor_def("tell_failures")
    context = dg.build_run_status_sensor_context(
        sensor_name="tell_failures",
        dagster_event=result.get_run_failure_event(),
        dagster_instance=shell.instance,
        dagster_run=result.dagster_run,
    ).for_run_failure()
    return sensor(context)


def test_a_failed_run_is_told_to_a_callable_and_to_a_webhook(make_shell: Any, experiment: Any) -> None:
    told: list[dict[str, Any]] = []
    shell = make_shell(experiment, on_failure=told.append)
    (shell.experiment.parent / "tiny" / "tasks" / "greet" / "instruction.md").write_text("changed\n")
    fail(shell)
    (event,) = told
    assert (event["experiment"], event["partition"], event["assets"]) == ("small", "tiny|lazy", ["raw_results"])
    assert "tasks/greet has changed" in event["message"]

    with receiver(204) as url:
        resolve_hook(url)(event)
    assert _Receiver.got == [event]


@contextlib.contextmanager
def receiver(*answers: int) -> Generator[str]:
    """The address of a webhook that gives these answers."""
    _Receiver.got, _Receiver.answers = [], list(answers)
    server = http.server.HTTPServer(("127.0.0.1", 0), _Receiver)
    thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook/secret-token"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("answers", "paused", "is_taken"),
    [([503, 204], [0.5], True), ([500, 429, 502], [0.5, 1.5], False), ([404, 204], [], False)],
)
def test_a_webhook_is_tried_again_where_that_can_help(answers: list[int], paused: list[float], is_taken: bool) -> None:
    slept: list[float] = []
    with receiver(*answers) as url:
        if is_taken:
            post(url, {"run": "r"}, sleep=slept.append)
        else:
            with pytest.raises(
                ConnectionError, match=r"the webhook at 127\.0\.0\.1 did not take it: it answers"
            ) as refused:
                post(url, {"run": "r"}, sleep=slept.append)
            assert "secret-token" not in str(refused.value)
    assert (slept, len(_Receiver.got)) == (paused, len(paused) + 1)
    # By now nobody listens there.
    with pytest.raises(ConnectionError, match="refused"):
        post(url, {"run": "r"}, sleep=slept.append)
    assert len(slept) == len(paused) + 2


def test_nobody_is_told_unless_someone_is_named(shell: Any) -> None:
    names = {sensor.name for sensor in shell.definitions.get_repository_def().sensor_defs}
    assert names == {"watch_inputs", "analysis_follows"}


@pytest.mark.parametrize("hook", ["nowhere", "no.such.module:tell", "os:sep"])
def test_a_hook_that_cannot_be_called_is_refused(hook: str) -> None:
    with pytest.raises(ConfigError, match="failure hook"):
        resolve_hook(hook)


def test_what_became_fresh_or_stale_shows_on_the_report_soon_after(
    copied: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = look(copied)
    assert freshness(first).passed
    assert freshness(first).asset_key == dg.AssetKey("report")
    (copied.output / "analysis" / "tiny" / "correlation.json").unlink()
    # Not at once: while trials run, evidence changes all the time.
    assert look(copied, first.cursor).asset_events == []
    monkeypatch.setattr(looks, "EVIDENCE_PAUSE_S", 0)
    monkeypatch.setattr(looks, "EVIDENCE_SHARE", float("inf"))
    (event,) = look(copied, first.cursor).asset_events
    assert (event.passed, event.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert event.description == "19 fresh, 1 missing"


def test_a_record_changed_in_place_shows_as_soon(copied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder changes with it, nor does the index."""
    monkeypatch.setattr(looks, "EVIDENCE_PAUSE_S", 0)
    monkeypatch.setattr(looks, "EVIDENCE_SHARE", float("inf"))
    seen = look(copied)
    (record,) = (copied.output / "execution" / "tiny" / "baseline").glob("*/raw-results.json")
    for path in (copied.output / "analysis" / "tiny" / "coverage.json", record):
        whole = path.read_bytes()
        path.write_bytes(whole[:-10])
        seen = look(copied, seen.cursor)
        assert not freshness(seen).passed
        path.write_bytes(whole)
        seen = look(copied, seen.cursor)
        assert freshness(seen).passed


def test_files_that_cannot_be_loaded_make_the_check_say_so_once(copied: Any) -> None:
    first = look(copied)
    assert freshness(first).passed
    case = copied.experiment.parent / "tiny" / "case.yaml"
    whole = case.read_text()
    case.write_text(whole + "]\n")
    second = look(copied, first.cursor)
    assert not freshness(second).passed
    assert "the experiment cannot be loaded as it is now: tiny/case.yaml:" in (freshness(second).description or "")
    assert second.skip_message == freshness(second).description
    assert look(copied, second.cursor).asset_events == []
    case.write_text(whole)
    assert freshness(look(copied, second.cursor)).passed
