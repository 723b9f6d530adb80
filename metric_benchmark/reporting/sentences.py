# SPDX-License-Identifier: Apache-2.0
"""Verdicts in sentences for readers without statistics: the answer, its numbers, its meaning, what would change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metric_benchmark.records.correlation import Correlation, MetricCorrelation, Settling, Verdict
from metric_benchmark.reporting.table import words

QUESTION = (
    "Does a coverage metric over an agent-evaluation suite predict how good that suite is at catching faulty agents?"
)

#: How strong an association of ranks is, for people; thresholds follow Cohen (1988).
_STRENGTH = ((0.1, "next to no"), (0.3, "a weak"), (0.5, "a moderate"), (0.8, "a strong"), (2.0, "a very strong"))


@dataclass(frozen=True)
class Sentences:
    """A verdict for people. `caveats` must be read before the answer is believed."""

    answer: str
    numbers: str
    meaning: str
    change: str
    caveats: tuple[str, ...] = ()


def describe_verdict(row: Mapping[str, Any], record: Correlation | None, settling: Settling | None = None) -> Sentences:
    """Puts one row of `summary_rows` into sentences.

    Args:
        row: the row.
        record: the correlation it came from.
        settling: what would settle the claim, if that was simulated; it makes the way out concrete.
    """
    metric = row["metric"] or "any metric"
    if record is None:
        return Sentences(f"{metric}: {row['reason']}.", "", "", "Run the remaining stages of the experiment.")
    found = record.metrics[row["metric"]]
    verdict = found.verdict
    return Sentences(
        answer=_answer(metric, found),
        numbers=_numbers(row, found),
        meaning=verdict.explanation or sentence(verdict.reason),
        change=_change(verdict, settling),
        caveats=_caveats(row, record, found),
    )


def _change(verdict: Verdict, settling: Settling | None) -> str:
    change = sentence(verdict.remedy)
    if settling is None or verdict.verdict != "inconclusive":
        return change
    return (
        f"{change} Simulated: {settling.advice}. Whoever adds data after this look and looks again makes the claim "
        "exploratory; a new experiment does not."
    )


def sentence(text: str) -> str:
    """Returns a text with a capital at its start and a full stop at its end; empty stays empty."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""


def number(value: float | None, digits: int = 2) -> str:
    """Returns a signed number with a true minus, or a dash."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def moment(value: str | None) -> str:
    """Returns a record's time to the second, or a dash."""
    return "–" if value is None else value[:19].replace("T", " ")


def p_text(value: float | None) -> str:
    """Returns a p-value the way people write it."""
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def strength(value: float) -> str:
    """Returns words for the size of an association, and that it is negative, to stand before `association`."""
    word = next(word for limit, word in _STRENGTH if abs(value) < limit)
    return f"{word} negative" if value <= -_STRENGTH[0][0] else word


def _answer(metric: str, found: MetricCorrelation) -> str:
    verdict = found.verdict
    less = verdict.direction == "less"
    more, fewer = ("less", "fewer") if less else ("more", "more")
    if verdict.verdict == "supported":
        return f"Yes. Among suites of the same size, those with {more} {metric} coverage catch more faulty agents."
    if verdict.verdict == "refuted":
        smallest = f"{verdict.minimum_effect:g}" if verdict.minimum_effect is not None else "the smallest that matters"
        return (
            f"No. Beyond suite size, {fewer if less else 'more'} {metric} coverage does not mean enough: an "
            f"association of {smallest} is ruled out."
        )
    if verdict.verdict == "inconclusive":
        return f"Cannot say. The data neither show nor rule out that {metric} coverage matters beyond suite size."
    if verdict.verdict == "blocked":
        return (
            f'No answer. The unchanged agent is "caught" as faulty, so kills are noise and {metric} cannot be judged.'
        )
    estimate = found.estimates.partial_spearman_given_size
    beyond_chance = _beyond_chance(found)
    if beyond_chance is not None:
        return (
            f"Not tested. In this sample, {metric} coverage has {strength(beyond_chance)} association with the mutant "
            "score beyond suite size and what tasks at random would show."
        )
    if estimate.status == "ok":
        return (
            f"Not tested. In this sample, {metric} coverage has {strength(estimate.value)} association with the "
            "mutant score beyond suite size; how much of it tasks at random would show is not known."
        )
    return f"Not tested. The association of {metric} beyond suite size is undefined: {words(estimate.reason)}."


def _beyond_chance(found: MetricCorrelation) -> float | None:
    """Returns the association less what tasks at random would show; it is known also where no interval is."""
    if found.calibrated:
        return found.calibrated.estimate
    if found.test is not None and found.test.null_mean is not None:
        return found.test.statistic - found.test.null_mean
    return None


def _numbers(row: Mapping[str, Any], found: MetricCorrelation) -> str:
    parts: list[str] = []
    if found.calibrated:
        parts.append(f"effect {number(found.calibrated.estimate)}")
    elif row["partial_rho"] is not None:
        parts.append(f"partial rho {number(row['partial_rho'])}")
    if found.calibrated and found.interval:
        parts.append(
            f"{found.interval.level:.0%} interval {number(found.calibrated.low)} to {number(found.calibrated.high)}"
            + (" (approximate)" if found.interval.approximate else "")
        )
    if row["p_adjusted"] is not None:
        parts.append(f"adjusted p {p_text(row['p_adjusted'])}")
    elif found.p_exploratory is not None:
        parts.append(f"exploratory p {p_text(found.p_exploratory)}, adjusted")
    elif row["p_value"] is not None:
        parts.append(f"p {p_text(row['p_value'])}")
    parts.append(f"{row['n_subsets']} subsets, {row['n_tasks']} tasks, {row['n_mutants']} mutants")
    return "; ".join(parts)


def describe_registration(record: Correlation) -> str:
    """Says whether a case's claims were on record before anybody could know their outcome."""
    if record.registration == "before_data":
        return "Registered before the data."
    if record.registration == "after_data":
        what = ", ".join(record.registration_changes) or "the hypothesis"
        return f"Changed after the data: exploratory. Other than registered: {what}."
    return "Whether this was registered before the data is not on record."


def _caveats(row: Mapping[str, Any], record: Correlation, found: MetricCorrelation) -> tuple[str, ...]:
    caveats: list[str] = []
    if row["label"] == "wiring test":
        caveats.append("Wiring test: these items are made up and know nothing of the agent; this is not a result.")
    elif row["label"] == "null metric":
        caveats.append("Null metric: it knows only how many tasks a suite has. A real metric must beat it.")
    elif row["label"]:
        caveats.append(sentence(row["label"]))
    if found.verdict.minimum_effect is not None:
        caveats.append(describe_registration(record))
    if found.finding == "not separable from volume" and found.verdict.verdict == "supported":
        caveats.append("Whether it matters which items are covered, or only how many, could not be told apart.")
    limits = [words(text) for text in found.limits if text != row["partial_rho_reason"]]
    if limits:
        caveats.append(f"Limits: {'; '.join(limits)}.")
    caveats += [sentence(text) for text in found.notes]
    return tuple(dict.fromkeys(caveats))
