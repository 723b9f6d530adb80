# SPDX-License-Identifier: Apache-2.0
"""The command that has a running Dagster do the work: `backfill`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from metric_benchmark.cli.console import note, plural, say, say_json, say_table
from metric_benchmark.cli.options import ExperimentArgument, JsonOption, OutputOption, RunIdOption
from metric_benchmark.webserver import DEFAULT_URL

if TYPE_CHECKING:
    from metric_benchmark.pipeline import ExperimentRun
    from metric_benchmark.pipeline.status import PartitionStatus
    from metric_benchmark.webserver import Progress, WebServer

#: What ends an experiment; it is asked for when everything before it is.
_END = ("execution_manifest", "report")
#: The variants all others of a case are compared with.
_SHARED = ("baseline", "screening")
_TAGS = {"metric_benchmark/trigger": "backfill"}


class Wanted(StrEnum):
    """Which partitions are launched."""

    MISSING = "missing"
    FAILED = "failed"
    STALE = "stale"
    ALL = "all"


#: Partition keys by asset; None for one without partitions.
type Selection = dict[str, list[str] | None]


def add_commands(app: typer.Typer) -> None:
    """Adds this module's commands."""
    app.command(
        short_help="Launch a Dagster backfill of what is not fresh, and follow it.",
        epilog="Example: metric-benchmark backfill my-experiment --output runs/mine\n\n"
        "Only what failed: metric-benchmark backfill my-experiment --output runs/mine --state failed",
    )(backfill)


