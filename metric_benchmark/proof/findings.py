# SPDX-License-Identifier: Apache-2.0
"""What rewards, coverage and subsets say about a case's soundness: pure judgments, each with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from metric_benchmark.config.models import ScoringConfig
from metric_benchmark.errors import EvidenceError
from metric_benchmark.records.base import Undefined
from metric_benchmark.records.coverage import MetricCoverage
from metric_benchmark.records.scores import Eligibility, MutantKills
from metric_benchmark.scoring import assess_eligibility, score_mutant
from metric_benchmark.scoring.eligibility import passed

type Check = Literal["oracle", "nop", "reliable", "controls", "operators", "inert", "metrics", "subsets"]
#: `failed` means that the case cannot show what it shall; `unknown` that a trial has no verdict.
type State = Literal["ok", "warning", "failed", "unknown", "skipped"]
type Rewards = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Finding:
    """One thing that was found about a case.

    Attributes:
        case: the case.
        check: what was looked at.
        state: how it stands.
        subject: the task, variant or metric; empty for all of them.
        found: what was found.
        remedy: what to do about it.
    """

    case: str
    check: Check
    state: State
    subject: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Proof:
    """All findings of an experiment, and what it cost to make them."""

    findings: tuple[Finding, ...]
    n_run: int
    n_kept: int

    def having(self, state: State) -> tuple[Finding, ...]:
        """Returns the findings in a state."""
        return tuple(finding for finding in self.findings if finding.state == state)

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed and nothing is unknown."""
        return not self.having("failed") and not self.having("unknown")


def check_oracle(case: str, tasks: Sequence[str], rewards: Rewards, pass_reward: float) -> Iterator[Finding]:
    """The task's own solution must pass."""
    wrong = [task for task in tasks if any(not passed(reward, pass_reward) for reward in rewards.get(task, ()))]
    for task in wrong:
        yield Finding(
            case, "oracle", "failed", task, f"its own solution gets {_numbers(rewards[task])}, {pass_reward:g} passes",
            "correct its solution, tests or environment: no agent's failure means anything here",
        )  # fmt: skip
    yield from _untested(case, "oracle", tasks, rewards)
    yield from _all_well(case, "oracle", len(tasks), wrong, tasks, rewards, "tasks are passed by their own solution")


def check_nop(case: str, tasks: Sequence[str], rewards: Rewards, pass_reward: float) -> Iterator[Finding]:
    """An agent that does nothing must fail."""
    wrong = [task for task in tasks if any(passed(reward, pass_reward) for reward in rewards.get(task, ()))]
    for task in wrong:
        yield Finding(
            case, "nop", "failed", task, "passed by an agent that does nothing",
            "have its tests check what the agent must bring about: no mutant can fail it as it is",
        )  # fmt: skip
    yield from _untested(case, "nop", tasks, rewards)
    yield from _all_well(
        case, "nop", len(tasks), wrong, tasks, rewards, "tasks are failed by an agent that does nothing"
    )


def check_reliability(
    case: str, tasks: Sequence[str], rewards: Rewards, settings: ScoringConfig, *, run: str
) -> tuple[list[Finding], Eligibility | None]:
    """The baseline must pass its tasks dependably; those it does not are left out of the scoring.

    Args:
        case: the case.
        tasks: its tasks.
        rewards: of the run that decides.
        settings: `min_pass_share` and `pass_reward`.
        run: the name of that run: the screening, or the baseline itself where there is none.
    """
    found = list(_untested(case, "reliable", tasks, rewards))
    tested = [task for task in tasks if rewards.get(task)]
    try:
        eligibility = assess_eligibility(tested, rewards, settings) if tested else None
    except EvidenceError:
        message = f"no task is passed in {settings.min_pass_share:g} of the attempts of {run}"
        remedy = "correct the agent or the tasks, or lower scoring.min_pass_share: no task is left to score with"
        return [*found, Finding(case, "reliable", "failed", "", message, remedy)], None
    for task, reason in (eligibility.ineligible if eligibility else {}).items():
        shown = reason.replace("screening attempts", f"attempts of {run}")
        found.append(
            Finding(case, "reliable", "warning", task, shown, "it is not scored with; make it decidable, or drop it")
        )
    if eligibility is not None:
        n_good, share = len(eligibility.eligible_tasks), settings.min_pass_share
        message = f"{n_good} of {len(tasks)} tasks are passed in at least {share:g} of the attempts of {run}"
        found.append(Finding(case, "reliable", "ok", "", message))
    return found, eligibility


