# SPDX-License-Identifier: Apache-2.0
"""Subsets are drawn evenly over sizes, without repetition, the same on every machine; their file is what they say."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_benchmark.config import load_experiment
from metric_benchmark.config.subsets import draw_subsets, spread_sizes, write_subsets
from metric_benchmark.errors import ConfigError

TASKS = [f"t{n:02d}" for n in range(20)]


@pytest.mark.parametrize(
    ("n_tasks", "sizes"),
    [(20, (2, 5, 8, 10, 13, 16)), (6, (1, 2, 3, 4, 5)), (2, (1, 2)), (1, (1,)), (100, (10, 24, 38, 52, 66, 80))],
)
def test_sizes_are_spread_from_few_to_most_of_the_tasks(n_tasks, sizes):
    assert spread_sizes(n_tasks) == sizes


@given(st.integers(2, 12), st.integers(0, 5), st.integers(1, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_drawn_is_what_was_asked_for(n_tasks, seed, count, data):
    tasks = TASKS[:n_tasks]
    sizes = data.draw(st.sets(st.integers(1, n_tasks), min_size=1))
    possible = {size: math.comb(n_tasks, size) for size in sizes}
    if count > sum(possible.values()):
        with pytest.raises(ConfigError, match=f"{count} subsets were asked for, but only {sum(possible.values())}"):
            draw_subsets(tasks, seed=seed, count=count, sizes=sorted(sizes))
        return
    drawn = draw_subsets(tasks, seed=seed, count=count, sizes=sorted(sizes))
    assert len(drawn) == len(set(drawn.values())) == count
    by_size = Counter(len(chosen) for chosen in drawn.values())
    assert set(by_size) <= sizes
    for chosen in drawn.values():
        assert list(chosen) == [task for task in tasks if task in chosen]
    # No size has two more than another, unless the smaller one is used up.
    short = [size for size in sizes if by_size[size] < possible[size]]
    assert all(by_size[size] <= by_size[low] + 1 for low in short for size in sizes)


def test_the_same_seed_draws_the_same_and_another_seed_does_not():
    first = draw_subsets(TASKS, seed=1, count=30, sizes=[3, 6])
    assert draw_subsets(TASKS, seed=1, count=30, sizes=[3, 6]) == first
    assert draw_subsets(TASKS, seed=2, count=30, sizes=[3, 6]) != first


def test_another_size_leaves_the_subsets_of_the_others_alone():
    two = draw_subsets(TASKS, seed=1, count=20, sizes=[3, 6])
    three = draw_subsets(TASKS, seed=1, count=30, sizes=[3, 6, 9])
    assert {name: chosen for name, chosen in three.items() if len(chosen) < 9} == two


def test_a_published_draw():
    """Pinned so that a change of the generator cannot pass unseen: manifests of old experiments name it."""
    assert draw_subsets(list("abcdef"), seed=7, count=4, sizes=[2, 3]) == {
        "s2-1": ("a", "c"),
        "s2-2": ("c", "d"),
        "s3-1": ("b", "d", "e"),
        "s3-2": ("a", "d", "f"),
    }


@pytest.mark.parametrize("sizes", [[0], [21], []])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ConfigError, match="expected 1 to 20 tasks a subset"):
        draw_subsets(TASKS, seed=0, count=1, sizes=sizes)


def test_the_file_is_a_manifest_the_experiment_loads(unsigned):
    written = write_subsets(unsigned.folder / "case.yaml", seed=3, count=5, sizes=(1, 2), replace=True)
    assert (written.counts, written.is_changed) == ({1: 3, 2: 2}, True)
    unsigned.sign()
    subsets = load_experiment("exp").cases[0].subsets
    assert subsets.chosen_using == "none"
    assert subsets.generator is not None
    assert subsets.generator["name"] == "size_stratified/1"
    assert (subsets.generator["seed"], subsets.generator["count"], subsets.generator["sizes"]) == (3, 5, [1, 2])
    assert [len(subset.tasks) for subset in subsets.subsets] == [1, 1, 1, 2, 2]


def test_a_file_that_holds_something_else_is_replaced_only_when_asked(unsigned):
    before = unsigned.snapshot()
    with pytest.raises(ConfigError, match=r"subsets\.yaml: exists and `subsets generate` did not write it; .*--force"):
        write_subsets(unsigned.folder / "case.yaml", seed=3, count=5)
    assert unsigned.snapshot() == before
    assert write_subsets(unsigned.folder / "case.yaml", seed=3, count=5, replace=True).is_changed
    assert not write_subsets(unsigned.folder / "case.yaml", seed=3, count=5).is_changed


def test_a_file_drawn_before_is_drawn_again_when_the_tasks_have_changed(unsigned):
    write_subsets(unsigned.folder / "case.yaml", seed=3, count=5, sizes=(1, 2), replace=True)
    unsigned.edit("case.yaml", ("  - id: gamma\n    path: tasks/gamma\n", ""))
    with pytest.raises(ConfigError) as refused:
        unsigned.sign()
    place, _, message = str(refused.value).partition(": subset ")
    assert place.startswith("exp/subsets.yaml:")
    assert message.endswith(
        "task 'gamma', which case 'desk' does not have; run `metric-benchmark subsets generate exp/case.yaml` to draw "
        "them again"
    )
    assert len(refused.value.problems) == 1
    # Two tasks have three different subsets of sizes one and two.
    assert write_subsets(unsigned.folder / "case.yaml", seed=0).counts == {1: 2, 2: 1}
    unsigned.sign()


def test_ids_that_yaml_reads_as_something_else_are_quoted(unsigned):
    unsigned.edit("case.yaml", ("{id: alpha,", "{id: '007',"), ("{id: beta,", "{id: on,"))
    unsigned.edit("case.yaml", ("{id: on,", "{id: 'on',"))
    path = write_subsets(unsigned.folder / "case.yaml", seed=3, count=1, sizes=(3,), replace=True).path
    assert yaml.safe_load(path.read_text())["subsets"][0]["tasks"] == ["007", "on", "gamma"]
