# SPDX-License-Identifier: Apache-2.0
"""Writes `report.html`: one file that needs no network, with every text escaped and no script but its own allowed."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import os
import re
from pathlib import Path
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from metric_benchmark.evidence.layout import EvidenceRoot
from metric_benchmark.evidence.writes import write_bytes
from metric_benchmark.reporting.data import ReportData, load_report
from metric_benchmark.reporting.payload import embed, report_payload
from metric_benchmark.reporting.pooled import pooled_rows
from metric_benchmark.reporting.provenance import describe_provenance, describe_validation
from metric_benchmark.reporting.sentences import QUESTION, moment, number, sentence
from metric_benchmark.reporting.table import sizes_text, summary_rows, words
from metric_benchmark.reporting.view import forest, interval_levels, view_case

_TEMPLATES = importlib.resources.files("metric_benchmark.reporting") / "templates"


def write_report(root: EvidenceRoot | Path, path: Path | None = None) -> Path:
    """Writes the HTML report of an evidence root, finished or not.

    Args:
        root: the evidence root.
        path: where to write it; by default `report.html` in the root, where its links to trajectories work.

    Returns:
        Where it was written.

    Raises:
        EvidenceError: there is no evidence, or a record is damaged.
        StorageError: the disk is full or not writable; an old report is intact.
    """
    data = load_report(root)
    target = path or data.root.report
    base = os.path.relpath(data.root.execution_root.absolute(), target.parent.absolute())
    write_bytes(target, render_report(data, base="" if base == "." else base).encode())
    return target


def render_report(data: ReportData, *, base: str = "") -> str:
    """Returns the report as HTML.

    Args:
        data: the records.
        base: path from the report to the evidence root, for links to trajectories.
    """
    script = _text("report.js")
    views = [view_case(case, data.plans.get(case.case_id), data.settling.get(case.case_id)) for case in data.cases]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            data=data,
            question=QUESTION,
            link=drill_down,
            cases=views,
            payload=embed(report_payload(data, views, base)),
            rows=summary_rows(data),
            pooled=pooled_rows(data),
            forest=forest(data),
            interval_levels=interval_levels(data),
            provenance=describe_provenance(data),
            validation=describe_validation(data),
            style=Markup(_text("report.css")),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "coded": code_spans,
        "moment": moment,
        "sentence": sentence,
        "signed": number,
        "sizes": sizes_text,
        "words": words,
    }
    return environment


def code_spans(text: str) -> Markup:
    """Returns a text of ours with what stands in backticks as code; everything is escaped first."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def drill_down(kind: str, case: str, name: str) -> str:
    """Returns the address inside the report at which a mutant, task or subset is shown in detail."""
    return "#" + "/".join(quote(part, safe="") for part in (kind, case, name))
