# SPDX-License-Identifier: Apache-2.0
"""The collector is paused for as long as the work lasts, and is afterwards as it was before."""

from __future__ import annotations

import gc

import pytest

from metric_benchmark.memory import garbage_kept


@garbage_kept()
def is_collecting() -> bool:
    return gc.isenabled()


def test_it_is_paused_within_and_on_again_afterwards():
    assert gc.isenabled()
    assert not is_collecting()
    assert gc.isenabled()


def test_it_is_on_again_after_an_error():
    with pytest.raises(ValueError, match="broken"), garbage_kept():
        raise ValueError("broken")
    assert gc.isenabled()


def test_work_within_work_leaves_it_paused():
    with garbage_kept():
        assert not is_collecting()
        assert not gc.isenabled()


def test_where_somebody_switched_it_off_it_stays_off():
    gc.disable()
    try:
        assert not is_collecting()
        assert not gc.isenabled()
    finally:
        gc.enable()
