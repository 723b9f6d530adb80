# SPDX-License-Identifier: Apache-2.0
"""Comparison of two experiments: published intervals, and what is paired with what."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from metric_benchmark.errors import ConfigError, EvidenceError
from metric_benchmark.reporting.compare import compare
from metric_benchmark.reporting.compare_output import comparison_markdown, comparison_rows, render_comparison
from metric_benchmark.reporting.data import ReportData, load_report
from metric_benchmark.reporting.paired import (
    PairedDesign,
    association,
    bootstrap_difference,
    mcnemar_exact,
    tango_interval,
)


@pytest.mark.parametrize(
    ("b", "c", "n", "level", "low", "high"),
    [
        # Tango 1998 (Statistics in Medicine 17, 891-908), tables of 4, 9, 3, 16 and of 43, 0, 1, 0 pairs.
        (9, 3, 32, 0.95, -0.027, 0.390),
        (0, 1, 44, 0.90, -0.096, 0.037),
    ],
)
def test_tangos_published_intervals(b, c, n, level, low, high):
    assert tango_interval(b, c, n, level) == (pytest.approx(low, abs=5e-4), pytest.approx(high, abs=5e-4))


def test_tango_without_discordant_pairs_is_z2_over_n_plus_z2():
    assert tango_interval(0, 0, 10) == (
        pytest.approx(-3.8415 / 13.8415, abs=1e-4),
        pytest.approx(3.8415 / 13.8415, abs=1e-4),
    )
    assert tango_interval(10, 0, 10)[1] == 1.0


def test_exact_mcnemar_by_hand():
    # 1 against 5 of 6: 2 (C(6,0) + C(6,1)) / 2^6 = 14 / 64.
    assert mcnemar_exact(1, 5) == pytest.approx(14 / 64)
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(3, 3) == 1.0


def _matrices(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    kills, cover = rng.random((30, 15)) < 0.2, rng.random((30, 12)) < 0.2
    membership = np.array([rng.permutation(30) < size for size in (5, 8, 12) for _ in range(20)])
    return membership, kills, cover


def test_the_association_on_the_data_is_the_records(finished):
    case = load_report(finished).cases[1]
    from metric_benchmark.reporting.compare import _paired_design

    design = _paired_design(case, case, "tool_calls", "synthetic")
    for cover, name in zip(design.covers, ("tool_calls", "synthetic"), strict=True):
        found = association(
            design.membership, design.kills[0], cover, np.ones(design.kills[0].shape[1]), np.ones(cover.shape[1])
        )
        expected = case.correlation.metrics[name].estimates.partial_spearman_given_size.value
        assert found == pytest.approx(expected)


def test_a_metric_never_differs_from_itself():
    membership, kills, cover = _matrices()
    point, deviation, n = bootstrap_difference(
        PairedDesign(membership, (kills, kills), (cover, cover[:, ::-1])), np.random.default_rng(1), 50
    )
    assert (point, deviation, n) == (0.0, 0.0, 50)


def test_pairing_makes_the_difference_of_near_equal_metrics_certain():
    membership, kills, cover = _matrices()
    near, other = cover.copy(), np.random.default_rng(9).random(cover.shape) < 0.2
    near[0, 0] = ~near[0, 0]
    rng = np.random.default_rng(2)
    _, small, _ = bootstrap_difference(PairedDesign(membership, (kills, kills), (cover, near)), rng, 200)
    _, large, _ = bootstrap_difference(PairedDesign(membership, (kills, kills), (cover, other)), rng, 200)
    assert 0 < small < large / 3


@pytest.fixture(scope="module")
def two(world, tmp_path_factory) -> tuple[ReportData, ReportData]:
    """An old suite, and a new one in which budget-1 is killed, too, and amnesia-1 no longer is."""
    path = tmp_path_factory.mktemp("compare")
    old = load_report(
        world.write_world(path / "a", {"desk": world.World(), "gone": world.World(n_tasks=6, n_mutants=3)})
    )
    scores = old.cases[0].scores
    mutants = dict(scores.mutants)
    mutants["budget-1"] = mutants["budget-1"].model_copy(update={"killed_by": ["task-01"], "is_never_killed": False})
    mutants["amnesia-1"] = mutants["amnesia-1"].model_copy(update={"killed_by": [], "is_never_killed": True})
    new = replace(old.cases[0], scores=scores.model_copy(update={"mutants": mutants}))
    return old, replace(old, name="new", cases=(new,))


def _one(comparison, what: str):
    (found,) = [d for case in comparison.cases for d in case.differences if d.what == what]
    return found


def test_suites_are_compared_over_the_mutants_both_have(two):
    comparison = compare(*two, np.random.default_rng(0), replicates=20)
    found = _one(comparison, "mutant score of the whole suite")
    assert (found.a, found.b, found.estimate, found.n, found.is_paired) == (11 / 12, 11 / 12, 0.0, 12, True)
    assert (found.ci_low, found.ci_high) == tango_interval(1, 1, 12)
    assert found.p_value == 1.0
    assert (comparison.cases[0].gained, comparison.cases[0].lost) == (("budget-1",), ("amnesia-1",))
    assert comparison.only_a == ("gone",)


def test_two_metrics_of_one_experiment_are_paired_by_subset(finished):
    data = load_report(finished)
    comparison = compare(
        data, data, np.random.default_rng(0), metrics={"tool_calls": "synthetic"}, replicates=200, level=0.9
    )
    for case, record in zip(comparison.cases, data.cases, strict=True):
        (found,) = [d for d in case.differences if d.what.startswith("association")]
        assert found.what == "association beyond size: tool_calls against synthetic"
        assert found.a == record.correlation.metrics["tool_calls"].calibrated.estimate
        assert found.b == record.correlation.metrics["synthetic"].calibrated.estimate
        assert found.is_paired
        assert found.ci_low < found.estimate < found.ci_high
        assert ("approximate" in found.note) == (record.case_id == "files")
        assert case.gained == case.lost == ()


def test_other_tasks_make_it_unpaired_and_say_so(world, finished, tmp_path):
    other = load_report(world.write_world(tmp_path, {"desk": world.World(n_tasks=24)}))
    comparison = compare(load_report(finished), other, np.random.default_rng(0), metrics={"synthetic": "synthetic"})
    found = _one(comparison, "association beyond size: synthetic")
    assert not found.is_paired
    assert "as if the two were independent" in found.note
    assert found.ci_low < found.estimate < found.ci_high
    assert any("20 eligible tasks in common; 0 only in A, 4 only in B" in note for note in comparison.cases[0].notes)


def test_an_undefined_association_has_no_difference(two):
    found = _one(compare(*two, np.random.default_rng(0), replicates=20), "association beyond size: suite_size")
    assert (found.a, found.estimate, found.ci_low) == (None, None, None)
    assert "undefined" in found.note


def test_refusals(world, finished, tmp_path):
    data = load_report(finished)
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match="has no metric nosuch; it has: tool_calls"):
        compare(data, data, rng, metrics={"tool_calls": "nosuch"})
    small = world.World(n_tasks=6, n_mutants=3, n_subsets=8)
    with pytest.raises(EvidenceError, match="no case in common"):
        compare(data, load_report(world.write_world(tmp_path / "x", {"other": small})), rng)
    open_ = load_report(world.write_world(tmp_path / "y", {"desk": small}, stop_after="scores"))
    with pytest.raises(EvidenceError, match=r"cannot be compared\. Not complete"):
        compare(data, open_, rng)


def test_output_for_people_and_programs(two):
    comparison = compare(*two, np.random.default_rng(0), replicates=20)
    rows = comparison_rows(comparison)
    assert {"case_id", "estimate", "ci_low", "ci_high", "p_value"} <= set(rows[0])
    console = Console(width=80, color_system=None, file=io.StringIO())
    console.print(render_comparison(comparison))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "desk: only B kills budget-1" in text
    assert "only in A: gone" in text
    markdown = comparison_markdown(comparison)
    assert "| desk | mutant score of the whole suite | 0.92 | 0.92 | +0.00 |" in markdown
    assert "- desk: only A kills amnesia-1" in markdown
