# SPDX-License-Identifier: Apache-2.0
"""Verdicts on pre-registered hypotheses: supported, refuted, inconclusive or blocked, with the reason in words."""

from __future__ import annotations

from collections.abc import Sequence

from metric_benchmark.limits import (
    CHOSEN_USING_BOTH,
    FEW_DOMINATORS,
    FEW_MUTANTS,
    FEW_TASKS,
    MANY_UNDEFINED,
    NO_DEVIATION,
    NO_PERMUTATION,
    OPAQUE,
    TOO_CLOSE_TO_ONE,
    WANT_OF_DATA,
)
from metric_benchmark.multiplicity import P_TOLERANCE, adjust_holm
from metric_benchmark.records.correlation import Calibrated, Direction, Verdict

_TOLERANCE = 1e-12

#: Reason -> what it means, what would change it.
_MEANINGS = {
    "constant_mutation_score": (
        "every subset catches the same share of the mutants, so nothing can go with it",
        "use mutants that are harder to catch, or smaller subsets",
    ),
    "constant_coverage": (
        "every subset has the same coverage, so it cannot tell subsets apart",
        "use smaller subsets, or a metric with more items",
    ),
    "no_items": (
        "the metric has no items, so nothing can be covered",
        "check the metric's settings, or list items that tasks should exercise",
    ),
    "size_determines_coverage": (
        "coverage follows from how many tasks a subset has, so beyond size there is nothing left of it",
        "use a metric in which tasks of one suite differ, or subsets of one size",
    ),
    "size_determines_mutation_score": (
        "the mutant score follows from how many tasks a subset has, so beyond size there is nothing left of it",
        "use mutants that only some of the tasks catch, or subsets of one size",
    ),
    "fewer_than_two_subsets": (
        "there are not two subsets to compare",
        "give the case more subsets (about 200), or measure the tasks that could not be measured",
    ),
    FEW_DOMINATORS: (
        "the mutants are few faults in many guises, so the score counts the same fault again and again",
        "add mutants of other kinds",
    ),
    FEW_TASKS: (
        "so few tasks leave the interval too narrow to be believed",
        "add tasks (40 or more)",
    ),
    FEW_MUTANTS: (
        "so few mutants leave the interval too narrow to be believed",
        "add mutants (20 or more)",
    ),
    MANY_UNDEFINED: (
        "too often a redrawn case has no association at all, so the interval is not to be believed",
        "use harder mutants or smaller subsets, so that scores vary more",
    ),
    OPAQUE: (
        "the metric gives one number per subset and none per task, so tasks cannot be permuted and no test is valid",
        "measure the metric on every single task as well",
    ),
    CHOSEN_USING_BOTH: (
        "the subsets were chosen by looking at both sides of the comparison, so no permutation is a fair one",
        "choose subsets at random (`metric-benchmark subsets generate`)",
    ),
    TOO_CLOSE_TO_ONE: (
        "an association of .999 or more leaves no room for an interval",
        "add mutants and tasks, so that the two sides can differ",
    ),
    NO_DEVIATION: (
        "redrawn cases all give the same association, so there is no interval",
        "add mutants and tasks",
    ),
    NO_PERMUTATION: (
        "dealing the tasks' items out anew never gives an association to compare with",
        "use a metric in which tasks differ more",
    ),
}


def more_data_could_settle(limits: Sequence[str]) -> bool:
    """Tells whether an inconclusive verdict with these limits, or with none, is one for want of data."""
    return all(limit in WANT_OF_DATA for limit in limits)


def adjust_family(p_values: Sequence[float], n_family: int) -> list[float]:
    """Returns Holm's adjusted p-values of some claims out of a family of `n_family`.

    The others' p-values count as 1: the result is never below what Holm gives once they are known.

    Args:
        p_values: the p-values at hand.
        n_family: all pre-registered metrics times all cases; at least as many as there are p-values.
    """
    padded = [*p_values, *[1.0] * (n_family - len(p_values))]
    return [float(p) for p in adjust_holm(padded)[: len(p_values)]]


