# SPDX-License-Identifier: Apache-2.0
"""What `check` leaves for machines and people: JUnit XML, a Markdown summary for a pull request, an SVG badge."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from markupsafe import Markup

from metric_benchmark.reporting.data import ReportData
from metric_benchmark.reporting.gate import GateResult
from metric_benchmark.reporting.markdown import escape_markdown, markdown_table, results_table
from metric_benchmark.reporting.table import summary_rows

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LABEL = "metric benchmark"
_GREEN, _RED = "#1a7f37", "#b3261e"


def to_junit(result: GateResult) -> bytes:
    """Returns the checks as JUnit XML: a test suite per case, a test case per check."""
    groups: dict[str, list[ET.Element]] = {}
    for check in result.checks:
        case = check.case or result.experiment
        element = ET.Element("testcase", classname=_xml_text(case), name=_xml_text(check.name), time="0")
        if check.outcome == "failed":
            ET.SubElement(element, "failure", type="gate", message=_xml_text(check.message))
        groups.setdefault(case, []).append(element)
    root = ET.Element("testsuites", _counts(result.experiment, len(result.checks), len(result.failed)))
    for case, elements in groups.items():
        n_failed = sum(len(element) for element in elements)
        suite = ET.SubElement(root, "testsuite", _counts(case, len(elements), n_failed))
        suite.extend(elements)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def to_markdown(result: GateResult, data: ReportData) -> str:
    """Returns a summary for a pull request: the checks, then the results."""
    n_failed = len(result.failed)
    head = (
        f"{n_failed} of {len(result.checks)} checks failed" if n_failed else f"all {len(result.checks)} checks passed"
    )
    rows = [
        [
            "❌ failed" if check.outcome == "failed" else "✅ passed",
            escape_markdown(check.case or "–"),
            escape_markdown(check.name),
            escape_markdown(check.found),
            escape_markdown(check.wanted),
        ]
        for check in sorted(result.checks, key=lambda check: check.outcome)
    ]
    return "\n\n".join(
        [
            f"## Metric Benchmark: {head}",
            f"Experiment {escape_markdown(result.experiment)}.",
            markdown_table(["", "case", "check", "found", "wanted"], rows),
            "### Results",
            results_table(summary_rows(data)),
        ]
    ) + "\n"  # fmt: skip


def to_badge(result: GateResult) -> str:
    """Returns a badge: how many of the checks passed."""
    n_failed = len(result.failed)
    text = f"{n_failed} of {len(result.checks)} failed" if n_failed else f"{len(result.checks)} passed"
    left, right = 6.4 * len(_LABEL) + 12, 6.6 * len(text) + 12
    width = left + right
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img" '
        'aria-label="{label}: {text}">'
        '<rect width="{width:.0f}" height="20" rx="3" fill="{color}"/>'
        '<path fill="#3b434b" d="M3 0h{inner:.1f}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        '<text x="{x:.1f}" y="14">{label}</text><text x="{y:.1f}" y="14">{text}</text></g></svg>\n'
    ).format(
        width=width, label=_LABEL, text=text, color=_RED if n_failed else _GREEN, inner=left - 3, x=left / 2,
        y=left + right / 2,
    )  # fmt: skip


def _counts(name: str, n_checks: int, n_failed: int) -> dict[str, str]:
    return {
        "name": _xml_text(name),
        "tests": str(n_checks),
        "failures": str(n_failed),
        "errors": "0",
        "skipped": "0",
        "time": "0",
    }


def _xml_text(text: str) -> str:
    """Replaces what XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
