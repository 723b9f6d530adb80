# SPDX-License-Identifier: Apache-2.0
"""Pictures for metadata: small PNGs that show what the record says and leave matplotlib's global state alone."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from matplotlib import image

from metric_benchmark.reporting import plots
from metric_benchmark.reporting.data import load_report


def _pixels(png: bytes) -> np.ndarray:
    return np.asarray(image.imread(io.BytesIO(png)))[..., :3]


def _share_of(png: bytes, color: str) -> float:
    wanted = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return float((np.abs(_pixels(png) - wanted).max(axis=-1) < 0.01).mean())


def test_every_picture_is_a_png_below_the_limit(finished):
    case = load_report(finished).cases[0]
    pictures = [
        plots.plot_rewards(case.results["baseline"]),
        plots.plot_kills(case.kills["blind-1"]),
        plots.plot_kill_matrix(case.scores),
        plots.plot_correlation(case.correlation),
        *(plots.plot_cover_matrix(name, metric) for name, metric in case.coverage.metrics.items()),
    ]
    for picture in pictures:
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < plots.MAX_BYTES


def test_a_mutant_nobody_kills_has_no_killed_cell(finished):
    kills = load_report(finished).cases[0].kills
    killed = "#c2410c"
    assert _share_of(plots.plot_kills(kills["budget-1"]), killed) == 0
    assert _share_of(plots.plot_kills(kills["blind-1"]), killed) > 0.01


def test_a_large_noisy_matrix_still_fits(world, tmp_path):
    root = world.write_world(
        tmp_path, {"large": world.World(n_tasks=150, n_mutants=60, n_items=150, n_subsets=80, metrics=("tool_calls",))},
        stop_after="coverage",
    )  # fmt: skip
    case = load_report(root).cases[0]
    assert len(plots.plot_kill_matrix(case.scores)) < plots.MAX_BYTES
    assert len(plots.plot_cover_matrix("tool_calls", case.coverage.metrics["tool_calls"])) < plots.MAX_BYTES


@pytest.mark.parametrize("name", ["$\\frac{1}{", "tab\there", "<b>&"])
def test_a_hostile_label_is_drawn_as_text(finished, name):
    kills = load_report(finished).cases[0].kills["blind-1"]
    assert plots.plot_kills(kills.model_copy(update={"variant": name})).startswith(b"\x89PNG")


def test_pyplot_is_never_imported(finished):
    plots.plot_correlation(load_report(finished).cases[0].correlation)
    assert "matplotlib.pyplot" not in sys.modules