def decide(
    calibrated: Calibrated | None,
    p_adjusted: float | None,
    *,
    direction: Direction = "greater",
    minimum_effect: float,
    alpha: float = 0.05,
    limits: Sequence[str] = (),
    n_family: int | None = None,
) -> Verdict:
    """Decides one pre-registered hypothesis.

    *Supported* when p_adjusted <= alpha, the interval lies above 0 and the estimate reaches the minimum
    effect; `minimum_shown` tells whether the whole interval does. *Refuted* when the whole interval lies
    below the minimum effect. Otherwise, or with any limit, *inconclusive*. `direction: less` mirrors all
    signs.

    Args:
        calibrated: estimate and interval at 1 - 2 alpha, less the mean of the permutation replicates.
        p_adjusted: one-sided in `direction`, adjusted for the family.
        direction: of the claim.
        minimum_effect: the smallest association that would matter, above 0.
        alpha: level of the claim.
        limits: what bars a verdict: reasons why an estimate is undefined, or why it cannot be believed.
        n_family: size of the family, for the record.
    """
    common: dict[str, object] = {
        "direction": direction,
        "minimum_effect": minimum_effect,
        "alpha": alpha,
        "p_adjusted": p_adjusted,
        "n_family": n_family,
    }
    if limits or calibrated is None or p_adjusted is None:
        return _inconclusive(limits or ["no test or no interval"], common)
    sign = 1.0 if direction == "greater" else -1.0
    estimate = sign * calibrated.estimate
    low, high = sorted((sign * calibrated.low, sign * calibrated.high))
    is_significant = p_adjusted <= alpha + P_TOLERANCE
    numbers = (
        f"calibrated association {calibrated.estimate:.2f}, {100 * (1 - 2 * alpha):.0f}% interval "
        f"{calibrated.low:.2f} to {calibrated.high:.2f}, adjusted p = {p_adjusted:.3g}"
    )
    if is_significant and low > 0 and estimate >= minimum_effect - _TOLERANCE:
        shown = low >= minimum_effect - _TOLERANCE
        reach = (
            f"at least {minimum_effect:g} is shown"
            if shown
            else f"that it is at least {minimum_effect:g} is estimated, not shown"
        )
        return Verdict.model_validate(
            {
                **common,
                "verdict": "supported",
                "reason": f"at least {minimum_effect:g}" if shown else "above 0, estimated at least the minimum",
                "explanation": f"Of two suites of one size, the one with {'more' if sign > 0 else 'less'} coverage "
                f"tends to catch more mutants; {reach} ({numbers}).",
                "minimum_shown": shown,
            }
        )
    if high < minimum_effect - _TOLERANCE:
        is_real = is_significant and low > 0
        return Verdict.model_validate(
            {
                **common,
                "verdict": "refuted",
                "reason": "real but smaller than delta" if is_real else "smaller than delta",
                "explanation": "Beyond the number of tasks, coverage tells "
                f"{'little' if is_real else 'next to nothing'} about how many mutants a suite catches: "
                f"an association of {minimum_effect:g} or more is ruled out ({numbers}).",
                "remedy": "a larger study would only narrow the interval; look for another metric",
            }
        )
    reasons: list[str] = []
    if not is_significant:
        reasons.append(f"p above {alpha:g}")
    if low <= 0:
        reasons.append("interval includes 0")
    if estimate < minimum_effect - _TOLERANCE:
        reasons.append("estimate below the minimum effect")
    return Verdict.model_validate(
        {
            **common,
            "verdict": "inconclusive",
            "reason": "; ".join(reasons),
            "explanation": f"The data neither show an association of {minimum_effect:g} or more nor rule it "
            "out "
            f"({numbers}).",
            "remedy": "add mutants, tasks and attempts; `metric-benchmark plan` says what helps most for the least",
        }
    )


def _inconclusive(limits: Sequence[str], common: dict[str, object]) -> Verdict:
    meanings = [_MEANINGS.get(limit, (limit.replace("_", " "), "")) for limit in limits]
    return Verdict.model_validate(
        {
            **common,
            "verdict": "inconclusive",
            "reason": "; ".join(limits),
            "explanation": "No verdict is possible: " + "; ".join(meaning for meaning, _ in meanings) + ".",
            "remedy": "; ".join(dict.fromkeys(remedy for _, remedy in meanings if remedy)),
        }
    )


def not_tested(reason: str) -> Verdict:
    """Returns the verdict on a metric for which nothing was claimed beforehand."""
    return Verdict(
        verdict="not_tested",
        reason=reason,
        explanation="No hypothesis was registered for this metric, so its numbers are exploratory.",
        remedy="register a hypothesis (`correlation.hypotheses` in analysis.yaml) and collect new data",
    )


def blocked(
    reason: str,
    *,
    direction: Direction | None = None,
    minimum_effect: float | None = None,
    alpha: float | None = None,
    n_family: int | None = None,
) -> Verdict:
    """Returns the verdict of a case whose controls show that kills are noise.

    Args:
        reason: what the controls show.
        direction: of the claim; this and what follows only where something was claimed.
        minimum_effect: of the claim.
        alpha: of the claim.
        n_family: size of the family, in which the claim keeps its place.
    """
    return Verdict(
        direction=direction,
        minimum_effect=minimum_effect,
        alpha=alpha,
        n_family=n_family,
        verdict="blocked",
        reason="kills are noise",
        explanation=f'The baseline itself is "caught" when it runs again under another name: {reason}.',
        remedy="use the kill rule `exact` with more attempts, and screen out unreliable tasks",
    )
