# SPDX-License-Identifier: Apache-2.0
"""The library driver behind `make demo`: everything once, nothing twice, and nothing left behind when it is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = [pytest.mark.harbor, pytest.mark.slow]


def _start(experiment: Path, output: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "metric_benchmark_dagster.demo", "--experiment", str(experiment)]
    return subprocess.Popen(
        [*command, "--output", str(output)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _demo(experiment: Path, output: Path) -> tuple[int, str, str]:
    with _start(experiment, output) as process:
        out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def test_everything_runs_once_and_a_second_time_nothing(small: ModuleType, tmp_path: Path) -> None:
    path = small.build_experiment(tmp_path / "experiment")
    output = tmp_path / "runs" / "first"
    status, out, err = _demo(path, output)
    assert status == 0, err
    assert "10 trials run, 0 kept from before; 12 Dagster runs in " in out
    for text in ("case", "metric", "(sizes)", "rho", "status", "tiny", "suite_size", "not tested"):
        assert text in out
    assert f"evidence: {output}" in out
    assert f"report:   {output}/report.html" in out
    assert (output / "experiment.json").exists()

    seal = (output / "experiment.json").read_bytes()
    status, out, err = _demo(path, output)
    assert status == 0, err
    assert "0 trials run, 10 kept from before; 0 Dagster runs in " in out
    assert (output / "experiment.json").read_bytes() == seal


@pytest.mark.nightly
def test_a_new_mutant_is_the_only_thing_run(small: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "experiment"
    path = small.build_experiment(folder)
    assert _demo(path, tmp_path / "out")[0] == 0
    case = folder / "tiny" / "case.yaml"
    case.write_text(case.read_text() + "  - {id: new, operator: external/nop, agent: {name: nop}}\n")
    small.sign_experiment(path)
    status, out, err = _demo(path, tmp_path / "out")
    assert status == 0, err
    # Two observations, its results, its kills, its case, the end.
    assert "2 trials run, 10 kept from before; 6 Dagster runs in " in out
    assert "raw_results of tiny|new done" in err


def test_a_wrong_experiment_is_refused_and_nothing_is_written(small: ModuleType, tmp_path: Path) -> None:
    path = small.build_experiment(tmp_path / "experiment", cases={"tiny": {"lazy": "nop"}})
    (tmp_path / "experiment" / "tiny" / "description.yaml").write_text("schema: x\n")
    status, out, err = _demo(path, tmp_path / "runs" / "out")
    assert status == 2
    assert out == ""
    assert "description.yaml" in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_a_failing_variant_stops_only_what_depends_on_it(small: ModuleType, tmp_path: Path) -> None:
    # The budget covers all but one trial of the last variant that is run.
    path = small.build_experiment(tmp_path / "experiment", execution="budget: {max_trials: 9}\n")
    status, _, err = _demo(path, tmp_path / "out")
    assert status == 4
    assert err.count("the budget is reached") >= 1
    assert "execution_manifest, report done" not in err
    assert len(list((tmp_path / "out" / "execution" / "tiny").glob("*/*/raw-results.json"))) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
def test_stopped_in_mid_trial_it_leaves_no_process_behind_and_goes_on_later(
    small: ModuleType, processes: ModuleType, tmp_path: Path, number: signal.Signals
) -> None:
    path = small.build_experiment(tmp_path / "experiment", sleep_s=120)
    with _start(path, tmp_path / "out") as process:
        _wait_for(lambda: processes.sandboxes_of(process.pid))
        started = processes.started_by(process.pid)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; what has a verdict is kept" in err
    assert "Traceback" not in err
    assert processes.left_of(started) == []
    # No lock is left either: the same evidence can be worked on at once.
    for script in (tmp_path / "experiment").glob("tiny/tasks/*/solution/solve.sh"):
        script.write_text(script.read_text().replace("sleep 120\n", ""))
    small.sign_experiment(path)
    assert _demo(path, tmp_path / "out")[0] == 0


def _wait_for(condition: Callable[[], object], within_s: float = 90) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
