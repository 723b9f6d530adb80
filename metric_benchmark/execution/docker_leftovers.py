# SPDX-License-Identifier: Apache-2.0
"""Finds and removes containers, networks and volumes of Docker that a killed run left; nobody else's.

The overlay given to every Compose project labels what belongs to a run with its evidence, its variant and the process
that runs it. A separate environment of a task's verifier gets no overlay from Harbor; it is found by the trial's name.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metric_benchmark.evidence.owners import Owner, me, parse_owner

EVIDENCE, VARIANT, OWNER = "metric-benchmark.evidence", "metric-benchmark.variant", "metric-benchmark.owner"
_PROJECT, _FILES = "com.docker.compose.project", "com.docker.compose.project.config_files"
_ANSWER_S = 60.0

type Labels = Mapping[str, str]


@dataclass(frozen=True)
class Removed:
    """What was removed, by Docker's names."""

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()

    @property
    def n_all(self) -> int:
        """How many things that were."""
        return len(self.containers) + len(self.networks) + len(self.volumes)


def label_variables(evidence: Path, variant_key: str) -> dict[str, str]:
    """Returns the variables the overlay makes labels of, but for the owner (`owner_variable`)."""
    return {"METRIC_BENCHMARK_EVIDENCE": str(evidence.resolve()), "METRIC_BENCHMARK_VARIANT": variant_key}


def owner_variable() -> dict[str, str]:
    """Returns the variable that says which process runs the job: this one."""
    return {"METRIC_BENCHMARK_OWNER": me().to_json()}


def remove_of_variant(evidence: Path, variant_key: str, trials: Iterable[str] = ()) -> Removed:
    """Removes what is left of a variant's runs. The caller holds the variant's lock, so that nothing of it runs.

    Args:
        evidence: the evidence root.
        variant_key: `case|variant`.
        trials: names of trials that may have been cut short.
    """
    wanted = label_variables(evidence, variant_key)
    prefixes = tuple(f"{_project_name(trial)}__verifier" for trial in trials)

    def is_ours(labels: Labels) -> bool:
        owner = parse_owner(labels.get(OWNER, ""))
        if owner is not None:
            # An engine may serve several machines with paths of one name. On one machine, a path that Docker mounts
            # is the same in every container, and a run that was killed may have been in another one.
            is_here = owner.machine == me().machine
            return is_here and [labels.get(EVIDENCE), labels.get(VARIANT)] == list(wanted.values())
        is_harbors = "harbor/environments/docker" in labels.get(_FILES, "harbor/environments/docker")
        return bool(prefixes) and is_harbors and labels.get(_PROJECT, "").startswith(prefixes)

    return _remove(is_ours, with_unlabelled=bool(prefixes))


def remove_of_dead_owners() -> Removed:
    """Removes what any run on this machine left whose process is gone."""

    def is_left(labels: Labels) -> bool:
        owner: Owner | None = parse_owner(labels.get(OWNER, ""))
        return owner is not None and owner.is_gone

    return _remove(is_left, with_unlabelled=False)


def _remove(is_ours: Callable[[Labels], bool], *, with_unlabelled: bool) -> Removed:
    label = _PROJECT if with_unlabelled else OWNER
    containers = _labelled("container", ["container", "ls", "--all"], label)
    networks = _labelled("network", ["network", "ls"], label)
    projects = {
        labels[_PROJECT]
        for labels in (*containers.values(), *networks.values())
        if labels.get(_PROJECT) and is_ours(labels)
    }
    found: dict[str, list[str]] = {"container": [], "network": [], "volume": []}
    for project in sorted(projects):
        # Services a task adds, and networks between them, have the project's label alone.
        for kind in found:
            everything = ["--all"] if kind == "container" else []
            listed = _docker(kind, "ls", *everything, "--quiet", "--filter", f"label={_PROJECT}={project}")
            found[kind] += listed.split()
    removed = {
        "container": _each(found["container"], "container", "rm", "--force", "--volumes"),
        "network": _each(found["network"], "network", "rm"),
        "volume": _each(found["volume"], "volume", "rm"),
    }
    return Removed(removed["container"], removed["network"], removed["volume"])


def _labelled(kind: str, listing: list[str], label: str) -> dict[str, Labels]:
    ids = _docker(*listing, "--quiet", "--filter", f"label={label}").split()
    if not ids:
        return {}
    try:
        inspected: list[dict[str, Any]] = json.loads(_docker(kind, "inspect", *ids) or "[]")
    except ValueError:
        return {}
    return {item["Id"]: (item.get("Config", item).get("Labels") or {}) for item in inspected}


def _each(names: list[str], *command: str) -> tuple[str, ...]:
    """Removes one thing at a time, so that one that is gone already does not keep the others."""
    return tuple(name for name in dict.fromkeys(names) if _docker(*command, name))


def _docker(*arguments: str) -> str:
    """Asks Docker; empty where it has no answer: a run that needs it says so by itself."""
    try:
        answer = subprocess.run(
            ["docker", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    # `inspect` of several prints those that are there and fails for those that have gone meanwhile.
    return answer.stdout if answer.returncode == 0 or "inspect" in arguments else ""


def _project_name(session: str) -> str:
    """Returns the Compose project Harbor makes of a name."""
    name = re.sub(r"[^a-z0-9_-]", "-", session.lower())
    return name if re.match(r"[a-z0-9]", name) else f"0{name}"
