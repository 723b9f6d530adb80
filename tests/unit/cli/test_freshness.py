# SPDX-License-Identifier: Apache-2.0
"""What each kind of change makes stale, with the reason, and what stays fresh: on a whole experiment of one case."""

from __future__ import annotations

import pytest

RAW = ["desk|baseline", "desk|control-1", "desk|short", "desk|idle"]
CASE = ["subset_scores desk", "coverage desk", "correlation desk"]
KILLS = ["mutant_scores desk|control-1", "mutant_scores desk|short", "mutant_scores desk|idle"]


@pytest.fixture
def whole(run, execute):
    """The experiment after all its stages; gives what is not fresh, with the reason."""
    execute("out")
    assert run("run-experiment", "exp", "--results", "out").status == 0

    def stale() -> dict[str, str]:
        ended = run("status", "exp", "--output", "out", "--json")
        assert ended.status == 0, ended.err
        found = [p for p in ended.json["partitions"] if p["state"] != "fresh"]
        assert {p["state"] for p in found} <= {"stale"}
        return {f"{p['stage']} {p['key']}": p["reason"] for p in found}

    assert stale() == {}
    return stale


def test_a_changed_mutant_makes_exactly_its_partitions_stale_and_what_depends_on_them(whole, project):
    project.edit("case.yaml", ("max_actions: 1", "max_actions: 2"))
    project.sign()
    assert whole() == {
        "raw_results desk|short": "the operator or its parameters changed",
        "mutant_scores desk|short": "raw_results of desk|short is stale",
        "subset_scores desk": "mutant_scores of desk|short is stale",
        "correlation desk": "subset_scores of desk is stale",
    }


