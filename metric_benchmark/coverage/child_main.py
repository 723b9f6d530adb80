# SPDX-License-Identifier: Apache-2.0
"""The child process a user's metric runs in: reads one order on stdin, answers with one line of JSON on stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metric_benchmark.coverage.answer_json import answer_to_json
from metric_benchmark.coverage.answers import check_answer
from metric_benchmark.coverage.loading import load_class, settings_model, validate_settings
from metric_benchmark.coverage.workspace import read_workspace
from metric_benchmark.errors import ConfigError, MetricBenchmarkError


def _describe(name: str, cls: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Tells what the parent must know of a class before it asks it anything."""
    valid = validate_settings(f"metric {name}", settings_model(cls), settings)
    wanted: dict[str, str] = {}
    if hasattr(cls, "find_files"):
        # The class names its files; the parent finds them, as here there is nothing to find.
        wanted = {key: str(path) for key, path in cls.find_files(valid, Path).items()}
    label = getattr(cls, "label", None)
    return {
        "settings": valid.model_dump(mode="json"),
        "label": None if label is None else str(label),
        "needs_traces": bool(getattr(cls, "needs_traces", True)),
        "needs_network": bool(getattr(cls, "needs_network", False)),
        "files": wanted,
    }


def _measure(name: str, cls: type[Any], order: Mapping[str, Any]) -> dict[str, Any]:
    settings = validate_settings(f"metric {name}", settings_model(cls), order["settings"])
    request = read_workspace(Path.cwd(), order["request"], settings)
    return answer_to_json(check_answer(name, cls().measure(request), request))


def _place(error: BaseException, code: str | None) -> str:
    """Names the file and line of the metric's own code that an error comes through last; empty where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code is not None and Path(frame.filename).is_relative_to(code)]
    if code is not None and own:
        return f"{Path(own[-1].filename).relative_to(code)}:{own[-1].lineno}"
    ours = Path(__file__).parents[1]
    foreign = [frame for frame in frames if not Path(frame.filename).is_relative_to(ours)]
    return f"{foreign[-1].filename}:{foreign[-1].lineno}" if foreign else ""


def main() -> None:
    """Carries out one order: `{action, name, target, settings, code?, request?}`."""
    # What the metric prints must not end up in the answer.
    answer_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order: dict[str, Any] = json.load(sys.stdin)
    if order.get("code"):
        sys.path.insert(0, order["code"])
    reply: dict[str, Any]
    try:
        cls = load_class(f"metric {order['name']}", order["target"])
        if order["action"] == "describe":
            reply = {"description": _describe(order["name"], cls, order["settings"])}
        else:
            reply = {"answer": _measure(order["name"], cls, order)}
    except MetricBenchmarkError as error:
        kind = "config" if isinstance(error, ConfigError) else "metric"
        reply = {"refused": kind, "problems": [[p.place, p.message] for p in error.problems]}
    except Exception as error:  # noqa: BLE001 - a metric may do anything; the parent reports it
        traceback.print_exc()
        reply = {"failed": f"{type(error).__name__}: {error}", "at": _place(error, order.get("code"))}
    with answer_to:
        json.dump(reply, answer_to)


if __name__ == "__main__":
    main()
