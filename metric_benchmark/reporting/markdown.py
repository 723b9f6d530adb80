# SPDX-License-Identifier: Apache-2.0
"""The report's content as Markdown, for pull requests and wikis; every label is shown as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from metric_benchmark.reporting.data import CaseReport, ReportData
from metric_benchmark.reporting.details import list_agreement, list_estimates
from metric_benchmark.reporting.pooled import pooled_rows
from metric_benchmark.reporting.provenance import count_trials, describe_case, describe_provenance
from metric_benchmark.reporting.sentences import QUESTION, describe_verdict, number
from metric_benchmark.reporting.suggestions import suggest, value_tasks
from metric_benchmark.reporting.table import Row, case_rows, sizes_text, words

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")


def escape_markdown(text: str) -> str:
    """Returns a text that Markdown shows as it is: on one line, with nothing in it acting as markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("://", ":\\//")


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Returns a table, or nothing without rows; cells must be Markdown already."""
    rows = list(rows)
    if not rows:
        return ""
    rule = ["---:" if i in right else "---" for i in range(len(heads))]
    lines = [heads, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def render_markdown(data: ReportData) -> str:
    """Returns the whole report as Markdown."""
    parts = [
        f"# {QUESTION}",
        f"Experiment {escape_markdown(data.name)}. {escape_markdown(data.completeness)}",
        "## Verdicts",
        *(line for case in data.cases for line in _verdicts(case)),
        results_table([row for case in data.cases for row in case_rows(case)]),
        _pooled_table(pooled_rows(data)),
        "## What to do next",
        *(line for case in data.cases for line in _suggestions(case)),
    ]
    for case in data.cases:
        parts += [f"## Case {escape_markdown(case.case_id)}: {escape_markdown(case.title)}", *_case(case)]
    parts += ["## Provenance", _pairs_table(describe_provenance(data))]
    return "\n\n".join(part for part in parts if part) + "\n"


def results_table(rows: Sequence[Row]) -> str:
    """Returns the summary rows as a table."""
    heads = ["case", "metric", "subsets", "sizes", "tasks", "mutants", "rho", "partial rho", "calibrated", "interval",
             "adjusted p", "verdict"]  # fmt: skip
    lines: list[list[str]] = []
    for row in rows:
        label = f" ({escape_markdown(row['label'])})" if row["label"] else ""
        low, high = row["ci_low"], row["ci_high"]
        lines.append(
            [
                escape_markdown(row["case"]),
                escape_markdown(row["metric"]) + label,
                str(row["n_subsets"]),
                sizes_text(row),
                str(row["n_tasks"]),
                "–" if row["n_mutants"] is None else str(row["n_mutants"]),
                number(row["rho"]) if row["rho"] is not None else words(row["rho_reason"]),
                number(row["partial_rho"]) if row["partial_rho"] is not None else words(row["partial_rho_reason"]),
                number(row["calibrated"]),
                "–" if low is None else f"{number(low)} to {number(high)}",
                "–" if row["p_adjusted"] is None else f"{row['p_adjusted']:.4f}",
                f"**{words(row['verdict'])}**",
            ]
        )
    return markdown_table(heads, lines, right=range(2, 11))


def _pooled_table(rows: Sequence[Row]) -> str:
    heads = ["pooled metric", "cases", "mutants of each", "calibrated", "95% interval", "a further case", "remarks"]
    lines = [
        [
            escape_markdown(row["metric"]),
            str(row["n_cases"]),
            "–" if row["n_mutants"] is None else str(row["n_mutants"]),
            number(row["calibrated"]),
            "–" if row["ci_low"] is None else f"{number(row['ci_low'])} to {number(row['ci_high'])}",
            "–"
            if row["prediction_low"] is None
            else f"{number(row['prediction_low'])} to {number(row['prediction_high'])}",
            escape_markdown("; ".join(text for text in (row["reason"], *row["notes"]) if text)),
        ]
        for row in rows
    ]
    return markdown_table(heads, lines, right=range(1, 6))


def _verdicts(case: CaseReport) -> list[str]:
    lines: list[str] = []
    for row in case_rows(case):
        found = describe_verdict(row, case.correlation)
        name = f"{escape_markdown(case.case_id)} / {escape_markdown(row['metric'])}"
        change = f" *What would change this:* {escape_markdown(found.change)}" if found.change else ""
        text = [found.numbers and f"({found.numbers})", found.meaning, *found.caveats]
        more = " ".join(escape_markdown(part) for part in text if part)
        lines.append(f"- **{words(row['verdict'])}**, {name}: {escape_markdown(found.answer)} {more}{change}")
    return ["\n".join(lines)]


def _suggestions(case: CaseReport) -> list[str]:
    found = suggest(case)
    lines = [
        f"{n}. **{escape_markdown(item.found)}** {escape_markdown(item.advice)} "
        + ", ".join(escape_markdown(name) for name in item.subjects[:40])
        + (f" and {len(item.subjects) - 40} more" if len(item.subjects) > 40 else "")
        for n, item in enumerate(found, start=1)
    ]
    return [f"### Case {escape_markdown(case.case_id)}", "\n".join(lines)] if lines else []


def _case(case: CaseReport) -> list[str]:
    parts = [escape_markdown(str(case.described.get("text") or ""))]
    scores = case.scores
    if scores is not None:
        parts.append(
            f"{scores.n_mutants} mutants, {scores.n_dominators} of them dominators, {len(scores.never_killed)} never "
            f"killed here. Controls: {escape_markdown(scores.noise.reason)}."
        )
        rows = [
            [
                escape_markdown(name),
                escape_markdown(status.operator or "–"),
                f"{status.status}, inert" if status.is_inert else status.status,
                f"{len(status.killed_by)} of {len(scores.eligible_tasks)}",
                ", ".join(escape_markdown(task) for task in status.killed_by) or "–",
            ]
            for name, status in scores.mutants.items()
        ]
        parts.append(markdown_table(["mutant", "operator", "status", "killed by", "tasks"], rows, right=[3]))
        parts.append(_task_table(case))
        parts.append(_false_kill_table(case))
    for name, metric in (case.correlation.metrics if case.correlation else {}).items():
        parts.append(f"### Metric {escape_markdown(name)}")
        parts.append(markdown_table(["estimate", "value"], list_estimates(metric), right=[1]))
        parts.append(markdown_table(["worth for choosing a suite", "value", "of"], list_agreement(metric), right=[1]))
    trials = [
        [
            line.role,
            str(line.n_planned),
            str(line.n_attempts),
            *(str(n) for n in line.by_status.values()),
            "–" if line.reward_of_attempts is None else f"{line.reward_of_attempts:.3f}",
            "–" if line.reward_of_planned is None else f"{line.reward_of_planned:.3f}",
            escape_markdown(", ".join(line.environments)),
        ]
        for line in count_trials(case)
    ]
    if trials:
        status = [words(name) for name in count_trials(case)[0].by_status]
        heads = ["role", "planned", "count", *status, "mean reward (counted)", "(planned)", "environment"]
        parts.append(markdown_table(heads, trials, right=range(1, 5 + len(status))))
    parts.append(_pairs_table(describe_case(case)))
    return parts


def _task_table(case: CaseReport) -> str:
    values = value_tasks(case)
    rows = [
        [
            escape_markdown(task.task),
            "–" if task.rank is None else str(task.rank),
            str(len(task.kills)),
            str(len(task.alone)),
            f"{task.cost:.3g}",
            "yes" if task.is_redundant else "no",
        ]
        for task in values.tasks
    ]
    heads = ["task", "rank by kills per cost", "kills", "alone", f"cost ({values.unit})", "redundant"]
    return markdown_table(heads, rows, right=range(1, 5))


def _false_kill_table(case: CaseReport) -> str:
    rates = case.scores.noise.by_size if case.scores else []
    rows = [[str(r.size), f"{r.rate:.3f}", f"{r.low:.3f} to {r.high:.3f}", str(r.n_controls)] for r in rates]
    return markdown_table(["size", "controls killed", "interval", "controls"], rows, right=range(4))


def _pairs_table(lines: Sequence[tuple[str, str]]) -> str:
    return markdown_table(["what", "value"], [[escape_markdown(a), escape_markdown(b)] for a, b in lines])
