# SPDX-License-Identifier: Apache-2.0
"""The folder a foreign metric works in: copies of its inputs and nothing else, and the request that describes them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from metric_benchmark.coverage.protocol import MetricRequest, Trace
from metric_benchmark.coverage.traces import BaselineTrial, read_trace
from metric_benchmark.errors import MetricError
from metric_benchmark.records.trajectories import trajectory_files

REQUEST_SCHEMA = "metric-benchmark/coverage-request/v1"

_TRACES = "traces"


def is_safe_name(name: str) -> bool:
    """Tells whether a file may be given under this name: relative, inside the folder, not in the way of traces."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and path.parts[0] != _TRACES


def fill_workspace(folder: Path, request: MetricRequest, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Copies a request's traces and files into an empty folder.

    Returns:
        The request as JSON values; paths in it are relative to the folder.
    """
    traces: dict[str, list[dict[str, Any]]] = {}
    for trace in request.traces:
        where = f"{_TRACES}/{trace.task}/{trace.attempt}"
        for file in trajectory_files(trace.folder):
            target = folder / where / file.relative_to(trace.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        traces.setdefault(trace.task, []).append(
            {
                "attempt": trace.attempt,
                "path": f"{where}/{trace.path.relative_to(trace.folder).as_posix()}",
                "sha256": trace.sha256,
                "folder": where,
                "digest": trace.digest,
            }
        )
    for name, path in request.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            shutil.copy(path, target)
    return {
        "schema": REQUEST_SCHEMA,
        "case": request.case_id,
        "description": dict(request.description),
        "tasks": [
            {"id": task, "traces": traces.get(task, []), "unmeasured": request.unmeasured.get(task)}
            for task in request.tasks
        ],
        "subsets": {subset: list(tasks) for subset, tasks in request.subsets.items()},
        "settings": dict(settings),
        "files": {name: name for name in request.files},
    }


def read_workspace(folder: Path, value: Mapping[str, Any], settings: object) -> MetricRequest:
    """Turns a filled folder and its request back into what a metric written in Python is given."""
    tasks: list[dict[str, Any]] = value["tasks"]
    traces: list[Trace] = []
    for task in tasks:
        for given in task["traces"]:
            trial = BaselineTrial(task["id"], given["attempt"], "valid", folder / given["folder"], given["digest"])
            traces.append(read_trace(trial))
    return MetricRequest(
        case_id=value["case"],
        description=value["description"],
        tasks=tuple(task["id"] for task in tasks),
        traces=tuple(traces),
        unmeasured={task["id"]: task["unmeasured"] for task in tasks if task["unmeasured"] is not None},
        subsets={subset: tuple(members) for subset, members in value["subsets"].items()},
        settings=settings,
        files={name: folder / path for name, path in value["files"].items()},
    )


def check_names(metric: str, names: Mapping[str, Path]) -> None:
    """Refuses names under which files cannot be given.

    Raises:
        MetricError: a name leaves the folder or is in the way.
    """
    for name in names:
        if not is_safe_name(name):
            raise MetricError(
                f"metric {metric}: asked for a file as {name!r}, expected a relative path inside its folder"
            )