def check_controls(
    case: str, eligibility: Eligibility, baseline: Rewards, controls: Mapping[str, Rewards], settings: ScoringConfig
) -> Iterator[Finding]:
    """The baseline under another name must survive: whatever kills it is noise."""
    if not controls:
        remedy = (
            "set roles.control.count in the execution file: without controls nobody knows how much of a kill is noise"
        )
        yield Finding(case, "controls", "warning", "", "there is no control", remedy)
        return
    n_well = 0
    for name, rewards in controls.items():
        kills = score_mutant(settings, eligibility, baseline, rewards, variant=name, role="control")
        if kills.killed_by:
            yield _killed(case, name, kills)
        elif kills.undetermined_tasks:
            message = f"{len(kills.undetermined_tasks)} of {len(kills.tasks)} tasks have too few valid attempts"
            yield Finding(case, "controls", "unknown", name, message, "run again to retry what has no verdict")
        else:
            n_well += 1
    if n_well == len(controls):
        yield Finding(case, "controls", "ok", "", f"{n_well} of {n_well} controls survive")


def _killed(case: str, name: str, kills: MutantKills) -> Finding:
    tasks = ", ".join(kills.killed_by)
    if kills.rule.is_controlled:
        # At level alpha some control is killed by chance now and then; the controls of a whole run tell how often.
        return Finding(
            case, "controls", "warning", name, f"killed by {tasks}",
            f"one in {1 / (kills.rule.alpha or 1):.0f} may be by chance; more mean that attempts are not alike",
        )  # fmt: skip
    return Finding(
        case, "controls", "failed", name, f"killed by {tasks}: the agent does not do the same twice",
        "use the kill rule `exact` with more attempts, or make the agent deterministic",
    )  # fmt: skip


def check_subsets(case: str, subsets: Mapping[str, Sequence[str]], eligible: Sequence[str]) -> Finding:
    """Subsets of one size only cannot tell a metric from the number of tasks it is fed."""
    kept = set(eligible)
    sizes = sorted({len(kept.intersection(tasks)) for tasks in subsets.values()} - {0})
    if len(sizes) < 2:
        shown = f"all have {sizes[0]} eligible tasks" if sizes else "none has an eligible task"
        remedy = "draw several sizes: metric-benchmark subsets generate CASE"
        return Finding(
            case, "subsets", "warning" if sizes else "failed", "", f"{len(subsets)} subsets, {shown}", remedy
        )
    message = f"{len(subsets)} subsets of {len(sizes)} sizes, {sizes[0]} to {sizes[-1]} tasks"
    return Finding(case, "subsets", "ok", "", message)


def check_metric(case: str, name: str, metric: MetricCoverage) -> Iterator[Finding]:
    """A metric that is the same for all subsets cannot go together with anything."""
    values = [s.coverage for s in metric.subsets.values() if not isinstance(s.coverage, Undefined)]
    remedy = "see its settings; or draw subsets that differ in what it looks at"
    if not values:
        reasons = sorted({s.coverage.reason for s in metric.subsets.values() if isinstance(s.coverage, Undefined)})
        yield Finding(case, "metrics", "failed", name, f"no subset has a coverage: {', '.join(reasons)}", remedy)
        return
    if max(values) - min(values) < 1e-12:
        yield Finding(case, "metrics", "failed", name, f"constant: {values[0]:g} for all {len(values)} subsets", remedy)
    else:
        message = f"{min(values):.3f} to {max(values):.3f} over {len(values)} subsets"
        yield Finding(case, "metrics", "ok", name, message)
    if metric.unmeasured_tasks:
        tasks = list(metric.unmeasured_tasks)
        yield Finding(
            case, "metrics", "warning", name, f"{len(tasks)} tasks are unmeasured: {', '.join(tasks[:5])}",
            "have the agent write a trajectory; subsets with such a task have no coverage",
        )  # fmt: skip


def _untested(case: str, check: Check, tasks: Sequence[str], rewards: Rewards) -> Iterator[Finding]:
    for task in tasks:
        if not rewards.get(task):
            yield Finding(case, check, "unknown", task, "no trial with a verdict", "run again; see the trial's folder")


def _all_well(
    case: str, check: Check, total: int, wrong: Sequence[str], tasks: Sequence[str], rewards: Rewards, what: str
) -> Iterator[Finding]:
    if not wrong and all(rewards.get(task) for task in tasks):
        yield Finding(case, check, "ok", "", f"{total} of {total} {what}")


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
