# SPDX-License-Identifier: Apache-2.0
"""An update of an index that is killed between its two files leaves a root that can be read or put right."""

from __future__ import annotations

import pytest

from metric_benchmark.evidence import index as module
from metric_benchmark.evidence.index import finish_updates, update_index
from metric_benchmark.evidence.reader import read_index, read_raw_results


class KilledError(BaseException):
    """Stands for a SIGKILL."""


def die(*_):
    raise KilledError


@pytest.fixture
def old(results, trial):
    return results("short", trials=(trial(status="no_verdict", reward=None),))


@pytest.fixture
def new(results):
    return results("short")


@pytest.fixture
def kill_at(root, monkeypatch):
    """Updates the index and dies when a function of its module is called."""

    def update(function, results):
        with monkeypatch.context() as patch:
            patch.setattr(module, function, die)
            with pytest.raises(KilledError):
                update_index(root, results)

    return update


def test_killed_before_the_index_is_written_the_old_results_are_current(root, old, new, kill_at):
    update_index(root, old)
    kill_at("set_aside_seals", new)
    assert read_raw_results(root, read_index(root, "desk"), "short") == old

    finish_updates(root, read_index(root, "desk"))
    assert read_raw_results(root, read_index(root, "desk"), "short") == old
    assert not list(root.path.rglob("next-*"))


def test_killed_after_the_index_is_written_the_new_results_become_current(root, old, new, kill_at):
    update_index(root, old)
    kill_at("rename", new)

    finish_updates(root, read_index(root, "desk"))
    assert read_raw_results(root, read_index(root, "desk"), "short") == new
    assert not list(root.path.rglob("next-*"))


def test_an_update_after_a_killed_one_puts_it_right_first(root, old, new, results, kill_at):
    update_index(root, old)
    kill_at("rename", new)
    update_index(root, results("baseline", role="baseline"))
    assert read_raw_results(root, read_index(root, "desk"), "short") == new


def test_the_first_results_of_a_variant_need_no_detour(root, new, kill_at):
    """Nothing names them yet, so that being killed leaves at most a file the next run writes again."""
    kill_at("set_aside_seals", new)
    assert not root.index("desk").exists()
    assert update_index(root, new)
    assert read_raw_results(root, read_index(root, "desk"), "short") == new
