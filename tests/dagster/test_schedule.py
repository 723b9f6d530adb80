# SPDX-License-Identifier: Apache-2.0
"""The scheduled backfill: a tick asks for exactly what is not fresh and can run now, within its caps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from metric_benchmark_dagster.nightly import Nightly
from metric_benchmark_dagster.schedules import Estimate, choose, estimates
from metric_benchmark_dagster.units import CASE_ASSETS, Unit

NIGHT = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def tick(shell: Any) -> list[tuple[tuple[str, ...], str | None]]:
    """Evaluates the schedule; what it asks for, in order: assets and partition."""
    return [
        (tuple(key.path[-1] for key in request.asset_selection or ()), request.partition_key)
        for request in requests(shell)
    ]


def requests(shell: Any) -> list[dg.RunRequest]:
    return list(evaluate(shell).run_requests or [])


def evaluate(shell: Any) -> Any:
    repository = shell.definitions.get_repository_def()
    schedule = repository.get_schedule_def("scheduled_backfill")
    context = dg.build_schedule_context(
        instance=shell.instance,
        scheduled_execution_time=NIGHT,
        repository_def=repository,
        resources=shell.definitions.resources,
    )
    return schedule.evaluate_tick(context)


def test_of_an_experiment_that_was_never_run_only_raw_results_are_asked_for(shell: Any) -> None:
    found = requests(shell)
    assert [request.partition_key for request in found] == [
        "tiny|baseline", "tiny|screening", "tiny|control-1", "tiny|lazy", "tiny|same",
    ]  # fmt: skip
    assert {tuple(request.asset_selection or ()) for request in found} == {(dg.AssetKey("raw_results"),)}
    assert [request.tags["dagster/priority"] for request in found] == ["-10", "-10", "-11", "-11", "-11"]
    first = found[0]
    assert first.run_key == "2026-03-01T02:00+00:00:raw_results:tiny|baseline"
    assert first.tags["dagster/partition"] == "tiny|baseline"
    assert first.tags["dagster/max_runtime"] == "21600"
    assert first.tags["metric_benchmark/trigger"] == "scheduled_backfill"


def test_everything_fresh_asks_for_nothing(copied: Any) -> None:
    assert tick(copied) == []


def test_a_changed_mutant_is_all_that_is_asked_for(copied: Any) -> None:
    copied.edit("other/case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    assert tick(copied) == [(("raw_results",), "other|idle")]


def test_analysis_is_asked_for_when_its_results_are_there_and_only_where_it_is_stale(copied: Any) -> None:
    copied.edit("other/subsets.yaml", "tasks: [greet, count]", "tasks: [count, greet]")
    assert tick(copied) == [(("subset_scores", "coverage", "correlation"), "other")]


def test_changed_scoring_starts_with_the_kills(copied: Any, small: ModuleType) -> None:
    copied.edit("analysis.yaml", "{name: deterministic}", "{name: deterministic}, min_pass_share: 0.5")
    assert sorted(tick(copied)) == sorted((("mutant_scores",), key) for key in small.SCORED)


def test_changed_correlation_leaves_scores_and_coverage_alone(copied: Any) -> None:
    copied.edit("analysis.yaml", "seed: 1", "seed: 2")
    assert tick(copied) == [(("correlation",), "tiny"), (("correlation",), "other")]


def test_an_experiment_that_lacks_only_its_seal_is_sealed(copied: Any) -> None:
    (copied.output / "experiment.json").unlink()
    assert tick(copied) == [(("execution_manifest", "report"), None)]


def test_what_is_queued_or_running_is_not_asked_for_again(copied: Any) -> None:
    copied.edit("other/case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    copied.instance.create_run_for_job(
        copied.definitions.resolve_implicit_global_asset_job_def(),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": "other|idle"},
        asset_selection=frozenset({dg.AssetKey("raw_results")}),
    )
    assert tick(copied) == []


UNITS = [Unit(("raw_results",), key) for key in ("a|baseline", "a|x", "a|y")] + [Unit(("correlation",), "b")]


def test_caps_count_partitions_and_estimated_cost_and_say_what_is_left() -> None:
    costs = {UNITS[0]: Estimate(2.0), UNITS[1]: Estimate(3.0), UNITS[2]: Estimate(1.0), UNITS[3]: Estimate()}
    found = choose(UNITS, (), Nightly(max_runs=2), costs.__getitem__)
    assert (found.units, found.n_left) == (tuple(UNITS[:2]), 2)
    assert found.told == ("2 partitions are left for the next tick: at most 2 runs",)
    # x is too dear after the baseline; y still fits, and what costs nothing always does.
    found = choose(UNITS, (), Nightly(max_cost_usd=3.5), costs.__getitem__)
    assert (found.units, found.n_left) == ((UNITS[0], UNITS[2], UNITS[3]), 1)
    found = choose(UNITS, {("raw_results", "a|baseline")}, Nightly(max_runs=1), costs.__getitem__)
    assert (found.units, found.n_left) == ((UNITS[1],), 2)


def test_where_nothing_says_what_trials_cost_a_limit_by_cost_lets_one_partition_a_tick_find_out() -> None:
    costs = dict.fromkeys(UNITS[:3], Estimate(None)) | {UNITS[3]: Estimate()}
    found = choose(UNITS, (), Nightly(max_cost_usd=5), costs.__getitem__)
    assert (found.units, found.n_left) == ((UNITS[0], UNITS[3]), 2)
    assert "no trial says yet what it costs, so the limit of 5 USD cannot be kept" in found.told[1]
    assert choose(UNITS, (), Nightly(), costs.__getitem__).units == tuple(UNITS)


def test_coverage_by_a_model_is_counted_under_the_limit_and_the_rest_of_its_case_is_free() -> None:
    case = Unit(CASE_ASSETS, "b")
    for own, expected in ((Estimate(2.0), case), (Estimate(9.0), Unit(("subset_scores",), "b"))):
        found = choose([case], (), Nightly(max_cost_usd=5), lambda _, own=own: own)
        assert found.units == (expected,)


@pytest.mark.parametrize(
    ("limit", "is_asked"), [("", False), (", max_cost_usd: 2.5", True), (", max_cost_usd: 9", False)]
)
def test_a_model_without_a_bound_is_left_to_a_person(
    copied: Any, make_shell: Callable[..., Any], limit: str, is_asked: bool
) -> None:
    judge = f"\n  - {{name: judge, metric: model_judge, settings: {{model: m, items: [{{name: a, text: a}}]{limit}}}}}"
    copied.edit("analysis.yaml", "- name: synthetic", f"- name: synthetic{judge}")
    shell = make_shell(copied.experiment, nightly=Nightly(max_cost_usd=5))
    expected = [(("coverage", "correlation"), "tiny"), (("coverage", "correlation"), "other")] if is_asked else []
    assert tick(shell) == expected
    if not limit:
        assert "nothing says what metric judge may cost" in (evaluate(shell).skip_message or "")


def test_damaged_evidence_of_one_variant_stops_no_other(copied: Any, make_shell: Callable[..., Any]) -> None:
    for case in ("tiny", "other"):
        copied.edit(f"{case}/case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: other}")
    budget = "budget: {max_cost_usd: 50, cost_bound_per_trial_usd: 1}"
    copied.edit("execution.yaml", "reward_key: reward", f"reward_key: reward\n{budget}")
    shell = make_shell(copied.experiment, nightly=Nightly(max_cost_usd=5))
    assert tick(shell) == [(("raw_results",), "tiny|lazy"), (("raw_results",), "other|idle")]
    (job,) = (shell.output / "execution" / "tiny" / "lazy").glob("*/jobs/run-1")
    job.with_name("run-7").mkdir()
    (job.with_name("run-7") / "greet__x").mkdir()
    assert tick(shell) == [(("raw_results",), "other|idle")]
    estimate = estimates(shell.definitions.resources["experiment"].open())
    assert "run-7" in estimate(Unit(("raw_results",), "tiny|lazy")).refused


def test_files_that_cannot_be_loaded_are_a_reason_to_ask_for_nothing(shell: Any) -> None:
    shell.edit("tiny/case.yaml", "agent: {name: nop}", "agent: {name: nope}", sign=False)
    told = evaluate(shell).skip_message
    assert told.startswith("the experiment cannot be loaded as it is now: ")
    assert "tiny/case.yaml" in told