def backfill(
    experiment: ExperimentArgument,
    output: OutputOption,
    states: Annotated[
        list[Wanted] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only partitions that are missing, failed or stale, or all; repeatable (default: what is not fresh).",
            show_default=False,
        ),
    ] = None,
    cases: Annotated[
        list[str] | None, typer.Option("--case", metavar="ID", help="Only this case; repeatable.", show_default=False)
    ] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="ID",
            help="Only this variant and what depends on it; repeatable.",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", help="Dagster's web server.", envvar="METRIC_BENCHMARK_DAGSTER_URL"),
    ] = DEFAULT_URL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be launched and stop.")] = False,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for the end and show progress.")] = True,
    run_id: RunIdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Launches a Dagster backfill of what is missing, failed or stale, and follows it.

    The partitions are those `metric-benchmark status` lists, with all that depends on them; a server that has the
    experiment write other evidence, or under another run id, is refused. An interrupt ends the
    watching only; the backfill goes on and can be cancelled in Dagster's UI.
    """
    from metric_benchmark.errors import ExecutionError
    from metric_benchmark.experiment import open_run
    from metric_benchmark.pipeline.status import experiment_status, is_sealed
    from metric_benchmark.webserver import WebServer

    run = open_run(experiment, output, run_id=run_id, level="analysis")
    status = experiment_status(run)
    _check_names(run, cases or [], variants or [])
    selection = select(
        status, [state.value for state in states or ()], cases or [], variants or [], sealed=is_sealed(run, status)
    )
    if not selection or dry_run:
        _show_selection(selection, as_json)
        return
    server = WebServer(url)
    location = server.find(run.experiment.name)
    server.check_evidence(location, run.root.path, run.run_id)
    unknown = sorted(
        set(selection.get("raw_results") or ()) - set(server.partition_keys(location.assets["raw_results"]))
    )
    if unknown:
        note("loading the code location again: it does not know all partitions yet")
        server.reload(location)
    server.observe(location)
    n = sum(1 if keys is None else len(keys) for keys in selection.values())
    backfill_id = server.launch_backfill(
        location, selection, title=f"{run.experiment.name}: {plural(n, 'partition')}", tags=_TAGS
    )
    link = f"{server.url}/runs/b/{backfill_id}"
    note(f"backfill {backfill_id} of {plural(n, 'partition')}: {link}")
    if not follow:
        _say(backfill_id, link, None, as_json)
        return
    last = _follow(server, backfill_id)
    _say(backfill_id, link, last, as_json)
    if last.status != "COMPLETED_SUCCESS":
        raise ExecutionError(
            f"{link}: ended as {last.status}: {last.n_failed} of {plural(last.n_targeted, 'partition')} failed or wait "
            f"for one that did{f'; {last.error}' if last.error else ''}; `metric-benchmark status` says what is open"
        )


def select(
    status: Sequence[PartitionStatus],
    states: Sequence[str],
    cases: Sequence[str],
    variants: Sequence[str],
    *,
    sealed: bool,
) -> Selection:
    """Chooses partitions by asset.

    Args:
        status: what there is.
        states: wanted states; empty for all but fresh; `all` takes fresh ones too.
        cases: wanted cases; empty for all.
        variants: wanted variants; empty for all. What belongs to a case follows where one of its variants is wanted.
        sealed: whether the experiment's seal is current.
    """
    wanted = set(states) or {"missing", "failed", "stale"}
    chosen: Selection = {}
    cases_touched: set[str] = set()
    keys_touched: set[str] = set()
    n_left = 0
    for found in status:
        case_id, _, variant_id = found.key.partition("|")
        is_in = not cases or case_id in cases
        is_named = not variants or variant_id in variants
        is_wanted = is_in and is_named and ("all" in wanted or found.state in wanted)
        # What is computed from something that is run again is out of date by then.
        upstream = {found.key, *(f"{case_id}|{name}" for name in _SHARED)}
        is_touched = bool(upstream & keys_touched) if variant_id else case_id in cases_touched
        is_behind = found.stage != "raw_results" and found.state != "fresh" and is_touched
        if is_wanted or is_behind:
            keys = chosen.setdefault(found.stage, [])
            assert keys is not None
            keys.append(found.key)
            cases_touched.add(case_id)
            keys_touched.add(found.key)
        elif found.state != "fresh":
            n_left += 1
    if not n_left and (chosen or not sealed):
        chosen |= dict.fromkeys(_END)
    return chosen


def _check_names(run: ExperimentRun, cases: Sequence[str], variants: Sequence[str]) -> None:
    from metric_benchmark.errors import ConfigError
    from metric_benchmark.variants import variant_roles

    by_case = {
        case.case_id: variant_roles(case.config, run.experiment.execution.roles) for case in run.experiment.cases
    }
    looked_at = [case_id for case_id in cases if case_id in by_case] or list(by_case)
    known = {variant for case_id in looked_at for variant in by_case[case_id]}
    problems = [
        f"no case {case_id!r}; the experiment has: {', '.join(by_case)}" for case_id in cases if case_id not in by_case
    ]
    problems += [f"no variant {v!r}; there are: {', '.join(sorted(known))}" for v in variants if v not in known]
    if problems:
        raise ConfigError(problems)


def _show_selection(selection: Selection, as_json: bool) -> None:
    if as_json:
        say_json({"backfill": None, "partitions": selection})
    elif not selection:
        say("everything is fresh: nothing to launch")
    else:
        say_table(["asset", "partition"], [[asset, key] for asset, keys in selection.items() for key in keys or ["-"]])


def _follow(server: WebServer, backfill_id: str) -> Progress:
    last: Progress | None = None
    with _bar(is_terminal=sys.stderr.isatty()) as draw:
        try:
            for last in server.follow(backfill_id):
                draw(last)
        except KeyboardInterrupt:
            note(f"no longer watching; the backfill goes on: {server.url}/runs/b/{backfill_id}")
            raise
    assert last is not None
    return last


@contextmanager
def _bar(*, is_terminal: bool) -> Generator[Callable[[Progress], None]]:
    """Draws a bar on a terminal; elsewhere nothing, so that a log holds only the end."""
    if not is_terminal:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("partitions"))
    with Bars(*columns, TimeElapsedColumn(), TextColumn("{task.fields[told]}"), console=Console(stderr=True)) as bars:
        bar = bars.add_task("starting", total=None, told="")

        def draw(found: Progress) -> None:
            running = [count.asset for count in found.counts if count.n_running]
            told = f"[red]{found.n_failed} failed" if found.n_failed else ""
            bars.update(
                bar,
                description=", ".join(running) or found.status.replace("_", " ").lower(),
                total=found.n_targeted or None,
                completed=found.n_done + found.n_failed,
                told=told,
            )

        yield draw


def _say(backfill_id: str, link: str, last: Progress | None, as_json: bool) -> None:
    status = "launched" if last is None else last.status
    if as_json:
        counts: list[Mapping[str, object]] = [] if last is None else [asdict(count) for count in last.counts]
        say_json({"backfill": backfill_id, "url": link, "status": status, "assets": counts})
        return
    if last is None:
        say(f"launched: {link}")
        return
    rows = [[c.asset, c.n_targeted, c.n_done, c.n_failed] for c in last.counts]
    say_table(["asset", "partitions", "done", "failed"], rows)
    say(f"{status.replace('_', ' ').lower()}: {link}")
