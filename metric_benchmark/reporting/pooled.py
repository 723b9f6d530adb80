# SPDX-License-Identifier: Apache-2.0
"""The association of each metric over the cases of an experiment: as rows, as a table, and in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from metric_benchmark.records.correlation import PooledEstimate
from metric_benchmark.reporting.data import ReportData
from metric_benchmark.reporting.table import words

type Row = dict[str, Any]


def pooled_rows(data: ReportData) -> list[Row]:
    """Returns one row per metric of a sealed experiment with several cases; of one case there is nothing to pool.

    Keys: `metric, n_cases, n_mutants, estimate, null_mean, calibrated, ci_low, ci_high, ci_level, prediction_low,
    prediction_high, tau, p_value, reason, notes`. `calibrated` and the ends of both intervals are less `null_mean`,
    as everywhere in a report, and stay within +-1; `p_value` is of this value, two-sided and adjusted for nothing.
    Numbers are None where `reason` says why the cases are only listed.
    """
    if data.seal is None or len(data.seal.cases) < 2:
        return []
    order = dict.fromkeys([name for case in data.cases for name in case.metric_names] + list(data.pooled))
    return [_row(name, data.pooled[name]) for name in order if name in data.pooled]


def _row(name: str, found: PooledEstimate) -> Row:
    null = found.null_mean or 0.0
    ends = ("low", "high", "prediction_low", "prediction_high")
    less: dict[str, float | None] = {
        key: None if value is None else max(-1.0, min(1.0, value - null))
        for key, value in found.model_dump(include=set(ends)).items()
    }
    left_out = [f"{case} is left out: {words(why)}" for case, why in found.left_out.items()]
    return {
        "metric": name,
        "n_cases": found.n_cases,
        "n_mutants": found.n_mutants,
        "estimate": found.estimate,
        "null_mean": found.null_mean,
        "calibrated": None if found.estimate is None else found.estimate - null,
        "ci_low": less["low"],
        "ci_high": less["high"],
        "ci_level": found.level,
        "prediction_low": less["prediction_low"],
        "prediction_high": less["prediction_high"],
        "tau": found.tau,
        "p_value": found.p_value,
        "reason": found.reason or "",
        "notes": [*left_out, *found.notes],
    }


def pooled_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns a line per metric for a terminal; metrics without a number share one line per reason.

    Where nothing is pooled there is nothing to say: the report lists the cases.
    """
    rows = list(rows)
    lines: list[str] = []
    listed: dict[str, list[str]] = {}
    for row in rows:
        if row["calibrated"] is None:
            listed.setdefault(row["reason"], []).append(row["metric"])
            continue
        lines.append(
            f"pooled over {row['n_cases']} cases ({row['n_mutants']} mutants each): {row['metric']} "
            f"{row['calibrated']:+.2f} ({row['ci_level']:.0%} interval {row['ci_low']:+.2f} to {row['ci_high']:+.2f}; "
            f"a further case: {row['prediction_low']:+.2f} to {row['prediction_high']:+.2f})"
        )
    return lines and lines + [f"not pooled: {', '.join(names)} ({reason})" for reason, names in listed.items()]
