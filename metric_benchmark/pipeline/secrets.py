# SPDX-License-Identifier: Apache-2.0
"""Which variables of the environment hold secrets of an experiment, and the search for their values before a seal."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from metric_benchmark.config import Experiment
from metric_benchmark.config.fields import REFERENCE_OR_DEFAULT, secret_parts
from metric_benchmark.errors import Problem, SecretError
from metric_benchmark.evidence.secrets import MIN_LENGTH, SecretSearch, is_searchable
from metric_benchmark.records.validation import SecretState

#: Harbor's agents and LiteLLM take keys of these names from the environment without being told to.
_PROVIDER_KEY = re.compile(r"[A-Z0-9_]+(_API_KEY|_ACCESS_TOKEN|_AUTH_TOKEN|_OAUTH_TOKEN|_SECRET_ACCESS_KEY)")
_MIN_PROVIDER_KEY = 16
_MOST_NAMED = 50


def referenced_variables(experiment: Experiment) -> tuple[str, ...]:
    """Returns the variables an experiment's files refer to: agents (wrapped ones too), environment, metrics, tasks.

    Of tasks, what is there is read; an analysis may have none.
    """
    names: set[str] = set()
    for source in (experiment.execution_source, experiment.analysis_source, *(c.source for c in experiment.cases)):
        names |= set(_references(source.value))
    for metric in experiment.analysis.coverage:
        # A command metric is given variables by name.
        given = metric.settings.get("env")
        if isinstance(given, list):
            names |= {name for name in given if isinstance(name, str)}  # pyright: ignore[reportUnknownVariableType]
    for case in experiment.cases:
        for task in case.config.tasks:
            path = case.path_of(task) / "task.toml"
            if path.is_file():
                names |= set(REFERENCE_OR_DEFAULT.findall(path.read_text(encoding="utf-8", errors="replace")))
    return tuple(sorted(names))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for child in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _references(child)
    elif isinstance(value, str):
        yield from REFERENCE_OR_DEFAULT.findall(value)


def search_states(
    names: Iterable[str], environ: Mapping[str, str] = os.environ, *, public: Container[str] = ()
) -> dict[str, SecretState]:
    """Says of each variable whether its value is searched; of those of `public` only keys and passwords in it are."""
    return {name: _state(_secrets(name, environ, public)) for name in names}


def _secrets(name: str, environ: Mapping[str, str], public: Container[str]) -> list[str] | None:
    """Returns what of a variable's value nobody may read; None where all of it is public."""
    value = environ.get(name) or ""
    return [value] if name not in public else secret_parts(value) or None


def _state(secrets: Sequence[str] | None) -> SecretState:
    if secrets is None:
        return "public"
    if not any(secrets):
        return "not_set"
    return "searched" if all(is_searchable(secret) for secret in secrets) else "too_short"


def describe_states(states: Mapping[str, SecretState]) -> list[str]:
    """Says which variables were not searched, and why; empty when all were."""
    reasons = {
        "not_set": "not set here, so its value was not searched in the evidence",
        "too_short": f"shorter than {MIN_LENGTH} characters, so its value was not searched in the evidence",
    }
    return [f"${{{name}}} is {reasons[state]}" for name, state in states.items() if state in reasons]


def search_secrets(
    names: Iterable[str],
    places: Iterable[Path],
    *,
    without: Iterable[Path] = (),
    public: Container[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> dict[str, SecretState]:
    """Searches evidence for the values of variables, and for API keys of providers that are set.

    Args:
        names: the variables the experiment refers to.
        places: folders and files.
        without: folders to leave out.
        public: variables whose values may stand there, but for keys of the usual forms and passwords in URLs.
        environ: where the values are.

    Returns:
        Of each variable of `names`, whether its value was searched.

    Raises:
        SecretError: values were found; every file and variable is named, no value is.
        EvidenceError: a file cannot be read.
    """
    secrets = {name: _secrets(name, environ, public) for name in names}
    states: dict[str, SecretState] = {name: _state(found) for name, found in secrets.items()}
    values = {name: found for name, found in secrets.items() if found}
    values |= {
        name: [value]
        for name, value in environ.items()
        if _PROVIDER_KEY.fullmatch(name) and len(value) >= _MIN_PROVIDER_KEY
    }
    search = SecretSearch(values)
    hits = [Problem(str(hit.path), hit.message()) for place in places for hit in search.search(place, without=without)]
    if hits:
        more = [f"and {len(hits) - _MOST_NAMED} more"] if len(hits) > _MOST_NAMED else []
        raise SecretError(
            [
                *hits[:_MOST_NAMED],
                *more,
                "nothing was sealed. Take the value for known to others and replace it at its provider; then blank it "
                "where it is in a log, or remove the folder of the variant (execution/<case>/<variant>), and run "
                "again. A variable that holds no secret may be listed under `public_variables` in the execution file",
            ]
        )
    return states
