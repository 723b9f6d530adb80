# SPDX-License-Identifier: Apache-2.0
"""Which containers and networks are ours to remove, on an engine that is made up."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from metric_benchmark.evidence.owners import Owner, me
from metric_benchmark.execution import docker_leftovers
from metric_benchmark.execution.docker_leftovers import (
    EVIDENCE,
    OWNER,
    VARIANT,
    Removed,
    label_variables,
    owner_variable,
    remove_of_dead_owners,
    remove_of_variant,
)
from metric_benchmark.execution.environments import DOCKER_OVERLAY

PROJECT, FILES = "com.docker.compose.project", "com.docker.compose.project.config_files"
HERE = me()
DEAD = replace(HERE, ticks=HERE.ticks - 1)
ELSEWHERE = replace(HERE, place="another machine")


@dataclass
class Engine:
    """What an engine holds, by kind and name, and answers to as much of the command line as is used."""

    things: dict[str, dict[str, dict[str, str]]] = field(
        default_factory=lambda: {"container": {}, "network": {}, "volume": {}}
    )

    def add(self, kind: str, name: str, **labels: str) -> None:
        self.things[kind][name] = {key.replace("__", "."): value for key, value in labels.items()}

    def ask(self, *words: str) -> str:
        kind, verb, *rest = words
        have = self.things[kind]
        if verb == "inspect":
            told = [{"Id": name, "Labels": have[name]} for name in rest]
            return json.dumps([{**item, "Config": item} if kind == "container" else item for item in told])
        if verb == "rm":
            return f"{rest[-1]}\n" if have.pop(rest[-1], None) is not None else ""
        assert verb == "ls"
        key, _, value = rest[-1].removeprefix("label=").partition("=")
        return "\n".join(name for name, labels in have.items() if key in labels and value in ("", labels[key]))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(docker_leftovers, "_docker", made.ask)
    return made


def ours(
    owner: Owner, evidence: str = "/out", variant: str = "desk|short", project: str = "one__a__env"
) -> dict[str, str]:
    return {EVIDENCE: evidence, VARIANT: variant, OWNER: owner.to_json(), PROJECT: project}


def test_a_variants_containers_go_with_all_of_their_project(engine):
    engine.add("container", "main", **ours(DEAD))
    engine.add("container", "database", **{PROJECT: "one__a__env"})
    engine.add("network", "default", **ours(DEAD))
    engine.add("network", "backend", **{PROJECT: "one__a__env"})
    engine.add("volume", "data", **{PROJECT: "one__a__env"})
    engine.add("container", "stranger", **{PROJECT: "shop"})
    assert remove_of_variant(Path("/out"), "desk|short") == Removed(
        ("main", "database"), ("default", "backend"), ("data",)
    )
    assert list(engine.things["container"]) == ["stranger"]


def test_a_run_that_was_killed_in_another_container_of_this_machine_is_cleaned_up_after(engine):
    """Every run of the Compose deployment is a container of its own."""
    machine = HERE.place.partition("/")[0]
    engine.add("container", "main", **ours(replace(HERE, place=f"{machine}/pid:[1]")))
    assert remove_of_variant(Path("/out"), "desk|short") == Removed(("main",))
    assert remove_of_dead_owners() == Removed()


def test_a_network_alone_is_enough_to_find_a_project(engine):
    """The run died before its first container was made."""
    engine.add("network", "default", **ours(DEAD))
    assert remove_of_variant(Path("/out"), "desk|short") == Removed(networks=("default",))


@pytest.mark.parametrize(
    "labels",
    [
        ours(HERE, evidence="/other"),
        ours(HERE, variant="desk|blind"),
        # An engine may serve several machines on which paths have the same names.
        ours(ELSEWHERE),
        {PROJECT: "one__a__env"},
        {**ours(HERE), OWNER: "not an owner"},
    ],
)
def test_what_is_not_the_variants_is_not_touched(engine, labels):
    engine.add("container", "other", **labels)
    assert remove_of_variant(Path("/out"), "desk|short") == Removed()
    assert "other" in engine.things["container"]


def test_only_dead_owners_of_this_machine_are_cleaned_up_after(engine):
    engine.add("container", "dead", **ours(DEAD, project="a"))
    engine.add("container", "living", **ours(HERE, project="b"))
    engine.add("container", "far", **ours(ELSEWHERE, project="c"))
    engine.add("container", "stranger", **{PROJECT: "d"})
    assert remove_of_dead_owners() == Removed(containers=("dead",))
    assert list(engine.things["container"]) == ["living", "far", "stranger"]


def test_a_separate_verifier_is_found_by_its_trial_and_by_whose_files_it_is_made_of(engine):
    harbors = "/lib/harbor/environments/docker/docker-compose-prebuilt.yaml"
    engine.add("container", "ours", **{PROJECT: "one__ab1__verifier__trial", FILES: harbors})
    engine.add("container", "theirs", **{PROJECT: "one__ab1__verifier__trial2", FILES: "/home/me/compose.yaml"})
    engine.add("container", "other", **{PROJECT: "one__ab2__verifier__trial", FILES: harbors})
    assert remove_of_variant(Path("/out"), "desk|short", ["one__Ab1"]) == Removed(containers=("ours",))


def test_an_engine_that_does_not_answer_has_nothing_to_remove(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert remove_of_variant(tmp_path, "desk|short", ["one__a"]) == Removed()
    assert remove_of_dead_owners().n_all == 0


def test_the_overlay_labels_container_and_network_with_what_a_run_sets(tmp_path):
    overlay = yaml.safe_load(DOCKER_OVERLAY.read_text())
    variables = {**label_variables(tmp_path, "desk|short"), **owner_variable()}
    wanted = {EVIDENCE, VARIANT, OWNER}
    for labels in (overlay["services"]["main"]["labels"], overlay["networks"]["default"]["labels"]):
        assert set(labels) == wanted
        assert {value.removeprefix("${").removesuffix(":-}") for value in labels.values()} == set(variables)
