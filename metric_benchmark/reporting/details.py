# SPDX-License-Identifier: Apache-2.0
"""Small tables about one metric: its estimates, and what coverage is worth for choosing a suite."""

from __future__ import annotations

from metric_benchmark.records.base import Defined, Undefined
from metric_benchmark.records.correlation import MetricCorrelation
from metric_benchmark.reporting.sentences import number
from metric_benchmark.reporting.table import words


def list_estimates(found: MetricCorrelation) -> tuple[tuple[str, str], ...]:
    """Returns (estimator, value) lines of a metric; an undefined value is its reason."""
    lines: list[tuple[str, str]] = []
    for name in type(found.estimates).model_fields:
        value = getattr(found.estimates, name)
        shown = words(value.reason) if isinstance(value, Undefined) else number(value.value, 3)
        lines.append((words(name), shown))
    if found.calibrated:
        lines.append(("mean under permutation", number(found.calibrated.null_mean, 3)))
    if found.test:
        kind = "all" if found.test.exact else "drawn"
        lines.append(("permutation p", f"{found.test.p_value:.4f} ({found.test.n_permutations} {kind} permutations)"))
    if found.which_items:
        lines.append(("which items matter, p", f"{found.which_items.p_value:.4f}"))
    return tuple(lines)


def list_agreement(found: MetricCorrelation) -> tuple[tuple[str, str, str], ...]:
    """Returns (what, value, of how many) lines on what coverage is worth for choosing a suite."""
    value = found.practical
    if value is None:
        return ()
    return (
        ("Of two suites, the one with more coverage has the higher mutant score", _percent(value.agreement),
         f"{value.n_agreement_pairs} pairs"),
        ("The same among suites of one size", _percent(value.within_size.agreement),
         f"{value.within_size.n_pairs} pairs, {value.within_size.n_tied} tied"),
        ("Mutant score gained by taking the top tenth by coverage, at the same size", _signed(value.top_decile_gain),
         f"{value.n_top_decile} subsets"),
        ("Share of mutant-score variance explained beyond size, on held-out mutants", _signed(value.heldout_r2_gain),
         ""),
    )  # fmt: skip


def _percent(value: Defined | Undefined) -> str:
    return words(value.reason) if isinstance(value, Undefined) else f"{value.value:.1%}"


def _signed(value: Defined | Undefined) -> str:
    return words(value.reason) if isinstance(value, Undefined) else number(value.value, 3)
