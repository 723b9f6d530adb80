# SPDX-License-Identifier: Apache-2.0
"""One flipped byte in any kind of file is noticed and the file named; `benchmarks/evidence/flips.py` does it longer."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.harbor


@pytest.fixture(scope="module")
def flips():
    path = Path(__file__).parents[3] / "benchmarks" / "evidence" / "flips.py"
    spec = importlib.util.spec_from_file_location("mb_flips", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mb_flips"] = module
    spec.loader.exec_module(module)
    return module


def test_some_flips(flips, finished):
    n = 3 * len(flips.KINDS)
    found = list(flips.flip_bytes(finished.experiment, finished.root, n, random.Random(7)))
    assert Counter(flip.kind for flip in found) == dict.fromkeys(flips.KINDS, 3)
    assert [flip for flip in found if flip.noticed_by is None or not flip.is_named] == []
