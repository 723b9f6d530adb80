# SPDX-License-Identifier: Apache-2.0
"""The plot of `plan --plot`: per case, power by association, and what each addition costs and brings."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Literal

from metric_benchmark.records.correlation import PowerPlan

# Matplotlib's keyword arguments are untyped, which strict checking refuses at every call.
type Axes = Any

_BLUE, _GREY, _RED = "#1d4ed8", "#64748b", "#b3261e"


def plot_power(plans: Mapping[str, PowerPlan], kind: Literal["svg", "png"] = "svg") -> bytes:
    """Draws a row per case; bars are two simulation errors.

    Args:
        plans: by case id.
        kind: format of the picture.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mpl: Any = matplotlib
    figure: Any = Figure(figsize=(9.5, 3.4 * max(len(plans), 1)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(max(len(plans), 1), 2, squeeze=False)
    for row, (case_id, plan) in enumerate(plans.items()):
        _curve(axes[row][0], case_id, plan)
        _options(axes[row][1], plan)
    stream = io.BytesIO()
    # Ids and dates in the file would make two plots of one plan differ.
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "metric-benchmark", "svg.fonttype": "none"}):
        figure.savefig(stream, format=kind, metadata=metadata)
    return stream.getvalue()


def _curve(axes: Axes, case_id: str, plan: PowerPlan) -> None:
    points = [point for point in plan.curve if point.effect is not None]
    axes.errorbar(
        [point.effect for point in points],
        [point.power for point in points],
        yerr=_errors([point.power for point in points], [point.stderr for point in points]),
        marker="o",
        color=_BLUE,
        capsize=3,
    )
    axes.axhline(plan.target_power, color=_RED, linestyle="--", linewidth=1)
    axes.text(0.005, plan.target_power + 0.015, f"target {plan.target_power:g}", color=_RED, fontsize=8)
    if plan.smallest_effect is not None:
        axes.axvline(plan.smallest_effect, color=_GREY, linestyle=":", linewidth=1)
        axes.text(plan.smallest_effect + 0.005, 0.02, f"{plan.smallest_effect:.2f}", color=_GREY, fontsize=8)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("true association beyond suite size, as such an experiment sees it")
    axes.set_ylabel("supported in this share of experiments")
    size = f"{plan.n_tasks} tasks, {plan.n_mutants} mutants, {plan.n_subsets} subsets, " if plan.n_tasks else ""
    attempts = f"{plan.n_baseline} + {plan.n_mutant} attempts" if plan.n_baseline else ""
    axes.set_title(f"{_text(case_id)}: {size}{attempts}".rstrip(": ,"), fontsize=9)
    axes.grid(alpha=0.3)


def _options(axes: Axes, plan: PowerPlan) -> None:
    options = list(reversed(plan.options))
    if not options:
        axes.axis("off")
        return
    places = range(len(options))
    powers, errors = [option.power for option in options], [option.stderr for option in options]
    axes.barh(places, powers, xerr=_errors(powers, errors), color=_BLUE, alpha=0.75, ecolor=_GREY, capsize=3)
    axes.axvline(plan.target_power, color=_RED, linestyle="--", linewidth=1)
    axes.set_yticks(places, [f"{_text(o.change)}\n(+{o.extra_trials} trials)" for o in options], fontsize=8)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("supported in this share of experiments, at the strongest link")
    together = ", then together" if any(" + " in option.change for option in plan.options) else ""
    axes.set_title(f"one addition at a time, best value on top{together}", fontsize=9)
    axes.grid(alpha=0.3, axis="x")


def _errors(values: list[float], errors: list[float]) -> list[list[float]]:
    """Two simulation errors to either side, inside 0 to 1."""
    pairs = list(zip(values, errors, strict=True))
    return [[min(2 * e, v) for v, e in pairs], [min(2 * e, 1 - v) for v, e in pairs]]


def _text(label: str) -> str:
    """Keeps a label from being read as mathematics."""
    return label.replace("$", r"\$")