#: A change: the file, the text and what replaces it; what is stale; the reason of the first of it.
CHANGES = {
    "agent": (
        "case.yaml", "agent: {name: nop}", "agent: {name: nop, model_name: m}",
        ["raw_results desk|idle", KILLS[2], CASE[0], CASE[2]], "the agent's settings changed",
    ),
    "task": (
        "tasks/alpha/instruction.md", "Write alpha", "Now write alpha",
        [*(f"raw_results {key}" for key in RAW), *KILLS, *CASE], "task changed: alpha",
    ),
    "attempts of mutants": (
        "execution.yaml", "mutant: {attempts: 1}", "mutant: {attempts: 3}",
        ["raw_results desk|short", "raw_results desk|idle", *KILLS[1:], CASE[0], CASE[2]],
        "attempts raised from 1 to 3",
    ),
    "timeouts": (
        "execution.yaml", "reward_key: reward", "reward_key: reward\ntimeouts: {agent_multiplier: 2}",
        [*(f"raw_results {key}" for key in RAW), *KILLS, *CASE], "the timeouts changed",
    ),
    "environment": (
        "execution.yaml", "environment: docker", "environment: e2b",
        [*(f"raw_results {key}" for key in RAW), *KILLS, *CASE], "the environment changed",
    ),
    "reward key": (
        "execution.yaml", "reward_key: reward", "reward_key: other",
        [*(f"raw_results {key}" for key in RAW), *KILLS, *CASE], "the reward key changed",
    ),
    "subsets": ("subsets.yaml", "tasks: [alpha, beta]", "tasks: [beta]", CASE, "the subsets changed"),
    "metric settings": (
        "analysis.yaml", "- {name: suite_size}", "- {name: suite_size}\n  - {name: synthetic}",
        CASE[1:], "the metric settings changed",
    ),
    "description": ("description.yaml", "title: A desk", "title: The desk", CASE[1:], "the case's description changed"),
    "scoring": (
        "analysis.yaml", "min_pass_share: 0.8", "min_pass_share: 0.7",
        [*KILLS, CASE[0], CASE[2]], "the scoring settings changed",
    ),
    "correlation settings": (
        "analysis.yaml", "coverage:", "correlation: {seed: 7}\ncoverage:",
        [CASE[2]], "the correlation settings changed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "expected", "reason"), CHANGES.values(), ids=CHANGES)
def test_what_a_change_makes_stale(whole, project, file, old, new, expected, reason):
    project.edit(file, (old, new))
    project.sign()
    found = whole()
    assert list(found) == expected
    assert found[expected[0]] == reason


@pytest.mark.parametrize(
    ("stage", "expected"),
    [("scoring", [*KILLS, CASE[0], CASE[2]]), ("coverage", CASE[1:]), ("correlation", CASE[2:]), ("execution", [])],
)
def test_another_implementation_of_a_stage_makes_that_stage_and_the_later_ones_stale(
    whole, monkeypatch, stage, expected
):
    from metric_benchmark.pipeline import provenance, status

    def other(name: str):
        found = provenance.implementation(name)
        return found.model_copy(update={"stage_sha256": "0" * 64}) if name == stage else found

    monkeypatch.setattr(status, "implementation", other)
    found = whole()
    assert list(found) == expected
    if expected:
        assert found[expected[0]] == f"the implementation of stage {expected[0].split()[0]} has changed"


def test_a_new_mutant_is_missing_and_makes_the_scores_of_its_case_stale(whole, run, project):
    project.edit(
        "case.yaml", ("  - id: idle", "  - id: new\n    operator: external/new\n    agent: {name: nop}\n  - id: idle")
    )
    project.sign()
    found = {
        f"{p['stage']} {p['key']}": (p["state"], p["reason"])
        for p in run("status", "exp", "--output", "out", "--json").json["partitions"]
        if p["state"] != "fresh"
    }
    assert found == {
        "raw_results desk|new": ("missing", "never run"),
        "mutant_scores desk|new": ("missing", "never computed"),
        "subset_scores desk": ("stale", "computed without mutants/new; mutant_scores of desk|new is missing"),
        "correlation desk": ("stale", "subset_scores of desk is stale"),
    }


def test_what_was_computed_with_a_mutant_that_is_gone_says_so(whole, project):
    before = project.read("case.yaml")
    project.write("case.yaml", before[: before.index("  - id: idle")])
    project.sign()
    assert whole() == {
        "subset_scores desk": "computed with mutants/idle, which is no longer there",
        "correlation desk": "subset_scores of desk is stale",
    }


def test_a_variant_whose_trials_lack_verdicts_has_failed_unless_the_settings_tolerate_it(whole, run, project):
    from metric_benchmark.evidence.index import update_index
    from metric_benchmark.evidence.layout import EvidenceRoot
    from metric_benchmark.evidence.reader import read_index, read_raw_results

    root = EvidenceRoot(project.folder.parent / "out")
    results = read_raw_results(root, read_index(root, "desk"), "idle")
    update_index(root, results.model_copy(update={"trials": results.trials[:-1]}))

    def idle() -> tuple[str, str]:
        partitions = run("status", "exp", "--output", "out", "--json").json["partitions"]
        (found,) = [p for p in partitions if (p["stage"], p["key"]) == ("raw_results", "desk|idle")]
        return found["state"], found["reason"]

    assert idle() == ("failed", "1 trials without a verdict")
    project.edit("execution.yaml", ("reward_key: reward", "reward_key: reward\nmax_trials_without_verdict: 1"))
    assert idle() == ("fresh", "1 trials without a verdict, which the settings tolerate")


def test_trials_without_a_verdict_are_tolerated_over_all_variants_and_not_each(whole, run, project):
    from metric_benchmark.evidence.index import update_index
    from metric_benchmark.evidence.layout import EvidenceRoot
    from metric_benchmark.evidence.reader import read_index, read_raw_results

    root = EvidenceRoot(project.folder.parent / "out")
    for variant in ("idle", "short"):
        results = read_raw_results(root, read_index(root, "desk"), variant)
        update_index(root, results.model_copy(update={"trials": results.trials[:-1]}))
    project.edit("execution.yaml", ("reward_key: reward", "reward_key: reward\nmax_trials_without_verdict: 1"))

    def raw() -> dict[str, tuple[str, str]]:
        partitions = run("status", "exp", "--output", "out", "--json").json["partitions"]
        return {p["key"]: (p["state"], p["reason"]) for p in partitions if p["stage"] == "raw_results"}

    failed = ("failed", "1 trials without a verdict, 2 in all (1 tolerated)")
    assert raw() == {**dict.fromkeys(RAW, ("fresh", "")), "desk|idle": failed, "desk|short": failed}
    project.edit("execution.yaml", ("max_trials_without_verdict: 1", "max_trials_without_verdict: 2"))
    tolerated = ("fresh", "1 trials without a verdict, which the settings tolerate")
    assert raw() == {**dict.fromkeys(RAW, ("fresh", "")), "desk|idle": tolerated, "desk|short": tolerated}
