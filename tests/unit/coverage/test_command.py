# SPDX-License-Identifier: Apache-2.0
"""The command metric: any program; each way in which it can go wrong has its message and exit status 6."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.registry import MetricSpec, check_metrics
from metric_benchmark.errors import ConfigError, MetricError
from metric_benchmark.records.base import Undefined

COUNT = """
import json, sys
request = json.load(sys.stdin)
tasks, items = {}, set()
for task in request["tasks"]:
    if task["traces"]:
        tasks[task["id"]] = sorted(
            {c["function_name"] for t in task["traces"] for s in json.load(open(t["path"]))["steps"]
             for c in s.get("tool_calls", [])}
        )
        items |= set(tasks[task["id"]])
print("thinking", file=sys.stderr)
unmeasured = {t["id"]: t["unmeasured"] for t in request["tasks"] if t["unmeasured"]}
print(json.dumps({"items": sorted(items | set(request["settings"].get("tools", []))), "tasks": tasks,
                  "unmeasured": unmeasured}))
"""


@pytest.fixture
def desk(trial, tmp_path: Path):
    baseline = [
        trial("a", trial.atif(trial.step("list", "read"))),
        trial("b", trial.atif(trial.step("read"))),
        trial("c"),
    ]
    base = tmp_path / "experiment"
    base.mkdir()

    def measure(script: str | None = None, **more):
        """Measures by a Python script, or by the settings given."""
        if script is not None:
            (base / "metric.py").write_text(script)
        given = {"argv": ["{python}", "metric.py"], "files": ["metric.py"], "timeout_s": 30}
        keys = ("argv", "files", "timeout_s", "max_answer_bytes", "settings", "env")
        given |= {key: more.pop(key) for key in keys if key in more}
        record = measure_coverage(
            "desk",
            **{
                "tasks": ["a", "b", "c"],
                "baseline": baseline,
                "subsets": {"s1": ["a"], "s2": ["a", "b"], "s3": ["a", "c"]},
                "description": {"title": "desk"},
                "metrics": [MetricSpec("mine", "command", given)],
                "base": base,
                **more,
            },
        )
        return record.metrics["mine"]

    measure.base, measure.baseline = base, baseline
    return measure


def test_a_program_answers_with_a_cover_matrix(desk, tmp_path):
    found = desk(COUNT, settings={"tools": ["write", "edit"]}, cache=tmp_path / "cache")
    assert found.items == ["edit", "list", "read", "write"]
    assert found.tasks == {"a": ["list", "read"], "b": ["read"]}
    assert found.subsets["s1"].coverage == 0.5
    assert found.subsets["s3"].coverage == Undefined(reason="unmeasured_tasks")
    assert found.unmeasured_reasons == {"c": "the agent wrote no trajectory"}
    assert set(found.files_sha256) == {"metric.py"}
    kept = tmp_path / "cache" / "mine"
    assert (kept / f"{found.request_sha256}.stderr.txt").read_text() == "thinking\n"


def test_a_shell_program_may_answer_per_subset(desk):
    (desk.base / "metric.sh").write_text('#!/bin/sh\necho \'{"subsets": {"s1": 0.5, "s2": 1, "s3": 0}}\'\n')
    (desk.base / "metric.sh").chmod(0o755)
    found = desk(argv=["./metric.sh"], files=["metric.sh"])
    assert (found.kind, found.items, found.subsets["s2"].coverage) == ("opaque", [], 1.0)
    # The program said nothing of `c`, but nobody has a trace of it.
    assert found.subsets["s3"].coverage == Undefined(reason="unmeasured_tasks")


def test_the_request_says_all_that_a_metric_is_given(desk, tmp_path):
    script = "import sys; data = sys.stdin.read(); print(data, file=sys.stderr); print('{\"subsets\": {}}')"
    with pytest.raises(MetricError, match="no answer for subset s1, s2, s3"):
        desk(script, cache=tmp_path / "cache", settings={"depth": 2})
    request = json.loads(next((tmp_path / "cache").rglob("*.stderr.txt")).read_text())
    sha256 = desk.baseline[0].trajectory_sha256
    assert request == {
        "schema": "metric-benchmark/coverage-request/v1",
        "case": "desk",
        "description": {"title": "desk"},
        "tasks": [
            {
                "id": "a",
                "unmeasured": None,
                "traces": [
                    {
                        "attempt": 1,
                        "path": "traces/a/1/agent/trajectory.json",
                        "folder": "traces/a/1",
                        "sha256": sha256,
                        "digest": sha256,
                    }
                ],
            },
            {**request["tasks"][1], "id": "b", "unmeasured": None},
            {"id": "c", "traces": [], "unmeasured": "the agent wrote no trajectory"},
        ],
        "subsets": {"s1": ["a"], "s2": ["a", "b"], "s3": ["a", "c"]},
        "settings": {"depth": 2},
        "files": {"metric.py": "metric.py"},
    }


@pytest.mark.parametrize(
    ("script", "settings", "message"),
    [
        ("import time; time.sleep(60)", {"timeout_s": 1}, "ended with no answer within 1 s and was killed"),
        ("raise SystemExit('bad day')", {}, "ended with exit status 1; the end of its stderr:\nbad day"),
        ("import os, signal; signal.raise_signal(signal.SIGSEGV)", {}, "ended with signal 11"),
        ("print('not json')", {}, "answered 'not json\\n', expected one JSON object"),
        ("", {}, "answered '', expected one JSON object"),
        ("print('[]')", {}, "answered [], expected a JSON object"),
        ("print('{}')", {}, "answered nothing for 'items'"),
        ('print(\'{"subsets": {"s1": 1, "s2": 1}}\')', {}, "no answer for subset s3"),
        ('print(\'{"subsets": {"s1": NaN, "s2": 1, "s3": 1}}\')', {}, "subset s1: answered nan"),
        ('print(\'{"subsets": {"s1": 1.2, "s2": 1, "s3": 1}}\')', {}, "subset s1: answered 1.2"),
        ('print(\'{"subsets": {"s1": 1, "s2": 1, "s3": 1, "zz": 1}}\')', {}, "unknown subset zz"),
        ('print(\'{"items": ["x"], "tasks": {"zz": ["x"]}}\')', {}, "unknown task zz"),
        ("import sys; sys.stdout.buffer.write(b'{\\xff}')", {}, "answered bytes that are not UTF-8 (byte 1)"),
        (
            "import sys\nfor _ in range(100): sys.stdout.write('x' * 1000000)",
            {"max_answer_bytes": 100_000},
            "ended with more than 100000 bytes of answer and was killed",
        ),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_a_program_that_goes_wrong_is_a_metric_error(desk, tmp_path, script, settings, message):
    with pytest.raises(MetricError) as caught:
        desk(script, cache=tmp_path / "cache", **settings)
    assert str(caught.value).startswith("metric mine: ")
    assert message in str(caught.value)
    assert caught.value.exit_status == 6
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_an_answer_of_100_mb_is_refused_in_bounded_memory(desk):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    script = "import sys\nfor _ in range(100): sys.stdout.write('x' * 1000000)"
    with pytest.raises(MetricError, match="more than 16777216 bytes of answer"):
        desk(script)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 80_000  # kB


def test_a_program_that_is_not_there(desk):
    with pytest.raises(MetricError, match="'no-such-program' cannot be started: no such program"):
        desk(argv=["no-such-program"], files=[])
    with pytest.raises(MetricError, match="must be listed under `files`"):
        desk(argv=["./metric.sh"], files=[])


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.py", "traces/a", ""])
def test_files_must_lie_beside_the_experiment(desk, name):
    with pytest.raises(ConfigError, match=r"settings\.files: .* cannot be copied"):
        desk(files=[name])


def test_files_that_are_not_there_are_config_errors(desk):
    spec = MetricSpec("mine", "command", {"argv": ["x"], "files": ["gone.py"]})
    assert "gone.py: no such file or folder" in str(check_metrics([spec], desk.base, cases=["desk"])[0])


def test_an_answer_is_asked_for_once_and_again_when_the_program_changes(desk, tmp_path):
    cache, calls = tmp_path / "cache", tmp_path / "calls"
    script = f"open({str(calls)!r}, 'a').write('x')\n" + COUNT
    first = desk(script, cache=cache)
    assert desk(cache=cache) == first
    assert calls.read_text() == "x"
    desk(script + "\n", cache=cache)
    assert calls.read_text() == "xx"


def test_replay_launches_nothing_and_a_miss_is_refused_first(desk, tmp_path):
    cache, calls = tmp_path / "cache", tmp_path / "calls"
    script = f"open({str(calls)!r}, 'a').write('x')\n" + COUNT
    with pytest.raises(MetricError, match="metric mine: replay was asked for, but no answer is cached"):
        desk(script, cache=cache, replay=True)
    assert not calls.exists()
    first = desk(cache=cache)
    shutil.copytree(cache, tmp_path / "elsewhere")
    assert desk(cache=tmp_path / "elsewhere", replay=True) == first
    assert calls.read_text() == "x"
    with pytest.raises(MetricError, match="there is no cache"):
        desk(replay=True)
