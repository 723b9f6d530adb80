# SPDX-License-Identifier: Apache-2.0
"""Tells someone about failed runs: a callable or a webhook, named in the settings; off unless one is named."""

import http.client
import importlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import dagster as dg

from metric_benchmark.errors import ConfigError

#: What a hook is told: experiment, Dagster's run id, job, partition, assets, message, tags.
type Told = dict[str, Any]
type Hook = Callable[[Told], object] | str

#: Dagster tells of five failures in one tick and ends it after a minute: all that is tried for each must fit.
TIMEOUT_S = 3.0
#: Before a webhook is tried again.
PAUSES_S = (0.5, 1.5)


def failure_sensor(experiment: str, hook: Hook) -> dg.SensorDefinition:
    """Makes the sensor that passes failed runs of this code location on.

    Raises:
        ConfigError: the hook is neither a callable, nor an import path of one, nor the URL of a webhook.
    """
    tell = resolve_hook(hook)

    @dg.run_failure_sensor(  # pyright: ignore[reportUnknownMemberType]
        name="tell_failures",
        description="Tells the configured hook about every failed run of this code location.",
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def tell_failures(context: dg.RunFailureSensorContext) -> None:
        # What it raises fails the sensor's tick, which the UI shows; the next tick goes on with the next failure.
        tell(describe_failure(experiment, context))

    return tell_failures


def resolve_hook(hook: Hook) -> Callable[[Told], object]:
    """Returns what is called with each failure.

    Raises:
        ConfigError: it cannot be called.
    """
    if not isinstance(hook, str):
        return hook
    if hook.startswith(("http://", "https://")):
        return lambda told: post(hook, told)
    module, _, name = hook.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"failure hook {hook!r}: {error}; expected 'module:function' that can be imported, or an http(s) URL"
        ) from None
    if not callable(found):
        raise ConfigError(f"failure hook {hook!r}: found {type(found).__name__}; expected a function")
    return found


def describe_failure(experiment: str, context: dg.RunFailureSensorContext) -> Told:
    """Says what failed, in values that JSON has."""
    run = context.dagster_run
    reasons: list[str] = []
    for event in context.get_step_failure_events():
        data: Any = event.event_specific_data
        failure = data.user_failure_data
        reasons.append(str(failure.description if failure else data.error.message if data.error else event.message))
    return {
        "experiment": experiment,
        "run": run.run_id,
        "job": run.job_name,
        "partition": run.tags.get("dagster/partition"),
        "assets": sorted(key.to_user_string() for key in run.asset_selection or ()),
        "message": "; ".join(reasons) or context.failure_event.message,
        "tags": dict(run.tags),
    }


def post(url: str, told: Told, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Sends JSON to a webhook; one that does not answer, is busy or has a fault is tried again.

    Raises:
        ConnectionError: it was not taken. The message does not have the URL, which may hold a token.
    """
    for pause_s in (*PAUSES_S, None):
        try:
            request = urllib.request.Request(url, json.dumps(told).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            error.close()
            problem, may_pass = f"it answers {error.code} {error.reason}", error.code == 429 or error.code >= 500
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem, may_pass = str(getattr(error, "reason", type(error).__name__)), isinstance(error, OSError)
        if pause_s is None or not may_pass:
            raise ConnectionError(f"the webhook at {_host(url)} did not take it: {problem}")
        sleep(pause_s)


def _host(url: str) -> str:
    try:
        return urllib.parse.urlsplit(url).hostname or "?"
    except ValueError:
        return "?"
