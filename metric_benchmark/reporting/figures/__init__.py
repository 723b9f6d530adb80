# SPDX-License-Identifier: Apache-2.0
"""Figures of the report as inline SVG: they show without a script, and take their colours from the page's style."""

from metric_benchmark.reporting.figures.curves import draw_false_kills, draw_power
from metric_benchmark.reporting.figures.forest import AgreementRow, ForestRow, draw_agreement, draw_forest
from metric_benchmark.reporting.figures.matrices import draw_cover_matrix, draw_kill_matrix
from metric_benchmark.reporting.figures.scatter import draw_residuals, draw_scatter

__all__ = [
    "AgreementRow",
    "ForestRow",
    "draw_agreement",
    "draw_cover_matrix",
    "draw_false_kills",
    "draw_forest",
    "draw_kill_matrix",
    "draw_power",
    "draw_residuals",
    "draw_scatter",
]
